//! Servers over HTTP that answer in ways of their own.

use crate::rig::{Rig, Talk, reads, results};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_graph::SystemClock;
use weftwork_mcp::Terms;
use weftwork_models::scripted::Step;
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_tools::{Decision, Policy, Rule, ToolPattern};
use weftwork_types::port::Egress;
use weftwork_types::run::RunOutcome;
use weftwork_types::tool::Effect;

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

/// A server with sessions. It answers the first call with `first`, in which `ID` is that of the
/// request and `TOKEN` that of its progress, and each notification with an error.
fn reply(request: &Received, calls: &AtomicUsize, first: &(u16, (&str, &str), String)) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let answer = |result: Value| {
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
        Reply::full(200, &[JSON, ("mcp-session-id", "s")], answer.to_string())
    };
    match body["method"].as_str().unwrap_or_default() {
        "server/discover" => Reply::full(500, &[], "<html><p>What?</p></html>"),
        "initialize" => answer(json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": true}, "serverInfo": {"name": "web"},
        })),
        "tools/list" => answer(json!({"tools": [
            null, {"name": "pay", "description": "Pays.", "inputSchema": {"type": "object"}},
        ]})),
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
            let (status, kind, text) = first;
            let token = &body["params"]["_meta"]["progressToken"];
            let text = text.replace("ID", &body["id"].to_string());
            Reply::full(*status, &[*kind], text.replace("TOKEN", &token.to_string()))
        }
        "tools/call" => answer(json!({"content": [{"type": "text", "text": "paid"}]})),
        "" => Reply::full(405, &[], ""),
        _ => Reply::full(500, &[], "no notifications"),
    }
}

/// The result of the tool of such a server.
struct Called {
    /// The text that the model reads.
    said: String,
    /// Number of calls that the server received.
    calls: usize,
    reports: Vec<Value>,
}

/// Calls the tool of such a server; returns what the model reads, and the number of calls.
async fn called(status: u16, kind: (&'static str, &'static str), text: &str) -> (String, usize) {
    let Called { said, calls, .. } = call(status, kind, text).await;
    (said, calls)
}

async fn call(status: u16, kind: (&'static str, &'static str), text: &str) -> Called {
    call_with(Effect::ReadOnly, status, kind, text).await
}

/// The text that the model reads if a person is asked what the call did.
const ASKED: &str = "a person is asked";

async fn call_with(
    effect: Effect,
    status: u16,
    kind: (&'static str, &'static str),
    text: &str,
) -> Called {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let first = (status, kind, text.to_owned());
    let server = LoopbackServer::start(move |_, request| reply(request, &counted, &first));
    let server = server.await.expect("a port");
    let allow = vec![server.address().to_string().parse().expect("a host")];
    let client = GuardedClient::new(EgressConfig { allow, ..EgressConfig::default() });
    let egress: Arc<dyn Egress> = Arc::new(client.expect("a client"));
    let rig = Rig::new().at("web", &server.url("/mcp?key=key-of-a-person"), egress);
    let terms = Terms { effect, ..reads() };
    let servers = rig.allowing(&["web/pay"], &terms).await;
    let steps = vec![Step::call("web__pay", json!({})), Step::text("Done.")];
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(SystemClock::new());
    let pay = ToolPattern::One("web/pay".to_owned());
    let policy = Policy { rules: vec![Rule::new(pay, Decision::Allow)], ..Policy::default() };
    let talk = Talk::open(store, clock, &servers, policy, steps).await;
    let outcome = talk.say().await;
    let said = match &outcome {
        RunOutcome::Interrupted { .. } => ASKED.to_owned(),
        outcome => format!("{:?}", results(outcome)[0]),
    };
    Called {
        said,
        calls: calls.load(Ordering::SeqCst),
        reports: std::mem::take(&mut *talk.reports.lock().expect("no panic")),
    }
}

#[tokio::test]
async fn a_lost_session_begins_anew_within_the_call() {
    let lost = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"No valid session ID"}}}}"#
        )
    };
    for (status, text) in [
        (404, String::new()),
        (404, lost("null")),
        (400, lost("null")),
        (400, "Bad Request: session not found".to_owned()),
        (200, lost("null")),
        (200, lost("ID").replace("-32000", "-32001")),
        (401, lost("null")),
        (401, r#"{"error":"Session expired"}"#.to_owned()),
        (403, "Invalid session ID".to_owned()),
        (404, r#"{"error":"no such session"}"#.to_owned()),
    ] {
        let (said, calls) = called(status, JSON, &text).await;
        assert!(said.contains("paid"), "{status} {text}: {said}");
        assert_eq!(calls, 2, "{status} {text}");
    }
}

#[tokio::test]
async fn a_call_with_an_effect_is_not_repeated_unless_it_was_certainly_not_made() {
    let error = |id: &str, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"{message}"}}}}"#)
    };
    let gateway = r#"{"error":"upstream request timeout"}"#;
    for (status, text, expected, calls) in [
        // A refusal of the session is from before the call.
        (404, error("null", "Session not found"), "paid", 2),
        (400, error("null", "No valid session ID"), "paid", 2),
        (401, r#"{"error":"Session expired"}"#.to_owned(), "paid", 2),
        // The tool may have run before the session ended.
        (200, error("null", "Session terminated"), ASKED, 1),
        (200, error("ID", "Session not found"), ASKED, 1),
        // Gateways give up while the tool runs.
        (500, gateway.to_owned(), ASKED, 1),
        (502, r#"{"error":{"code":502,"message":"Bad Gateway"}}"#.to_owned(), ASKED, 1),
        (503, error("null", "overloaded"), ASKED, 1),
        (504, gateway.to_owned(), ASKED, 1),
        (504, r#"{"message":"upstream request timeout"}"#.to_owned(), ASKED, 1),
        (408, gateway.to_owned(), ASKED, 1),
        (200, gateway.to_owned(), ASKED, 1),
        (200, r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["#.to_owned(), ASKED, 1),
        // The server answers the call.
        (500, error("ID", "the till is closed"), "the till is closed", 1),
        (500, error("\"ID\"", "the till is closed"), "the till is closed", 1),
        (429, r#"{"error":"slow down"}"#.to_owned(), "HTTP status 429: slow down", 1),
    ] {
        let called = call_with(Effect::ExternalSideEffect, status, JSON, &text).await;
        assert!(called.said.contains(expected), "{status} {text}: {}", called.said);
        assert_eq!(called.calls, calls, "{status} {text}");
    }
}

#[tokio::test]
async fn a_tool_that_speaks_of_sessions_is_called_once() {
    for text in [
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"chat session 7 not found"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":[],"structuredContent":{"error":"session not found"}}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\"error\": session expired"}]}}"#,
    ] {
        let (said, calls) = called(200, JSON, text).await;
        assert_eq!(calls, 1, "{text}: {said}");
        assert!(said.contains("session"), "{said}");
    }
    for (status, text) in [
        (500, "this Session's transaction is invalid"),
        (502, "Invalid response (session affinity)"),
        (400, "charged; but session_id is invalid"),
        (410, "the order is gone"),
    ] {
        let (said, calls) = called(status, JSON, text).await;
        assert_eq!(calls, 1, "{status} {text}: {said}");
    }
}

#[tokio::test]
async fn a_failure_ends_its_call_at_once_with_the_words_of_the_server() {
    let failed =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"the till is closed"}}"#;
    for (status, kind, text, expected) in [
        (
            403,
            JSON,
            r#"{"detail":"not yours"}"#,
            "HTTP status 403: not yours; give the server a token",
        ),
        (429, EVENTS, "slow down", "HTTP status 429: slow down"),
        (429, JSON, r#"{"error":"slow down"}"#, "error: HTTP status 429: slow down\""),
        (
            400,
            JSON,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no field x"}}"#,
            "HTTP status 400: no field x (code -32602)",
        ),
        (400, JSON, r#"{"error":"bad url /mcp?key=key-of-a-person"}"#, "bad url /mcp?key=***"),
        (
            504,
            JSON,
            r#"{"error":"too slow"}"#,
            "did not answer the request: HTTP status 504: too slow",
        ),
        (
            500,
            JSON,
            "<html><h1>Oops</h1>the till broke</html>",
            "HTTP status 500: Oops the till broke",
        ),
        (500, JSON, failed, "the till is closed"),
        (200, JSON, failed, "the till is closed"),
        (202, JSON, "", "HTTP status 202"),
        (200, JSON, "<html>hello</html>", "HTTP status 200: hello, which is no answer"),
    ] {
        let (said, calls) = called(status, kind, text).await;
        assert!(said.contains(expected), "{status} {text}: {said}");
        assert!(!said.contains("::"), "no name of a type: {said}");
        assert_eq!(calls, 1);
    }
    // Such an event may be a remark; the end of the stream decides.
    let error = format!("data: {failed}\n\n");
    let (said, _) = called(200, EVENTS, &error).await;
    assert!(said.contains("W0906"), "{said}");
}

#[tokio::test]
async fn an_answer_is_read_in_any_framing() {
    let paid = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"paid"}]}}"#;
    for (kind, text) in [
        (JSON, format!("\u{feff}{paid}")),
        (JSON, format!("[{paid}]")),
        (
            JSON,
            format!(
                r#"[{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error"}}}},{paid}]"#
            ),
        ),
        (JSON, paid.replace("\"result\"", "\"error\":{},\"result\"")),
        (
            EVENTS,
            format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":1,\"message\":\"x\"}}}}\n\ndata: {paid}\n\n"
            ),
        ),
        (EVENTS, format!("event: ping\ndata: {{}}\n\ndata: {paid}\n")),
        (EVENTS, format!("data: {paid}\n\ndata: [DONE]\n\n")),
    ] {
        let (said, calls) = called(200, kind, &text).await;
        assert!(said.contains("paid"), "{text}: {said}");
        assert_eq!(calls, 1);
    }
}

#[tokio::test]
async fn progress_arrives_before_the_answer() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1}}"#;
    let other = progress.replace("TOKEN", "424242");
    let paid = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"paid"}]}}"#;
    let text = format!("data: {other}\n\ndata: {progress}\n\ndata: {paid}\n\n");
    let Called { said, calls, reports } = call(200, EVENTS, &text).await;
    assert!(said.contains("paid"), "{said}");
    assert_eq!((calls, reports), (1, vec![json!({"progress": 1.0})]));
}
