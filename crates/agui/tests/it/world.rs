//! A desk whose agents are exposed by AG-UI.

use crate::rules::check_order;
use axum::Router;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::Step;
use weftwork::tools::{Questions, Replies, ToolError, ToolOutput, question};
use weftwork::types::exposure::AgentProtocol;
use weftwork::types::message::Role;
use weftwork::types::usage::Tokens;
pub(crate) use weftwork_protocol_testkit::{
    ADA, Answer, BOB, EVE, Events, READER, RUNNER, last_text, malformed, written,
};
use weftwork_protocol_testkit::{Agent, Blind, Desk, DeskParts, Model, request_of, send};
use weftwork_server::Server;

/// Books a number of guests, for which it asks.
#[weftwork::tool(
    name = "desk/book",
    effect = external_side_effect,
    example(request = "Book a.", args = {"day": "a"})
)]
fn book(day: String, replies: Option<Replies>) -> Result<ToolOutput<String>, ToolError> {
    let Some(replies) = replies else {
        return Ok(Questions::new([question::<u32>(format!("How many on {day}?"))]).into());
    };
    Ok(ToolOutput::Value(match replies.content::<u32>(0)? {
        Some(guests) => format!("{guests} on {day}"),
        None => "nobody came".to_owned(),
    }))
}

pub(crate) struct World {
    router: Router,
    pub(crate) desk: Desk,
    model: Model,
    /// Opens for models, which wait behind their first event while it is closed.
    pub(crate) gate: watch::Sender<bool>,
}

/// Answers with what the user said, in two parts.
pub(crate) fn echo(request: &ChatRequest) -> Step {
    if request.response_schema.is_some() {
        let line = if last_text(request).contains("fail") { "fail" } else { "a" };
        return Step::text(match request.response_schema.as_ref().is_some_and(has_day) {
            true => json!({"day": "Monday"}).to_string(),
            false => json!({"line": line}).to_string(),
        });
    }
    let count = request.messages.iter().filter(|message| message.role != Role::System).count();
    let text = format!("{count}: {}", last_text(request));
    Step::text(text).using(Tokens::reported(7, 5).cached(3).reasoning(2))
}

fn has_day(schema: &Value) -> bool {
    schema.pointer("/properties/day").is_some()
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(echo).await
    }

    pub(crate) async fn with(model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static) -> Self {
        Self::over(Arc::new(MemoryStore::new()), model).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
    ) -> Self {
        Self::built(model, |parts| parts.store(store), |server| server).await
    }

    /// A server with the agent `cashier`.
    pub(crate) async fn of_cashier() -> Self {
        Self::built(echo, |parts| parts.cashier(), |server| server).await
    }

    /// A server on which each account may send one request a minute.
    pub(crate) async fn limited() -> Self {
        Self::built(echo, |parts| parts.limit("requests_per_minute", 1), |server| server).await
    }

    /// A server that takes no runs that wait.
    pub(crate) async fn busy() -> Self {
        Self::built(echo, |parts| parts, |server| server.waiting_max(0)).await
    }

    async fn built(
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        with: impl FnOnce(DeskParts) -> DeskParts,
        map: impl FnOnce(Server) -> Server,
    ) -> Self {
        let model = Model::new(model);
        let (gate, open) = watch::channel(true);
        let parts = DeskParts::new(Blind(Gated { model: model.clone(), gate: open }));
        let pager = Agent::new("pager", "type: tool\ntools: [desk/book]\n");
        let parts = with(parts.tool(book).agent(pager));
        let desk = Desk::open(AgentProtocol::AgUi, parts).await;
        let server = desk.server().mount(weftwork_agui::routes());
        Self { router: Desk::router(map(server)), desk, model, gate }
    }

    /// The requests that the model got.
    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.model.requests()
    }

    /// Sends a request with headers.
    pub(crate) async fn send_with(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        send(&self.router, request_of(token, request, headers, body)).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send_with(token, &format!("GET {path}"), &[], "").await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send_with(token, &format!("POST {path}"), &[], &body.to_string()).await
    }

    /// Runs an agent, and returns the events.
    pub(crate) async fn run(&self, slug: &str, input: Value) -> Vec<Value> {
        events_of(&self.post(ADA, &format!("/agui/{slug}"), &input).await)
    }

    /// Opens the stream of a run.
    pub(crate) async fn open(&self, slug: &str, input: &Value) -> Events {
        let request = format!("POST /agui/{slug}");
        let request = request_of(ADA, &request, &[], &input.to_string());
        weftwork_protocol_testkit::open(&self.router, request).await
    }
}

/// The events of a stream, which keep the rules of the protocol.
#[track_caller]
pub(crate) fn events_of(answer: &Answer) -> Vec<Value> {
    let events = answer.events();
    check_order(&events);
    events
}

/// The code of the error of a refused request.
#[track_caller]
pub(crate) fn code_of(answer: &Answer) -> String {
    answer.error()["code"].as_str().expect("a code").to_owned()
}

/// The input of a run with one message of the user, whose id is its text.
pub(crate) fn says(thread: &str, run: &str, text: &str) -> Value {
    says_all(thread, run, &[text])
}

/// The input of a run with messages of the user, whose ids are their texts.
pub(crate) fn says_all(thread: &str, run: &str, texts: &[&str]) -> Value {
    let user = |text: &&str| json!({"id": text, "role": "user", "content": text});
    let messages: Vec<_> = texts.iter().map(user).collect();
    json!({"threadId": thread, "runId": run, "protocolVersion": "1.0", "state": {},
        "messages": messages, "tools": [], "context": [], "forwardedProps": {}})
}

/// The input of a run that answers interrupts.
pub(crate) fn resumes(thread: &str, run: &str, resume: Value) -> Value {
    let mut input = says_all(thread, run, &[]);
    input["resume"] = resume;
    input
}

/// A model that waits behind its first event while a gate is closed.
#[derive(Debug)]
struct Gated {
    model: Model,
    gate: watch::Receiver<bool>,
}

impl ChatModel for Gated {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let gate = self.gate.clone();
        let events = self.model.stream(request).enumerate();
        Box::pin(events.then(move |(index, event)| {
            let mut gate = gate.clone();
            async move {
                if index > 0 {
                    gate.wait_for(|is_open| *is_open).await.expect("the world is there");
                }
                event
            }
        }))
    }
}
