//! A local server for the protocol.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_models::ProviderOverride;
use weftwork_models::{ChatModel, ModelRegistry, ProviderTable};
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_types::port::Egress;

pub(crate) async fn server(
    handler: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
) -> LoopbackServer {
    LoopbackServer::start(handler).await.expect("a server")
}

/// The model `lab:tiny` on that server, opened from a configuration.
pub(crate) fn model(server: &LoopbackServer, quirks: &str) -> Arc<dyn ChatModel> {
    // Longer than a busy machine takes.
    waiting(server, quirks, 60_000)
}

/// The same with the given timeout.
pub(crate) fn waiting(server: &LoopbackServer, quirks: &str, ms: u64) -> Arc<dyn ChatModel> {
    configured(server, &format!("quirks = [{quirks}]"), ms)
}

/// The same with other settings of the provider.
pub(crate) fn configured(server: &LoopbackServer, settings: &str, ms: u64) -> Arc<dyn ChatModel> {
    let config = format!(
        "[lab]\nurl = \"{}\"\nkey_env = \"LAB_KEY\"\n{settings}\nhead_timeout_ms = {ms}\nidle_timeout_ms = {ms}",
        server.url("")
    );
    let overrides: BTreeMap<String, ProviderOverride> = toml::from_str(&config).expect("a table");
    let env = |name: &str| (name == "LAB_KEY").then(|| "sk-hunter2".to_owned());
    let table = ProviderTable::load(&env, &overrides).expect("a table");
    let host = table.row("lab").expect("a row").host().parse().expect("a host");
    let egress = EgressConfig { allow: vec![host], ..EgressConfig::default() };
    let egress: Arc<dyn Egress> = Arc::new(GuardedClient::new(egress).expect("a client"));
    ModelRegistry::new(&table, &egress).resolve("lab:tiny").expect("a model")
}

/// A stream of chunks, each sent separately, without an end.
pub(crate) fn stream(chunks: &[Value]) -> Reply {
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    chunks.iter().fold(head, |reply, chunk| reply.piece(format!("data: {chunk}\n\n")))
}

/// A complete stream: chunks, finish reason, usage, `[DONE]`.
pub(crate) fn whole(chunks: &[Value], reason: &str) -> Reply {
    let mut chunks = chunks.to_vec();
    chunks.push(json!({
        "id": "lab-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
    }));
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    chunks.push(json!({"id": "lab-1", "choices": [], "usage": usage}));
    stream(&chunks).piece("data: [DONE]\n\n").end()
}

pub(crate) fn said(delta: Value) -> Value {
    json!({"id": "lab-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(crate) fn words(text: &str) -> Value {
    said(json!({ "content": text }))
}

/// A fragment of a tool call.
pub(crate) fn fragment(index: u32, id: Option<&str>, name: Option<&str>, args: &str) -> Value {
    let mut function = json!({ "arguments": args });
    if let Some(name) = name {
        function["name"] = name.into();
    }
    let mut call = json!({"index": index, "function": function});
    if let Some(id) = id {
        call["id"] = id.into();
        call["type"] = "function".into();
    }
    said(json!({"tool_calls": [call]}))
}
