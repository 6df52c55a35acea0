//! Tasks of both versions.

use crate::world::{ADA, Client, World, echo, forms, tasks, text_of};
use serde_json::{Value, json};
use weftwork::testing::Step;

fn write() -> Value {
    json!({"name": "clerk", "arguments": {"message": "Write a."}})
}

#[tokio::test]
async fn a_call_that_lasts_is_a_task_for_clients_that_know_tasks() {
    tokio::time::pause();
    let world = World::with(|_| Step::text("never").hanging()).await;
    let client = Client::modern(ADA, tasks());
    let params = json!({"name": "golf", "arguments": {"message": "One."}});
    let created = world.ask(&client, "tools/call", params).await.result();
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "working");
    assert!(created["ttlMs"].is_null() && created["pollIntervalMs"].is_u64());
    let id = json!({"taskId": created["taskId"]});
    let task = world.ask(&client, "tasks/get", id.clone()).await.result();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("complete"), &json!("working")));
    assert_eq!(task["createdAt"], created["createdAt"]);
    let cancelled = world.ask(&client, "tasks/cancel", id.clone()).await.result();
    assert_eq!(cancelled["resultType"], "complete");
    let task = world.ask(&client, "tasks/get", id.clone()).await.result();
    assert_eq!(task["status"], "cancelled");
    // Again, and without the extension.
    world.ask(&client, "tasks/cancel", id.clone()).await.result();
    let other = Client::modern(ADA, forms());
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = world.ask(&other, method, id.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, -32021), "{method}");
        let needed = &refused.any_json()["error"]["data"]["requiredCapabilities"]["extensions"];
        assert!(needed.get("io.modelcontextprotocol/tasks").is_some());
    }
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_the_result_of_a_short_call() {
    let world = World::new().await;
    let client = Client::modern(ADA, tasks());
    let result = world.call(&client, "golf", "One.").await.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(text_of(&result), "1: One.");
    // It is a task all the same, by the id of its run.
    let id = json!({"taskId": result["_meta"]["weftwork/run"]});
    let task = world.ask(&client, "tasks/get", id).await.result();
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["content"], result["content"]);
}

#[tokio::test]
async fn a_task_that_asks_is_answered_by_an_update() {
    let world = World::new().await;
    let client = Client::modern(ADA, tasks());
    let asked = world.ask(&client, "tools/call", write()).await.result();
    let id = asked["_meta"]["weftwork/run"].clone();
    let task = world.ask(&client, "tasks/get", json!({"taskId": id})).await.result();
    assert_eq!(task["status"], "input_required", "{task}");
    assert_eq!(task["inputRequests"], asked["inputRequests"]);
    let key = task["inputRequests"].as_object().expect("requests").keys().next().expect("one");
    let update = |responses: Value| json!({"taskId": id, "inputResponses": responses});
    // Responses to other questions have no effect.
    let nothing = update(json!({"other": {"action": "decline"}}));
    world.ask(&client, "tasks/update", nothing).await.result();
    let again = world.ask(&client, "tasks/get", json!({"taskId": id})).await.result();
    assert_eq!(again["status"], "input_required");
    let wrong = update(json!({key: {"action": "perhaps"}}));
    assert_eq!(world.ask(&client, "tasks/update", wrong).await.code(), -32602);
    assert_eq!(world.ask(&client, "tasks/update", json!({"taskId": id})).await.code(), -32602);
    let approve = update(json!({key: {"action": "accept", "content": {"decision": "approve"}}}));
    let taken = world.ask(&client, "tasks/update", approve.clone()).await.result();
    assert_eq!(taken["resultType"], "complete");
    loop {
        let task = world.ask(&client, "tasks/get", json!({"taskId": id})).await.result();
        if task["status"] != "working" {
            assert_eq!(task["status"], "completed", "{task}");
            assert_eq!(task["result"]["isError"], false);
            break;
        }
        tokio::task::yield_now().await;
    }
    // An answer to a task that has ended has no effect.
    world.ask(&client, "tasks/update", approve).await.result();
}

#[tokio::test]
async fn an_older_client_asks_for_a_task_and_waits_for_its_result() {
    let world = World::new().await;
    let client = world.session(ADA, &forms()).await;
    let mut params = write();
    params["task"] = json!({"ttl": 60_000});
    let created = world.ask(&client, "tools/call", params).await.result();
    let task = &created["task"];
    assert_eq!(task["status"], "working");
    assert!(task["ttl"].is_null());
    let id = json!({"taskId": task["taskId"]});
    let mut results = world.open(&client.id(json!(2)), "tasks/result", id.clone()).await;
    let request = results.next().await.expect("a request");
    assert_eq!(request["method"], "elicitation/create", "{request}");
    let related = "io.modelcontextprotocol/related-task";
    assert_eq!(request["params"]["_meta"][related]["taskId"], task["taskId"]);
    let now = world.ask(&client.id(json!(3)), "tasks/get", id.clone()).await.result();
    assert_eq!(now["status"], "input_required");
    let session = client.session.as_deref().expect("a session");
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", crate::world::LEGACY)];
    let accept = json!({"action": "accept", "content": {"decision": "approve"}});
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": accept});
    assert_eq!(world.post(ADA, &headers, &body.to_string()).await.status, 202);
    let messages = results.rest().await;
    let last = messages.last().expect("a response");
    assert_eq!(last["result"]["isError"], false, "{last}");
    assert_eq!(last["result"]["_meta"][related]["taskId"], task["taskId"]);
    // The result is there for whoever asks again.
    let again = world.ask(&client.id(json!(4)), "tasks/result", id.clone()).await.result();
    assert_eq!(again, last["result"]);
    let now = world.ask(&client.id(json!(5)), "tasks/get", id.clone()).await.result();
    assert_eq!(now["status"], "completed");
    let late = world.ask(&client.id(json!(6)), "tasks/cancel", id).await;
    assert_eq!(late.code(), -32602);
}

#[tokio::test]
async fn the_result_of_a_task_comes_after_its_end_also_for_clients_without_forms() {
    let world = World::new().await;
    let client = world.session(ADA, &json!({})).await;
    let mut params = write();
    params["task"] = json!({});
    let created = world.ask(&client, "tools/call", params).await.result();
    let id = json!({"taskId": created["task"]["taskId"]});
    let results = world.open(&client.id(json!(2)), "tasks/result", id.clone()).await;
    let told = loop {
        let task = world.ask(&client.id(json!(3)), "tasks/get", id.clone()).await.result();
        if task.get("statusMessage").is_some() {
            break task;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(told["status"], "working", "{told}");
    world.ask(&client.id(json!(4)), "tasks/cancel", id).await.result();
    let messages = results.rest().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(text_of(&messages[0]["result"]), "the call was cancelled");
}

#[tokio::test]
async fn a_task_that_waits_is_cancelled_and_its_conversation_goes_on() {
    let world = World::with(echo).await;
    for client in [Client::modern(ADA, tasks()), world.session(ADA, &json!({})).await] {
        let asked = world.ask(&client, "tools/call", write()).await.result();
        let id = json!({"taskId": asked["_meta"]["weftwork/run"]});
        let cancelled = world.ask(&client.id(json!(2)), "tasks/cancel", id.clone()).await.result();
        if client.session.is_some() {
            assert_eq!(cancelled["status"], "cancelled");
        }
        let task = world.ask(&client.id(json!(3)), "tasks/get", id).await.result();
        assert_eq!(task["status"], "cancelled");
        let conversation = &asked["_meta"]["weftwork/conversation"];
        let arguments = json!({"message": "Write b.", "conversation": conversation});
        let params = json!({"name": "golf", "arguments": arguments});
        let next = world.ask(&client.id(json!(4)), "tools/call", params).await.result();
        assert_eq!(next["isError"], false, "{next}");
    }
}
