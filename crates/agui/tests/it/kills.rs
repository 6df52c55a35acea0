//! Servers that end in the middle of a conversation. Those that are killed while a client streams are in the
//! tests of the program.

use crate::page::Page;
use crate::world::{World, echo, resumes, says, says_all, written};
use serde_json::json;
use std::sync::Arc;
use tempfile::TempDir;
use weftwork::sqlite::SqliteStore;

/// Runs are the same before and after another process opens their store, and nothing is asked again.
#[tokio::test]
async fn runs_are_the_same_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("store.db");
    let open = || Arc::new(SqliteStore::open(&file, &Default::default()).expect("opens"));
    let world = World::over(open(), echo).await;
    let done = world.run("golf", says("t", "r1", "One.")).await;
    let asked = world.run("clerk", says("t2", "r1", "Write a.")).await;
    drop(world);
    let world = World::over(open(), echo).await;
    let again = world.run("golf", says("t", "r1", "One.")).await;
    assert_eq!(again.last(), done.last());
    let again = world.run("clerk", says_all("t2", "r1", &[])).await;
    assert_eq!(again.last(), asked.last());
    assert!(world.requests().is_empty());
    let interrupt = &asked.last().expect("events")["outcome"]["interrupts"][0]["id"];
    let entry =
        json!({"interruptId": interrupt, "status": "resolved", "payload": {"approved": true}});
    let before = written();
    let events = world.run("clerk", resumes("t2", "r2", json!([entry]))).await;
    assert_eq!(events.last().expect("events")["outcome"]["type"], "success");
    assert_eq!(written(), before + 1);
    let shown = Page::of(&events).shown();
    assert!(shown.iter().any(|text| text.contains("wrote a")), "{shown:?}");
}
