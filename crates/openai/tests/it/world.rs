//! A desk whose agents are exposed by OpenAI's API.

use axum::Router;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::models::ChatRequest;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::Step;
use weftwork::types::exposure::AgentProtocol;
use weftwork::types::message::Role;
use weftwork::types::usage::Tokens;
pub(crate) use weftwork_protocol_testkit::{
    ADA, Answer, BOB, EVE, READER, RUNNER, last_text, malformed, written,
};
use weftwork_protocol_testkit::{Agent, Blind, Desk, DeskParts, Model, request_of, send};
use weftwork_server::Server;

pub(crate) struct World {
    router: Router,
    pub(crate) desk: Desk,
    model: Model,
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
        let model = Model::new(model);
        let parts = DeskParts::new(Blind(model.clone())).store(store);
        Self::serving(parts, model, |server| server).await
    }

    /// A server on which each account may send one request a minute.
    pub(crate) async fn limited() -> Self {
        let model = Model::new(echo);
        let parts = DeskParts::new(Blind(model.clone())).limit("requests_per_minute", 1);
        Self::serving(parts, model, |server| server).await
    }

    /// A server that takes no runs that wait.
    pub(crate) async fn busy() -> Self {
        let model = Model::new(echo);
        let parts = DeskParts::new(Blind(model.clone()));
        Self::serving(parts, model, |server| server.waiting_max(0)).await
    }

    async fn serving(parts: DeskParts, model: Model, map: impl FnOnce(Server) -> Server) -> Self {
        let parts = parts.agent(Agent::new("scores", SCORES));
        let desk = Desk::open(AgentProtocol::OpenAi, parts).await;
        let server = desk.server().mount(weftwork_openai::routes());
        Self { router: Desk::router(map(server)), desk, model }
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
