//! A provider of models on this machine.

use super::secret;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::models::ProviderOverride;
use weftwork::models::{ChatModel, ModelRegistry, ProviderTable};
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_types::port::Egress;

/// Longest part of a text of a provider that is shown, in characters.
const SHOWN_CHARS: usize = 300;

/// The provider. Its model opens an account, checks or reports it if the last message says so, and
/// fails if it says that, with an error that repeats a part of the request.
pub(super) struct Provider(LoopbackServer);

impl Provider {
    pub(super) async fn start() -> Self {
        Self(LoopbackServer::start(reply).await.expect("a server"))
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

/// Returns the text of an error that repeats what the provider was sent, in one of several ways.
fn echo(number: usize, request: &Received) -> String {
    let key = request.header("authorization").unwrap_or_default();
    let body = String::from_utf8_lossy(&request.body);
    let around = |from: &str| {
        let at = body.find(from).unwrap_or_default();
        body[at..].chars().take(120).collect::<String>()
    };
    match number % 5 {
        0 => format!("Incorrect key provided: {key}"),
        // The arguments, as JSON within JSON.
        1 => format!("invalid call: {}", around("\"arguments\"")),
        2 => format!("invalid result: {}", around(&secret("card"))),
        // The end of what is shown is in the middle of a secret.
        3 => format!("{} {}", "-".repeat(SHOWN_CHARS - 20), secret("street")),
        _ => format!("who has {}?", secret("pin")),
    }
}

/// Returns a failure that repeats what the provider was sent: a status, an event of a stream, or
/// something that is no answer.
fn failure(number: usize, request: &Received) -> Reply {
    let said = echo(number, request);
    let error = json!({"error": {"message": said}});
    let events = [("content-type", "text/event-stream")];
    let status = match number / 5 % 6 {
        0 => 400,
        1 => 401,
        2 => 429,
        3 => 503,
        4 => return Reply::full(200, &events, format!("data: {error}\n\n")),
        _ => return Reply::full(200, &events, format!("data: {{{said}\n\n")),
    };
    Reply::full(status, &[("content-type", "application/json")], error.to_string())
}

/// Returns the call of a tool that fails: by itself, for its arguments, because it is unknown, by a
/// panic, for its time, for the size of its result, or because it is denied.
fn failing_call(number: usize) -> Value {
    let with_pin = || json!({"id": "A1", "pin": secret("pin")});
    let (name, args) = match number % 7 {
        0 => ("check_account", json!({"id": "A1", "note": secret("pin"), "pin": secret("pin")})),
        1 => ("check_account", json!({"id": 1, "note": "n", "pin": true, secret("pin"): true})),
        2 => ("check_accounts", json!({"pin": secret("pin")})),
        3 => ("close_account", with_pin()),
        4 => ("move_account", with_pin()),
        5 => ("list_account", with_pin()),
        _ => ("freeze_account", with_pin()),
    };
    json!({"name": name, "arguments": args.to_string()})
}

fn reply(number: usize, request: &Received) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned();
    let last = last.unwrap_or_default();
    if last["content"] == "fail" {
        return failure(number, request);
    }
    if last["role"] == "tool" {
        return stream(&[json!({"content": "Opened."})], "stop");
    }
    let call = |function: Value| json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    if last["content"] == "check" {
        return stream(&[json!({"tool_calls": [call(failing_call(number))]})], "tool_calls");
    }
    if let Some(code) = last["content"].as_str().and_then(|said| said.strip_prefix("report ")) {
        let args = json!({"id": "A1", "code": code, "pin": secret("pin")});
        let function = json!({"name": "report_account", "arguments": args.to_string()});
        return stream(&[json!({"tool_calls": [call(function)]})], "tool_calls");
    }
    // The secret is in two pieces.
    let args = json!({"id": "A1", "pin": secret("pin")}).to_string();
    let (first, rest) = args.split_at(args.len() - 20);
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
