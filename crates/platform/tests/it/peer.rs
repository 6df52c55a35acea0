//! Servers of other programs, as a script of answers.

use crate::bench::{Bench, agent};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use weftwork_platform::HostedAgents;
use weftwork_types::BoxFuture;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{
    Egress, EgressError, EgressRequest, EgressResponse, ManualClock, Method,
};
use weftwork_types::run::RunOutcome;
use weftwork_types::task::TaskResponse;

/// Address of the server.
pub(crate) const URL: &str = "https://partner.example";

/// An answer of a server.
pub(crate) type Reply = Result<EgressResponse, EgressError>;

type Script = dyn Fn(usize, &EgressRequest) -> Reply + Send + Sync;

/// A server that answers by a script, and notes what it got.
#[derive(Clone)]
pub(crate) struct Partner {
    script: Arc<Script>,
    got: Arc<Mutex<Vec<EgressRequest>>>,
}

impl std::fmt::Debug for Partner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Partner")
    }
}

impl Partner {
    pub(crate) fn new(
        script: impl Fn(usize, &EgressRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self { script: Arc::new(script), got: Arc::default() }
    }

    /// The requests so far, in order.
    pub(crate) fn got(&self) -> Vec<EgressRequest> {
        self.got.lock().expect("no panic").clone()
    }

    /// The paths of the requests so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        let path = |request: &EgressRequest| request.url.replace(URL, "");
        self.got().iter().map(path).collect()
    }
}

impl Egress for Partner {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Reply> {
        let number = {
            let mut got = self.got.lock().expect("no panic");
            got.push(request.clone());
            got.len() - 1
        };
        Box::pin(std::future::ready((self.script)(number, &request)))
    }
}

/// The body of a request.
pub(crate) fn body(request: &EgressRequest) -> Value {
    serde_json::from_slice(&request.body).expect("JSON")
}

pub(crate) fn header<'r>(request: &'r EgressRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

pub(crate) fn is_get(request: &EgressRequest, end: &str) -> bool {
    request.method == Method::Get && request.url.ends_with(end)
}

pub(crate) fn reply(status: u16, headers: &[(&str, &str)], text: impl Into<String>) -> Reply {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let body = Box::pin(stream::iter([Ok(Bytes::from(text.into()))]));
    Ok(EgressResponse { status, headers: headers.collect(), body })
}

pub(crate) fn answers(status: u16, value: &Value) -> Reply {
    reply(status, &[("content-type", "application/json")], value.to_string())
}

/// A stream of events. It breaks at its end if `breaks`.
pub(crate) fn events(values: &[Value], breaks: bool) -> Reply {
    let mut parts: Vec<Result<Bytes, EgressError>> = Vec::new();
    parts.extend(values.iter().map(|value| Ok(Bytes::from(format!("data: {value}\n\n")))));
    if breaks {
        parts.push(Err(EgressError::Broken {
            host: "partner.example".to_owned(),
            reason: "reset".to_owned(),
        }));
    }
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    Ok(EgressResponse { status: 200, headers, body: Box::pin(stream::iter(parts)) })
}

pub(crate) fn refuses_to_connect() -> Reply {
    let host = "partner.example".to_owned();
    Err(EgressError::Connect { host, reason: "refused".to_owned() })
}

pub(crate) fn breaks() -> Reply {
    let host = "partner.example".to_owned();
    Err(EgressError::Broken { host, reason: "reset".to_owned() })
}

/// An agent of the server, and the platform that asks it.
pub(crate) struct Scene {
    pub(crate) bench: Bench,
    pub(crate) platform: HostedAgents,
    pub(crate) partner: Partner,
}

impl Scene {
    /// `external` are further members of the transport.
    pub(crate) async fn new(external: &str, partner: Partner) -> Self {
        Self::at(None, external, "", partner).await
    }

    pub(crate) async fn at(
        clock: Option<ManualClock>,
        external: &str,
        more: &str,
        partner: Partner,
    ) -> Self {
        let text = format!(
            "type: external\n{more}\ntransport: {{kind: external, external: {{{external}}}}}\n"
        );
        let egress: Arc<dyn Egress> = Arc::new(partner.clone());
        let bench = Bench::with_egress(egress, clock, [agent("partner", &text)]).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform, partner }
    }

    pub(crate) async fn ask(&self, request: Value) -> TaskResponse {
        let mut whole = json!({"agent": "partner", "conversationId": "c"});
        whole
            .as_object_mut()
            .expect("an object")
            .extend(request.as_object().expect("an object").clone());
        let answer = self.bench.ask(&self.platform, whole).await;
        assert!(!json!(answer).to_string().contains("CANARY"), "{answer:?}");
        answer
    }

    /// Asks with a message, and returns the code of the failure.
    pub(crate) async fn code(&self, message: &str) -> String {
        let answer = self.ask(json!({"userMessage": message})).await;
        assert!(!answer.success, "{answer:?}");
        answer.metadata["code"].as_str().expect("a code").to_owned()
    }

    /// Answers the question of a request, and returns the answer of the agent.
    pub(crate) async fn answer(&self, asked: &TaskResponse, value: Value) -> Value {
        let asked = asked.metadata.clone();
        let thread = asked["thread"].as_str().expect("a thread");
        let thread = self.bench.thread("partner", thread);
        let question = Interrupt::deserialize(&asked["questions"][0]).expect("a question");
        let ended = thread.answer(question.answer(value)).await.expect("ends");
        let RunOutcome::Completed { output } = ended.outcome() else { panic!("{ended:?}") };
        output["answer"].clone()
    }
}
