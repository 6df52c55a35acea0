//! Servers that end in the middle of a stream.

use crate::world::{ADA, World, echo, text_of};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

/// A response is the same before and after another process opens its store, and nothing is asked again.
#[tokio::test]
async fn a_response_is_the_same_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("store.db");
    let open = || {
        Arc::new(weftwork::sqlite::SqliteStore::open(&file, &Default::default()).expect("opens"))
    };
    let first: Value = {
        let world = World::over(open(), echo).await;
        world.respond(json!({"model": "golf", "input": "One."})).await.json()
    };
    let world = World::over(open(), echo).await;
    let path = format!("/v1/responses/{}", first["id"].as_str().expect("an id"));
    assert_eq!(world.get(ADA, &path).await.json(), first);
    assert!(world.requests().is_empty());
    let body = json!({"model": "golf", "input": "Two.", "previous_response_id": first["id"]});
    assert_eq!(text_of(&world.respond(body).await.json()), "3: Two.");
}
