//! Requests that do not fit, in both bindings.

use crate::world::{ADA, World, message};
use serde_json::{Value, json};

#[tokio::test]
async fn a_member_that_does_not_fit_is_named_by_its_path() {
    let world = World::new().await;
    for (change, field) in [
        (json!({"role": "user"}), "message.role"),
        (json!({"messageId": null}), "message.messageId"),
        (json!({"parts": 7}), "message.parts"),
    ] {
        let mut said = message("m", "One.");
        let change = change.as_object().expect("members").clone();
        said.as_object_mut().expect("an object").extend(change);
        let refused = world.rpc(ADA, "golf", "SendMessage", &json!({"message": said})).await.json();
        let violation = refused.pointer("/error/data/0/fieldViolations/0/field");
        assert_eq!(violation, Some(&json!(field)), "{refused}");
    }
}

#[tokio::test]
async fn requests_of_json_rpc_are_refused_by_their_codes() {
    let world = World::new().await;
    let call = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
    };
    let send = |message: Value| call("SendMessage", json!({"message": message}));
    let with = |name: &str, value: Value| {
        let mut message = message("m", "One.");
        message[name] = value;
        message
    };
    let parts = |parts: Value| send(with("parts", parts));
    for (body, code) in [
        ("{".to_owned(), -32700),
        ("{'a': 1}".to_owned(), -32700),
        ("[]".to_owned(), -32600),
        ("7".to_owned(), -32600),
        (json!({"id": 7, "method": "GetTask", "params": {}}).to_string(), -32600),
        (json!({"jsonrpc": "1.0", "id": 7, "method": "GetTask"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": 7}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": []}).to_string(), -32602),
        (call("NoMethod", json!({})), -32601),
        (call("sendMessage", json!({})), -32601),
        // The methods of version 0.3 are named.
        (call("message/send", json!({})), -32009),
        (call("tasks/resubscribe", json!({})), -32009),
        (call("SendMessage", json!({})), -32602),
        (call("SendMessage", json!({"message": "One."})), -32602),
        (send(json!({"role": "ROLE_USER", "parts": [{"text": "One."}]})), -32602),
        (send(with("messageId", json!(""))), -32602),
        (send(with("messageId", json!("m".repeat(257)))), -32602),
        (send(with("messageId", json!(7))), -32602),
        (send(with("role", json!("ROLE_AGENT"))), -32602),
        (send(with("role", json!("user"))), -32602),
        (send(with("role", json!("ROLE_UNSPECIFIED"))), -32602),
        (send(with("contextId", json!("c".repeat(513)))), -32602),
        (send(with("taskId", json!("no-task"))), -32001),
        (parts(json!([])), -32602),
        (parts(json!(null)), -32602),
        (parts(json!([{}])), -32602),
        (parts(json!([{"text": "a", "url": "https://example.com"}])), -32602),
        (parts(json!([{"kind": "text"}])), -32602),
        (parts(json!([{"text": 7}])), -32602),
        (parts(json!([{"raw": "!", "mediaType": "image/png"}])), -32602),
        (parts(json!([{"raw": "AAAA"}])), -32602),
        (parts(json!([{"url": "file:///etc/passwd", "mediaType": "image/png"}])), -32602),
        (parts(json!([{"url": "http://10.0.0.1/a", "mediaType": "image/png"}])), -32602),
        (parts(json!([{"text": "a", "mediaType": "application/x-unknown"}])), -32005),
        (parts(json!([{"raw": "AAAA", "mediaType": "application/zip"}])), -32005),
        (parts((0..101).map(|_| json!({"text": "a"})).collect()), -32602),
        (
            call(
                "SendMessage",
                json!({"message": message("m", "a"),
            "configuration": {"historyLength": -1}}),
            ),
            -32602,
        ),
        (
            call(
                "SendMessage",
                json!({"message": message("m", "a"),
            "configuration": {"returnImmediately": "yes"}}),
            ),
            -32602,
        ),
        (call("GetTask", json!({})), -32001),
        (call("GetTask", json!({"id": 7})), -32602),
        (call("GetTask", json!({"id": "00000000-0000-0000-0000-000000000000"})), -32001),
        (call("CancelTask", json!({"id": "x"})), -32001),
        (call("SubscribeToTask", json!({"id": "x"})), -32001),
        (call("ListTasks", json!({"pageSize": 0})), -32602),
        (call("ListTasks", json!({"pageSize": 101})), -32602),
        (call("ListTasks", json!({"pageToken": "x"})), -32602),
        (call("ListTasks", json!({"status": "TASK_STATE_NONE"})), -32602),
        (call("ListTasks", json!({"status": "completed"})), -32602),
        (call("ListTasks", json!({"historyLength": -1})), -32602),
        (call("ListTasks", json!({"statusTimestampAfter": "yesterday"})), -32602),
        (call("GetTaskPushNotificationConfig", json!({"taskId": "x", "id": "y"})), -32001),
    ] {
        let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
        let answer = world.send_with(ADA, "POST /a2a/golf", &headers, &body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        assert_eq!(answer.code(), code, "{body}: {}", answer.body);
        assert!(!answer.body.contains("panicked"), "{}", answer.body);
    }
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn requests_of_http_are_refused_by_status_and_reason() {
    let world = World::new().await;
    let nobody = "00000000-0000-0000-0000-000000000000";
    let task = format!("/a2a/golf/tasks/{nobody}");
    for (request, body, status, reason) in [
        ("POST /a2a/golf/message:send".to_owned(), "{", 400, "INVALID_ARGUMENT"),
        ("POST /a2a/golf/message:send".to_owned(), "[]", 400, "INVALID_ARGUMENT"),
        ("POST /a2a/golf/message:send".to_owned(), "", 400, "INVALID_ARGUMENT"),
        ("POST /a2a/golf/message:stream".to_owned(), "{}", 400, "INVALID_ARGUMENT"),
        (format!("GET {task}"), "", 404, "TASK_NOT_FOUND"),
        (format!("GET {task}:subscribe"), "", 404, "TASK_NOT_FOUND"),
        (format!("POST {task}:subscribe"), "", 404, "TASK_NOT_FOUND"),
        (format!("POST {task}:cancel"), "{}", 404, "TASK_NOT_FOUND"),
        (format!("POST {task}:erase"), "{}", 404, "NOT_FOUND"),
        (format!("POST {task}"), "{}", 404, "NOT_FOUND"),
        (format!("GET {task}?historyLength=-1"), "", 400, "INVALID_ARGUMENT"),
        (format!("GET {task}?historyLength=x"), "", 400, "INVALID_ARGUMENT"),
        ("GET /a2a/golf/tasks?pageSize=x".to_owned(), "", 400, "INVALID_ARGUMENT"),
        ("GET /a2a/golf/tasks?status=x".to_owned(), "", 400, "INVALID_ARGUMENT"),
        ("PUT /a2a/golf/tasks".to_owned(), "", 405, "UNIMPLEMENTED"),
        ("GET /a2a/golf/nothing".to_owned(), "", 404, "NOT_FOUND"),
        ("GET /a2a/nobody/tasks".to_owned(), "", 404, "NOT_FOUND"),
    ] {
        let answer = world.send_with(ADA, &request, &[("a2a-version", "1.0")], body).await;
        assert_eq!(answer.status, status, "{request}: {}", answer.body);
        assert_eq!(answer.reason(), reason, "{request}: {}", answer.body);
        assert_eq!(answer.headers["content-type"], "application/a2a+json", "{request}");
    }
}

#[tokio::test]
async fn older_and_newer_versions_are_refused_by_name_in_both_bindings() {
    let world = World::new().await;
    let message = json!({"message": message("m", "One.")});
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message});
    for version in [None, Some("0.3"), Some("2.0")] {
        let headers: Vec<_> = version.iter().map(|version| ("a2a-version", *version)).collect();
        let answer = world.send_with(ADA, "POST /a2a/golf", &headers, &rpc.to_string()).await;
        assert_eq!(answer.code(), -32009, "{version:?}");
        assert!(answer.body.contains("A2A-Version: 1.0"), "{}", answer.body);
        let request = "POST /a2a/golf/message:send";
        let answer = world.send_with(ADA, request, &headers, &message.to_string()).await;
        assert_eq!((answer.status, answer.reason().as_str()), (400, "VERSION_NOT_SUPPORTED"));
    }
    let request = "POST /a2a/golf/message:send?A2A-Version=1.0";
    assert_eq!(world.send_with(ADA, request, &[], &message.to_string()).await.status, 200);
}

#[tokio::test]
async fn paths_are_taken_with_and_without_a_slash_at_the_end() {
    let world = World::new().await;
    let task = world.ask("golf", "m", "One.").await;
    let id = task["id"].as_str().expect("an id");
    for path in [
        "/a2a/golf/tasks",
        "/a2a/golf/extendedAgentCard",
        "/a2a/golf/.well-known/agent-card.json",
        &format!("/a2a/golf/tasks/{id}"),
        &format!("/a2a/golf/tasks/{id}/pushNotificationConfigs"),
    ] {
        let plain = world.rest(ADA, &format!("GET {path}"), &Value::Null).await;
        let slashed = world.rest(ADA, &format!("GET {path}/"), &Value::Null).await;
        assert_eq!(plain.status, 200, "{path}: {}", plain.body);
        assert_eq!((slashed.status, slashed.body), (plain.status, plain.body), "{path}");
    }
    let body = json!({"message": message("m", "One.")});
    assert_eq!(world.rest(ADA, "POST /a2a/golf/message:send/", &body).await.status, 200);
}
