//! Runs that exist are joined.

use crate::rig::{There, graph_with_remote, local};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::runtime::{Builder, Runtime as Tokio};
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_types::event::AiEvent;
use weftwork_types::run::RunRef;
use weftwork_types::{Principal, ThreadId};

/// A process of its own.
fn process() -> Tokio {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts")
}

/// Starts a run, and ends its process once the remote run is in its node.
fn killed_within(there: &There, store: &Arc<dyn Store>) -> RunRef {
    let process = process();
    let run = process.block_on(async {
        let graph = graph_with_remote(there.remote("gated"), &["msg", "out"]);
        let runtime = local(Arc::clone(store), graph).await;
        let thread = runtime.thread("around", "t").expect("valid");
        let handle =
            thread.start(json!({"msg": "a"})).begin().await.expect("accepted").into_handle();
        there.gate.entered.acquire().await.expect("open").forget();
        handle.run
    });
    process.shutdown_background();
    run
}

async fn next_process(there: &There, store: &Arc<dyn Store>) -> Runtime {
    local(Arc::clone(store), graph_with_remote(there.remote("gated"), &["msg", "out"])).await
}

#[test]
fn a_process_that_was_killed_within_a_remote_run_joins_it() {
    let there_process = process();
    let there = there_process.block_on(There::start());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let run = killed_within(&there, &store);
    process().block_on(async {
        let runtime = next_process(&there, &store).await;
        let who = Principal::local();
        let handle = runtime.resume(&who, &ThreadId::new("t").expect("valid")).await;
        let handle = handle.expect("its process is dead").into_handle();
        assert_eq!(handle.run, run);
        there.gate.open.add_permits(1);
        let output = handle.outcome.await.output().expect("completes");
        assert_eq!(output["after"], json!("after call 1"));
        let events = store.events(&who, &run, 0, 1_000).await.expect("reads");
        // Frames of all modes are replayed, with those from before the kill.
        let ours = events.iter().skip_while(|told| told.event != AiEvent::TakenOver { claim: 2 });
        let modes = ours.filter_map(|told| match &told.event {
            AiEvent::RemoteFrame { mode, .. } => Some(mode.as_str()),
            _ => None,
        });
        assert_eq!(modes.collect::<Vec<_>>(), ["values", "custom", "updates", "values"]);
        assert_eq!((there.gate.calls.load(Ordering::SeqCst), there.runs().await), (1, 1));
    });
}

#[test]
fn a_remote_run_that_ended_meanwhile_is_not_repeated() {
    let there_process = process();
    let there = there_process.block_on(There::start());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    killed_within(&there, &store);
    there.gate.open.add_permits(1);
    process().block_on(async {
        there.rests().await;
        let runtime = next_process(&there, &store).await;
        let thread = ThreadId::new("t").expect("valid");
        let handle =
            runtime.resume(&Principal::local(), &thread).await.expect("it is dead").into_handle();
        let output = handle.outcome.await.output().expect("completes");
        assert_eq!(output["after"], json!("after call 1"));
        assert_eq!((there.gate.calls.load(Ordering::SeqCst), there.runs().await), (1, 1));
    });
}
