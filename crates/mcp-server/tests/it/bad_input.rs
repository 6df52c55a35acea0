//! Requests that do not fit.

use crate::world::{ADA, LEGACY, World, request_of};
use serde_json::{Value, json};

#[tokio::test]
async fn requests_are_refused_by_their_codes() {
    let world = World::new().await;
    let call = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
    };
    let tool = |params: Value| call("tools/call", params);
    for (body, status, code) in [
        ("{".to_owned(), 400, -32700),
        (String::new(), 400, -32700),
        ("\u{feff}{}".to_owned(), 400, -32700),
        ("[]".to_owned(), 400, -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]".to_owned(), 400, -32600),
        (json!({"id": 7, "method": "ping"}).to_string(), 400, -32600),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}).to_string(), 400, -32600),
        (
            json!({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}).to_string(),
            400,
            -32602,
        ),
        (call("nothing", json!({})), 200, -32601),
        (call("resources/list", json!({})), 200, -32601),
        (call("prompts/list", json!({})), 200, -32601),
        (call("sampling/createMessage", json!({})), 200, -32601),
        (call("subscriptions/listen", json!({})), 200, -32601),
        (call("server/discover", json!({})), 400, -32602),
        (call("initialize", json!({})), 200, -32602),
        (call("tools/list", json!({"cursor": "x"})), 200, -32602),
        (tool(json!({})), 200, -32602),
        (tool(json!({"name": 7})), 200, -32602),
        (tool(json!({"name": "golf", "arguments": []})), 200, -32602),
        (tool(json!({"name": "golf", "arguments": "a"})), 200, -32602),
        (tool(json!({"name": "golf", "_meta": {"weftwork/idempotencyKey": ""}})), 200, -32602),
        (tool(json!({"name": "golf", "_meta": {"weftwork/idempotencyKey": 7}})), 200, -32602),
        (
            tool(json!({"name": "golf", "_meta": {"weftwork/idempotencyKey": "k".repeat(256)}})),
            200,
            -32602,
        ),
        (call("tasks/get", json!({})), 200, -32602),
        (call("tasks/get", json!({"taskId": {}})), 200, -32602),
    ] {
        let answer = world.post(ADA, &[("mcp-protocol-version", LEGACY)], &body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body}: {}", answer.body);
    }
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn large_deep_and_long_requests_are_refused() {
    let world = World::new().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{deep}}}}}"#);
    assert_eq!(world.post(ADA, &[], &body).await.status, 400);
    let many = format!("[{}0]", "0,".repeat(100_001));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{many}}}}}"#);
    assert_eq!(world.post(ADA, &[], &body).await.status, 413);
    let large = "a".repeat((16 << 20) + 1);
    assert_eq!(world.post(ADA, &[], &large).await.status, 413);
    // Names are not repeated whole.
    let method = "m".repeat(10_000);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
    let answer = world.post(ADA, &[], &body).await;
    assert_eq!(answer.code(), -32601);
    assert!(answer.body.len() < 1_000);
}

#[tokio::test]
async fn forms_of_pages_are_no_messages() {
    let world = World::new().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let request = request_of(ADA, "POST /mcp", &[("content-type", kind)], &ping);
        assert_eq!(world.send(request).await.status, 415, "{kind}");
    }
}
