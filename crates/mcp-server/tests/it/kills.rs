//! Servers that end in the middle of a call.

use crate::world::{ADA, Client, World, echo, forms, tasks};
use serde_json::json;
use std::sync::Arc;
use tempfile::TempDir;
use weftwork::sqlite::SqliteStore;

/// Calls, their tasks and their questions are the same in another process, and nothing is asked again.
#[tokio::test]
async fn a_call_its_task_and_its_question_are_the_same_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("store.db");
    let open = || Arc::new(SqliteStore::open(&file, &Default::default()).expect("opens"));
    let first = World::over(open(), echo).await;
    let client = Client::modern(ADA, tasks());
    let old = first.session(ADA, &forms()).await;
    let params = json!({"name": "golf", "arguments": {"message": "One."},
        "_meta": {"weftwork/idempotencyKey": "k"}});
    let done = first.ask(&client, "tools/call", params.clone()).await.result();
    let task = json!({"taskId": done["_meta"]["weftwork/run"]});
    let known = first.ask(&client, "tasks/get", task.clone()).await.result();
    let write = json!({"name": "clerk", "arguments": {"message": "Write a."}});
    let asked = first.ask(&client, "tools/call", write.clone()).await.result();
    let mut of_old = first.open(&old, "tools/call", write.clone()).await;
    let request = of_old.next().await.expect("a request");
    drop((of_old, first));

    let world = World::over(open(), echo).await;
    assert_eq!(world.ask(&client, "tasks/get", task).await.result(), known);
    assert_eq!(world.ask(&client, "tools/call", params).await.result(), done);
    assert_eq!(world.requests(), 0);
    // The state of a question is good in the other process.
    let key = asked["inputRequests"].as_object().expect("requests").keys().next().expect("one");
    let mut answer = write.clone();
    answer["inputResponses"] =
        json!({key: {"action": "accept", "content": {"decision": "approve"}}});
    answer["requestState"] = asked["requestState"].clone();
    let written = world.ask(&client, "tools/call", answer).await.result();
    assert_eq!(written["isError"], false, "{written}");
    assert_eq!(written["_meta"]["weftwork/run"], asked["_meta"]["weftwork/run"]);
    // So is the session of an older client, which repeats its request, and is asked the same.
    let mut again = world.open(&old, "tools/call", write).await;
    assert_eq!(again.next().await.expect("a request"), request);
}
