//! Commits of a send and of an activity, as the write-ahead log of SQLite has them.

use super::{Place, close, id, open_on, options};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use weftwork::agents::{Activity, ActivityContext};
use weftwork::graph::NodeError;
use weftwork::tools::ToolBox;
use weftwork_testkit::ManualClock;

/// Number of commits in a write-ahead log that no checkpoint has restarted: a frame that ends one
/// has the size of the database.
fn commits(log: &Path) -> usize {
    let bytes = std::fs::read(log).expect("reads");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let header = 32;
    let frame_header = 24;
    let page = number(8) as usize;
    let salt = &bytes[16..24];
    let frames = (header..bytes.len() - page).step_by(frame_header + page);
    // Frames of another salt are left over.
    let frames = frames.take_while(|at| &bytes[at + 8..at + 16] == salt);
    frames.filter(|at| number(at + 4) > 0).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_is_one_commit_and_an_activity_of_one_superstep_is_three() {
    let place = Place::sqlite("");
    let Place::Sqlite(folder) = &place else { unreachable!("it is in a file") };
    let log = folder.path().join("store-wal");
    // No worker writes that it lives while this clock stands.
    let agents = open_on(&place, ToolBox::new(), Arc::new(ManualClock::new())).await;
    let count = |count: u64, _: ActivityContext| async move { Ok::<_, NodeError>(count + 1) };
    agents.create("count", 0_u64, count, options()).await.expect("created");
    for number in 1..=3 {
        let before = commits(&log);
        let sent = agents.leave(id(), Activity::new(json!(null))).await.expect("accepted");
        assert_eq!(commits(&log) - before, 1, "the send");
        agents.attend(id());
        sent.ended().await.expect("succeeds");
        assert_eq!(agents.get_state(id()).await, Ok(json!(number)));
        assert_eq!(
            commits(&log) - before - 1,
            3,
            "the claim, the input, and the superstep with the end"
        );
    }
    close(agents).await;
}
