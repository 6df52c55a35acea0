//! A provider of models on this machine.

use super::secret;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::models::registry::ProviderOverride;
use weftwork::models::{ChatModel, ModelRegistry, ProviderTable};
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_types::port::Egress;

/// The provider. Its model opens an account, and fails if the last message says so.
pub(super) struct Provider(LoopbackServer);

impl Provider {
    pub(super) async fn start() -> Self {
        Self(LoopbackServer::start(|_, request| reply(request)).await.expect("a server"))
    }

    /// The model, with a secret key.
    pub(super) fn model(&self) -> Arc<dyn ChatModel> {
        let settings = json!({"lab": {"url": self.0.url(""), "key_env": "LAB_KEY"}});
        let settings: BTreeMap<String, ProviderOverride> =
            serde_json::from_value(settings).expect("settings");
        let env = |name: &str| (name == "LAB_KEY").then(|| secret("key"));
        let table = ProviderTable::load(&env, &settings).expect("a table");
        let host = table.row("lab").expect("a row").host().parse().expect("a host");
        let egress = EgressConfig { allow: vec![host], ..EgressConfig::default() };
        let egress: Arc<dyn Egress> = Arc::new(GuardedClient::new(egress).expect("a client"));
        ModelRegistry::new(&table, &egress).resolve("lab:tiny").expect("a model")
    }

    /// Returns `true` if a request had each of these texts.
    pub(super) fn has_read(&self, texts: &[String]) -> bool {
        let received = self.0.received();
        let has = |request: &Received, text: &String| {
            let body = String::from_utf8_lossy(&request.body);
            body.contains(text) || request.headers.iter().any(|(_, value)| value.contains(text))
        };
        texts.iter().all(|text| received.iter().any(|request| has(request, text)))
    }
}

fn reply(request: &Received) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned();
    let last = last.unwrap_or_default();
    if last["content"] == "fail" {
        let key = request.header("authorization").unwrap_or_default();
        let said = json!({"error": {"message": format!("Incorrect key provided: {key}")}});
        return Reply::full(400, &[("content-type", "application/json")], said.to_string());
    }
    if last["role"] == "tool" {
        return stream(&[json!({"content": "Opened."})], "stop");
    }
    // The secret is in two pieces.
    let args = json!({"id": "A1", "pin": secret("pin")}).to_string();
    let (first, rest) = args.split_at(args.len() - 20);
    let call = |function: Value| json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    let deltas = [
        json!({"tool_calls": [call(json!({"name": "open_account", "arguments": first}))]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": rest}}]}),
    ];
    stream(&deltas, "tool_calls")
}

/// A streamed answer with these deltas.
fn stream(deltas: &[Value], reason: &str) -> Reply {
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let choice = |delta: &Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "lab-1", "choices": [choice]}))
    };
    let said = deltas.iter().fold(head, |reply, delta| reply.piece(choice(delta, Value::Null)));
    said.piece(choice(&json!({}), json!(reason))).piece("data: [DONE]\n\n").end()
}
