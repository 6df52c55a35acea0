//! Reports of users of other servers of this protocol, tried here.

use crate::world::{ADA, Client, EVE, LEGACY, World, echo, forms, request_of, text_of};
use serde_json::json;
use std::sync::Arc;
use weftwork::store::MemoryStore;
use weftwork::testing::Step;

fn ping() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()
}

/// A server that restarts knows no sessions, and clients get 404 or 400 until they are restarted too.
#[tokio::test]
async fn a_session_outlives_the_server() {
    let store = Arc::new(MemoryStore::new());
    let first = World::over(store.clone(), echo).await;
    let client = first.session(ADA, &forms()).await;
    drop(first);
    let world = World::over(store, echo).await;
    assert_eq!(text_of(&world.call(&client, "golf", "One.").await.result()), "1: One.");
}

/// A session that no server of this kind gave has 404, after which clients begin another one.
#[tokio::test]
async fn an_unknown_session_has_status_404_and_a_missing_one_is_served() {
    let world = World::new().await;
    for session in ["x", "", "f-1", "x-00000000000000000000000000000000", "1868a90c-7cff-4dfe-a1"] {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
        assert_eq!(world.post(ADA, &headers, &ping()).await.status, 404, "{session}");
    }
    assert_eq!(world.post(ADA, &[("mcp-protocol-version", LEGACY)], &ping()).await.status, 200);
}

/// Clients of the version 2025-03-26 and before send no header with the version.
#[tokio::test]
async fn a_request_without_a_version_is_of_an_older_client() {
    let world = World::new().await;
    assert_eq!(world.post(ADA, &[], &ping()).await.result(), json!({}));
    let unknown = [("mcp-protocol-version", "2024-01-01")];
    let refused = world.post(ADA, &unknown, &ping()).await;
    assert_eq!((refused.status, refused.code()), (400, -32022));
}

/// Servers answer 406 to clients that accept only one of the two types, or all.
#[tokio::test]
async fn accept_headers_select_the_form_and_are_never_refused() {
    let world = World::new().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "golf", "arguments": {"message": "One."}}})
    .to_string();
    for (accept, kind) in [
        ("application/json, text/event-stream", "text/event-stream; charset=utf-8"),
        ("text/event-stream", "text/event-stream; charset=utf-8"),
        ("application/json;q=0.9, Text/Event-Stream;q=0.1", "text/event-stream; charset=utf-8"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "application/json"),
    ] {
        let answer = world.post(ADA, &[("accept", accept)], &call).await;
        assert_eq!((answer.status, &*answer.header("content-type")), (200, kind), "{accept}");
        assert_eq!(text_of(&answer.result()), "1: One.");
    }
}

/// A slash at the end is redirected, and the redirection loses the body or the token.
#[tokio::test]
async fn a_slash_at_the_end_makes_no_difference() {
    let world = World::new().await;
    let answer = world.send(request_of(ADA, "POST /mcp/", &[], &ping())).await;
    assert_eq!(answer.result(), json!({}));
}

/// Clients open a stream with GET, and end a session with DELETE; a server without them has to say so by
/// 405, and not by 404 or a stream that hangs.
#[tokio::test]
async fn get_and_delete_have_status_405_with_the_allowed_method() {
    let world = World::new().await;
    for request in ["GET /mcp", "DELETE /mcp", "PUT /mcp", "GET /mcp/"] {
        let accept = [("accept", "text/event-stream")];
        let answer = world.send(request_of(ADA, request, &accept, "")).await;
        assert_eq!(answer.status, 405, "{request}");
        assert_eq!(answer.header("allow").to_uppercase(), "POST");
    }
}

/// Hosts end calls after a minute without a message.
#[tokio::test]
async fn a_long_call_says_that_it_goes_on() {
    let world = World::with(|_| Step::text("never").hanging()).await;
    tokio::time::pause();
    let client = world.session(ADA, &json!({})).await;
    let params = json!({"name": "golf", "arguments": {"message": "One."},
        "_meta": {"progressToken": "t"}});
    let mut messages = world.open(&client, "tools/call", params).await;
    let mut last = tokio::time::Instant::now();
    let mut count = 0;
    while count < 5 {
        let message = messages.next().await.expect("progress");
        assert_eq!(message["method"], "notifications/progress");
        assert!(last.elapsed() <= std::time::Duration::from_secs(20));
        last = tokio::time::Instant::now();
        count += usize::from(message["params"]["message"] == "the agent works");
    }
}

/// Notifications of one client reach another one, because both have the same token of progress.
#[tokio::test]
async fn progress_is_in_the_stream_of_its_request_alone() {
    let world = World::new().await;
    let ada = Client::modern(ADA, json!({}));
    let params = json!({"name": "golf", "arguments": {"message": "One."},
        "_meta": {"progressToken": 1}});
    let of_ada = world.open(&ada, "tools/call", params).await;
    let quiet = world.call(&ada.of(EVE), "golf", "Two.").await;
    assert_eq!(quiet.messages().len(), 1);
    assert!(of_ada.rest().await.len() > 1);
}

/// `params` is missing or null in requests of some clients.
#[tokio::test]
async fn requests_without_parameters_and_with_null_are_served() {
    let world = World::new().await;
    for params in ["", r#","params":null"#, r#","params":{}"#, r#","params":{"cursor":null}"#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/list"{params}}}"#);
        let answer = world.post(ADA, &[], &body).await;
        assert_eq!(answer.result()["tools"].as_array().map(Vec::len), Some(4), "{params}");
        assert_eq!(answer.any_json()["id"], "a");
    }
}

/// Servers take the id 0, or a token of progress that is 0, for none.
#[tokio::test]
async fn zero_is_an_id_and_a_token_of_progress() {
    let world = World::new().await;
    let call = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {
        "name": "golf", "arguments": {"message": "One."}, "_meta": {"progressToken": 0}}})
    .to_string();
    let kind = ("content-type", "application/json; charset=utf-8");
    let answer = world.post(ADA, &[("accept", "text/event-stream"), kind], &call).await;
    let messages = answer.messages();
    assert_eq!(messages[0]["params"]["progressToken"], 0, "{messages:?}");
    assert_eq!(messages[messages.len() - 1]["id"], 0);
}

/// A notification is answered with 200 and a body, which clients try to read as a response.
#[tokio::test]
async fn notifications_have_status_202_without_a_body() {
    let world = World::new().await;
    for method in ["notifications/initialized", "notifications/roots/list_changed", "unknown"] {
        let note = json!({"jsonrpc": "2.0", "method": method}).to_string();
        let answer = world.post(ADA, &[("mcp-protocol-version", LEGACY)], &note).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{method}");
    }
}

/// Pages of other tools read the session by a script.
#[tokio::test]
async fn scripts_of_allowed_origins_may_read_the_session_and_send_its_headers() {
    let world = World::new().await;
    let origin = ("origin", "http://localhost:6274");
    let answer = world.post(ADA, &[origin], &ping()).await;
    let exposed = answer.headers["access-control-expose-headers"].to_str().expect("text");
    assert!(exposed.contains("mcp-session-id"), "{exposed}");
    let asks = ("access-control-request-method", "POST");
    let preflight = world.send(request_of("", "OPTIONS /mcp", &[origin, asks], "")).await;
    let sent = preflight.headers["access-control-allow-headers"].to_str().expect("text");
    for name in ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"] {
        assert!(sent.contains(name), "{name}: {sent}");
    }
}
