//! Servers that end in the middle of a task.

use crate::world::{ADA, World, echo, message, state, text_of};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use weftwork::sqlite::SqliteStore;

/// A task is the same before and after another process opens its store, and nothing is asked again.
#[tokio::test]
async fn a_task_is_the_same_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("store.db");
    let open = || Arc::new(SqliteStore::open(&file, &Default::default()).expect("opens"));
    let first = World::over(open(), echo).await;
    let done = first.ask("golf", "m1", "One.").await;
    let asked = first.ask("clerk", "m2", "Write a.").await;
    drop(first);
    let world = World::over(open(), echo).await;
    let id = done["id"].as_str().expect("an id");
    let read = world.rest(ADA, &format!("GET /a2a/golf/tasks/{id}"), &Value::Null).await;
    assert_eq!(read.json(), done);
    assert_eq!(world.requests(), 0);
    // A task that asks is subscribed, and answered.
    let id = asked["id"].as_str().expect("an id");
    let mut events =
        world.open(ADA, &format!("GET /a2a/clerk/tasks/{id}:subscribe"), &Value::Null).await;
    let task = events.next().await.expect("the task")["task"].clone();
    assert_eq!(task, asked);
    let mut answer = message("m3", "approve");
    answer["taskId"] = asked["id"].clone();
    let sent = world.rpc(ADA, "clerk", "SendMessage", &json!({"message": answer})).await.result();
    assert_eq!(state(&sent["task"]), "TASK_STATE_COMPLETED");
    let events = events.rest().await;
    let last = &events[events.len() - 1]["statusUpdate"];
    assert_eq!(state(last), "TASK_STATE_COMPLETED", "{events:?}");
    assert!(!text_of(&sent["task"]).is_empty());
}
