//! Two organisations, and two subjects of one, on every route: own, other's and missing.

use crate::world::{ADA, BOB, EVE, READER, World, message, state};
use serde_json::{Value, json};

const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// Every operation on a task, in both bindings.
fn requests(id: &str) -> Vec<(String, Value)> {
    let rpc = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        ("POST /a2a/clerk".to_owned(), body)
    };
    let mut answer = message("m2", "approve");
    answer["taskId"] = id.into();
    let config = json!({"taskId": id, "id": "c", "url": "https://example.com/hook"});
    let of_config = json!({"taskId": id, "id": "c"});
    let task = format!("/a2a/clerk/tasks/{id}");
    let configs = format!("{task}/pushNotificationConfigs");
    vec![
        rpc("SendMessage", json!({"message": answer})),
        rpc("SendStreamingMessage", json!({"message": answer})),
        rpc("GetTask", json!({"id": id})),
        rpc("CancelTask", json!({"id": id})),
        rpc("SubscribeToTask", json!({"id": id})),
        rpc("CreateTaskPushNotificationConfig", config.clone()),
        rpc("GetTaskPushNotificationConfig", of_config.clone()),
        rpc("ListTaskPushNotificationConfigs", json!({"taskId": id})),
        rpc("DeleteTaskPushNotificationConfig", of_config),
        ("POST /a2a/clerk/message:send".to_owned(), json!({"message": answer})),
        ("POST /a2a/clerk/message:stream".to_owned(), json!({"message": answer})),
        (format!("GET {task}"), Value::Null),
        (format!("POST {task}:cancel"), json!({})),
        (format!("POST {task}:subscribe"), Value::Null),
        (format!("GET {task}:subscribe"), Value::Null),
        (format!("POST {configs}"), config),
        (format!("GET {configs}"), Value::Null),
        (format!("GET {configs}/c"), Value::Null),
        (format!("DELETE {configs}/c"), Value::Null),
    ]
}

#[tokio::test]
async fn another_ones_and_a_missing_task_answer_the_same_bytes() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    let own = task["id"].as_str().expect("an id");
    let of_another_agent = world.ask("golf", "m1", "One.").await["id"].clone();
    let of_another_agent = of_another_agent.as_str().expect("an id");
    let config = json!({"taskId": own, "id": "c", "url": "https://example.com/hook"});
    world.rpc(ADA, "clerk", "CreateTaskPushNotificationConfig", &config).await.result();

    for (at, (request, body)) in requests(NOBODY).into_iter().enumerate() {
        let missing = world.rest(ADA, &request, &body).await;
        assert!(missing.body.contains("TASK_NOT_FOUND"), "{request}: {}", missing.body);
        for (token, id) in [(BOB, own), (EVE, own), (ADA, of_another_agent), (ADA, "x")] {
            let (request, body) = requests(id).swap_remove(at);
            let answer = world.rest(token, &request, &body).await;
            assert_eq!(answer.status, missing.status, "{token} {request}");
            assert_eq!(answer.body, missing.body, "{token} {request}");
        }
    }
    let now = world.rpc(ADA, "clerk", "GetTask", &json!({"id": own})).await.result();
    assert_eq!(state(&now), "TASK_STATE_AUTH_REQUIRED", "nobody has changed it");
}

#[tokio::test]
async fn an_agent_that_is_hidden_another_ones_or_missing_answers_the_same_bytes() {
    let world = World::new().await;
    let requests = |agent: &str| {
        let body = json!({"message": message("m1", "One.")});
        vec![
            (
                format!("POST /a2a/{agent}"),
                json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}),
            ),
            (format!("POST /a2a/{agent}/message:send"), body.clone()),
            (format!("POST /a2a/{agent}/message:stream"), body),
            (format!("GET /a2a/{agent}/tasks"), Value::Null),
            (format!("GET /a2a/{agent}/tasks/{NOBODY}"), Value::Null),
            (format!("GET /a2a/{agent}/extendedAgentCard"), Value::Null),
        ]
    };
    for (at, (request, body)) in requests("nobody").into_iter().enumerate() {
        let missing = world.rest(BOB, &request, &body).await;
        assert_eq!(missing.status, 404, "{request}: {}", missing.body);
        for agent in ["hidden", "own"] {
            let (request, body) = requests(agent).swap_remove(at);
            let answer = world.rest(BOB, &request, &body).await;
            assert_eq!((answer.status, answer.body), (404, missing.body.clone()), "{request}");
        }
    }
    let task = world.ask("own", "m1", "One.").await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    // An agent that is no longer exposed keeps its tasks to itself.
    world.desk.expose(Some("one"), "own", false).await;
    let gone = world.rpc(ADA, "own", "GetTask", &json!({"id": task["id"]})).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn lists_and_contexts_belong_to_a_subject() {
    let world = World::new().await;
    let task = world.ask("golf", "m1", "Mine.").await;
    for token in [BOB, EVE] {
        let listed = world.rpc(token, "golf", "ListTasks", &json!({})).await.result();
        assert_eq!(listed["totalSize"], 0, "{token}");
        let of_context = json!({"contextId": task["contextId"]});
        let listed = world.rpc(token, "golf", "ListTasks", &of_context).await.result();
        assert_eq!(listed["totalSize"], 0, "{token}");
        // The same id of a context is another context for another subject.
        let mut other = message("m1", "Yours.");
        other["contextId"] = task["contextId"].clone();
        let other = world.rpc(token, "golf", "SendMessage", &json!({"message": other})).await;
        let other = other.result()["task"].clone();
        assert_eq!(crate::world::text_of(&other), "1: Yours.", "{token}");
        assert_ne!(other["id"], task["id"]);
    }
    let listed = world.rpc(ADA, "golf", "ListTasks", &json!({})).await.result();
    assert_eq!(listed["totalSize"], 1);
}

#[tokio::test]
async fn each_operation_needs_its_right() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    let id = task["id"].as_str().expect("an id");
    let may_read = ["GetTask", "SubscribeToTask", "ListTaskPushNotificationConfigs", "GET "];
    for (request, body) in requests(id) {
        let text = format!("{request} {body}");
        let reads = may_read.iter().any(|of| text.contains(of)) || text.contains(":subscribe");
        if text.contains("SubscribeToTask") || text.contains(":subscribe") {
            let mut stream = world.open(READER, &request, &body).await;
            assert!(stream.next().await.is_some());
            continue;
        }
        let answer = world.rest(READER, &request, &body).await;
        let is_config =
            text.contains("GetTaskPushNotificationConfig") || text.contains("Configs/c");
        match reads || is_config && text.starts_with("GET") || text.contains("\"GetTask") {
            true => assert_ne!(answer.status, 403, "{text}: {}", answer.body),
            false => assert_eq!(answer.status, 403, "{text}: {}", answer.body),
        }
    }
    let listed = world.rpc(READER, "clerk", "ListTasks", &json!({})).await;
    assert_eq!(listed.result()["totalSize"], 1);
    let send = json!({"message": message("m9", "Write b.")});
    assert_eq!(world.rpc(READER, "clerk", "SendMessage", &send).await.status, 403);
    for request in ["POST /a2a/clerk", "GET /a2a/clerk/tasks", "POST /a2a/clerk/message:send"] {
        let answer = world.rest("", request, &json!({})).await;
        assert_eq!(
            (answer.status, answer.reason().as_str()),
            (401, "UNAUTHENTICATED"),
            "{request}"
        );
    }
}
