//! A server with agents, a scripted model, and clients of two organisations.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tower::ServiceExt;
use weftwork::models::{Capability, ChatModel, ChatRequest, ChatStream, ModelError, ModelInfo};
use weftwork::platform::{
    Agents, DefinitionFolder, HostedAgents, NewExposure, RowWriter, Services, read_folder,
};
use weftwork::runtime::Runtime;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::{Policy, ToolError};
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

    /// The error of a refused request.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        assert!(self.status >= 400, "{}", self.body);
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        for member in ["message", "type", "param", "code"] {
            assert!(body["error"].get(member).is_some(), "{body}");
        }
        body["error"].clone()
    }

    /// The data of the server-sent events.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let data = data.filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
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

/// An agent whose builds have a schema.
const SCORES: &str = "\
type: context
deliverable: {format: json, schema: {type: object, required: [line], properties: {line: {type: string}}}}
output_schema:
  type: object
  required: [line]
  properties: {line: {type: string}}
";

/// Answers with what the user said, in two parts.
pub(crate) fn echo(request: &ChatRequest) -> Step {
    if request.response_schema.is_some() {
        let line = if last_text(request).contains("fail") { "fail" } else { "a" };
        return Step::text(json!({"line": line}).to_string());
    }
    let count = request.messages.iter().filter(|message| message.role != Role::System).count();
    let text = format!("{count}: {}", last_text(request));
    Step::text(text).using(Tokens::reported(7, 5).cached(3).reasoning(2))
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
            agent("scores", SCORES),
            agent("hidden", "type: context\n"),
            agent("own", "type: context\norganization: one\n"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            model(request)
        });
        let services = Services {
            model: Arc::new(Blind(model)),
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools: vec![Arc::new(write)],
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
        let server = Server::new(runtime).platform(platform).mount(weftwork_openai::routes());
        let server = tokens
            .into_iter()
            .fold(server, |server, (token, who)| server.token(token, who).expect("valid"));
        let router = map(server).router().expect("has tokens");
        let world = Self { router, agents, store, asked };
        for (org, slug) in [(None, "golf"), (None, "clerk"), (None, "scores"), (Some("one"), "own")]
        {
            world.expose(org, slug, true).await;
        }
        world
    }

    /// Exposes an agent, or no longer.
    pub(crate) async fn expose(&self, org: Option<&str>, slug: &str, is_on: bool) {
        let protocols = [AgentProtocol::OpenAi].into();
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
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_owned())).expect("a request")).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send_with(token, &format!("GET {path}"), &[], "").await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send_with(token, &format!("POST {path}"), &[], &body.to_string()).await
    }

    /// Asks for a chat completion.
    pub(crate) async fn chat(&self, body: Value) -> Answer {
        self.post(ADA, "/v1/chat/completions", &body).await
    }

    /// Asks for a response.
    pub(crate) async fn respond(&self, body: Value) -> Answer {
        self.post(ADA, "/v1/responses", &body).await
    }
}

/// The text of the first message of a response.
pub(crate) fn text_of(response: &Value) -> &str {
    response.pointer("/output/0/content/0/text").and_then(Value::as_str).unwrap_or_default()
}

/// A scripted model that takes no images.
#[derive(Debug)]
struct Blind(ScriptedModel);

impl ChatModel for Blind {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn lacks(&self) -> &[Capability] {
        &[Capability::Images]
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.0.stream(request)
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
