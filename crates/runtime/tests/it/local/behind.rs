//! Rows of checkpoints that are written while the next superstep runs.

use super::gated::{Gated, When};
use super::gated_runs::{ended, ends, history};
use std::path::Path;
use std::sync::Arc;
use weftwork_graph::Durability;
use weftwork_graph::run_loop::Checkpointer;
use weftwork_runtime::StoreCheckpointer;
use weftwork_sqlite::SqliteStore;
use weftwork_types::Principal;

fn open_checkpointer(folder: &Path) -> Arc<dyn Checkpointer> {
    let options = weftwork_sqlite::Options {
        durability: weftwork_sqlite::Durability::Normal,
        ..Default::default()
    };
    let store = SqliteStore::open(folder.join("weft.db"), &options).expect("opens");
    StoreCheckpointer::new(Arc::new(store), Principal::local())
}

#[tokio::test]
async fn rows_hold_the_state_as_it_was_when_the_write_began() {
    for (what, graph) in ends() {
        for when in [When::Asked, When::LetThrough] {
            let mut found = Vec::new();
            for durability in [Durability::Sync, Durability::Async] {
                let folder = tempfile::TempDir::new().expect("a folder");
                let gated = Gated::over(open_checkpointer(folder.path()), when, None);
                let done = ended(what, &graph, &gated, durability).await;
                found.push((done, history(&graph, &gated.checkpointer).await));
            }
            assert_eq!(found[0], found[1], "{what}, {when:?}");
        }
    }
}
