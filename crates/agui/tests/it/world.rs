//! A server with agents, a scripted model, and clients of two organisations.

use crate::rules::check_order;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt;
use weftwork::models::{Capability, ChatModel, ChatRequest, ChatStream, ModelError, ModelInfo};
use weftwork::platform::{
    Agents, DefinitionFolder, HostedAgents, NewExposure, RowWriter, Services, read_folder,
};
use weftwork::runtime::Runtime;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::{Policy, Questions, Replies, ToolError, ToolOutput, question};
use weftwork::types::exposure::{AgentProtocol, ExposureChange};
use weftwork::types::message::Role;
use weftwork::types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork::types::usage::Tokens;
use weftwork::types::{BoxFuture, OrgId, Principal, Right, Rights, Timestamp};
use weftwork_server::Server;

/// Number of the calls of `desk/write`.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of the calls of `desk/write` of all tests.
pub(crate) fn written() -> usize {
    WRITTEN.load(Ordering::Relaxed)
}

/// Writes a line, and returns it.
#[weftwork::tool(
    name = "desk/write",
    effect = external_side_effect,
    example(request = "Write a.", args = {"line": "a"})
)]
fn write(line: String) -> Result<String, ToolError> {
    WRITTEN.fetch_add(1, Ordering::Relaxed);
    match line.as_str() {
        "fail" => Err(ToolError::failed("the desk is closed")),
        line => Ok(format!("wrote {line}")),
    }
}

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

/// The clients, by their tokens.
pub(crate) const ADA: &str = "token-of-ada-in-one";
/// Another subject of the organisation of `ADA`.
pub(crate) const EVE: &str = "token-of-eve-in-one";
pub(crate) const BOB: &str = "token-of-bob-in-two";
/// `ADA` with the rights of one kind.
pub(crate) const READER: &str = "token-of-ada-who-reads";
pub(crate) const RUNNER: &str = "token-of-ada-who-runs";

pub(crate) struct World {
    router: Router,
    pub(crate) agents: Agents,
    pub(crate) store: Arc<dyn Store>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
    /// Opens for models, which wait behind their first event while it is closed.
    pub(crate) gate: watch::Sender<bool>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The code of the error of a refused request.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert!(self.status >= 400, "{}", self.body);
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        assert!(body["error"]["message"].is_string(), "{body}");
        body["error"]["code"].as_str().expect("a code").to_owned()
    }

    /// The events of the stream, which keep the rules of the protocol.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<_> = data.map(|data| serde_json::from_str(data).expect("JSON")).collect();
        check_order(&events);
        events
    }
}

/// Reads a definition from its text.
fn agent(slug: &str, text: &str) -> DefinitionFolder {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join(slug);
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("agent.yaml"), text).expect("is written");
    read_folder(&folder).expect("sound")
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

/// An error of a model that no further attempt repairs.
pub(crate) fn malformed() -> ModelError {
    ModelError::Malformed { provider: "p".to_owned(), reason: "no".to_owned(), retriable: false }
}

/// The text of the last message of the user.
pub(crate) fn last_text(request: &ChatRequest) -> String {
    let last = request.messages.iter().rev().find(|message| message.role == Role::User);
    last.map(weftwork::types::message::Message::joined_text).unwrap_or_default()
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
        Self::serving(store, model, |server| server).await
    }

    /// A server of agents of which all but `hidden` are exposed.
    pub(crate) async fn serving(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        map: impl FnOnce(Server) -> Server,
    ) -> Self {
        let clerk = "type: tool\ntools: [desk/write]\nrequires_confirmation: [desk/write]\n";
        let definitions = vec![
            agent("golf", "type: context\ncontext: Answer in short words.\n"),
            agent("clerk", clerk),
            agent("pager", "type: tool\ntools: [desk/book]\n"),
            agent("hidden", "type: context\n"),
            agent("own", "type: context\norganization: one\n"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            model(request)
        });
        let (gate, open) = watch::channel(true);
        let services = Services {
            model: Arc::new(Blind { model, gate: open }),
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools: vec![Arc::new(write), Arc::new(book)],
            policy: Policy::new().allow("desk/*").expect("a pattern"),
            store: Arc::clone(&store),
            sandbox: None,
            egress: Arc::new(NoEgress),
            egress_of_organizations: Arc::new(NoEgress),
            secrets: Arc::new(|_, _| Err("there are none".to_owned())),
        };
        let agents = Agents::new(definitions.into(), services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.open().await.expect("opens");
        let platform = Arc::new(HostedAgents::new(runtime.clone(), agents.clone()));
        let of =
            |org: &str, subject: &str| Principal::new(OrgId::new(org).expect("valid"), subject);
        let tokens = [
            (ADA, of("one", "ada")),
            (EVE, of("one", "eve")),
            (BOB, of("two", "bob")),
            (READER, of("one", "ada").with_rights(Rights::of(&[Right::Read]))),
            (RUNNER, of("one", "ada").with_rights(Rights::of(&[Right::Read, Right::Run]))),
        ];
        let server = Server::new(runtime).platform(platform).mount(weftwork_agui::routes());
        let server = tokens
            .into_iter()
            .fold(server, |server, (token, who)| server.token(token, who).expect("valid"));
        let router = map(server).router().expect("has tokens");
        let world = Self { router, agents, store, asked, gate };
        for (org, slug) in [(None, "golf"), (None, "clerk"), (None, "pager"), (Some("one"), "own")]
        {
            world.expose(org, slug, true).await;
        }
        world
    }

    /// Exposes an agent, or no longer.
    pub(crate) async fn expose(&self, org: Option<&str>, slug: &str, is_on: bool) {
        let protocols = [AgentProtocol::AgUi].into();
        let change = match is_on {
            true => ExposureChange { on: protocols, ..ExposureChange::default() },
            false => ExposureChange { off: protocols, ..ExposureChange::default() },
        };
        let organization = org.map(str::to_owned);
        let by = RowWriter::Operator;
        let new = NewExposure { organization, slug: slug.to_owned(), change, by };
        self.agents.expose(&*self.store, new, Timestamp(1)).await.expect("exposed");
    }

    /// The requests that the model got.
    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.asked.lock().expect("no panic").clone()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a whole body");
        let body = String::from_utf8(body.to_vec()).expect("text");
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Sends a request with headers.
    pub(crate) async fn send_with(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send(request_of(token, request, headers, body)).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send_with(token, &format!("GET {path}"), &[], "").await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send_with(token, &format!("POST {path}"), &[], &body.to_string()).await
    }

    /// Runs an agent, and returns the events.
    pub(crate) async fn run(&self, slug: &str, input: Value) -> Vec<Value> {
        self.post(ADA, &format!("/agui/{slug}"), &input).await.events()
    }

    /// Opens the stream of a run.
    pub(crate) async fn open(&self, slug: &str, input: &Value) -> Events {
        let request = format!("POST /agui/{slug}");
        let request = request_of(ADA, &request, &[], &input.to_string());
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        assert_eq!(response.status(), 200);
        Events { body: response.into_body().into_data_stream(), text: String::new() }
    }
}

fn request_of(token: &str, request: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_owned())).expect("a request")
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

/// The events of an open stream.
pub(crate) struct Events {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Events {
    /// Returns the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let event = line
                    .strip_prefix("data: ")
                    .map(|data| serde_json::from_str(data).expect("JSON"));
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            let bytes = self.body.next().await?.expect("a part");
            self.text.push_str(std::str::from_utf8(&bytes).expect("text"));
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// A scripted model that takes no images.
#[derive(Debug)]
struct Blind {
    model: ScriptedModel,
    gate: watch::Receiver<bool>,
}

impl ChatModel for Blind {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn lacks(&self) -> &[Capability] {
        &[Capability::Images]
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

/// A network that nothing reaches.
#[derive(Debug)]
struct NoEgress;

impl Egress for NoEgress {
    fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let reason = "there is no network".to_owned();
        Box::pin(std::future::ready(Err(EgressError::Connect { host: String::new(), reason })))
    }
}
