//! Inspection of a thread without running it.

use crate::origin::HistoryReader;
use crate::stored::StoreCheckpointer;
use std::sync::Arc;
use weftwork_graph::run_loop::{HistoryFilter, Host, Snapshot, StateQuery};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{CheckpointStore, Store};
use weftwork_types::{Principal, ThreadId};

/// Returns the state of a thread at its newest checkpoint, as an object of channel values; `None`
/// if it has no checkpoint yet. Only reads.
///
/// # Errors
/// [`RuntimeError::Store`] when the store refuses, [`RuntimeError::Engine`] when the checkpoints
/// are not of this graph.
pub async fn thread_state(
    graph: &CompiledGraph,
    store: Arc<dyn CheckpointStore>,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Option<serde_json::Value>, RuntimeError> {
    let host = Host::new().with_checkpointer(StoreCheckpointer::new(store, who.clone()));
    let found = graph.state(&host, &StateQuery::thread(thread.as_str()), false).await?;
    Ok(found.metadata.map(|_| found.values))
}

/// Returns the checkpoints of a thread that a filter selects, on all its branches, newest first, with
/// their runs. Only reads.
///
/// # Errors
/// As [`thread_state`].
pub async fn thread_history(
    graph: &CompiledGraph,
    store: &Arc<dyn Store>,
    who: &Principal,
    thread: &ThreadId,
    filter: &HistoryFilter,
) -> Result<Vec<Snapshot>, RuntimeError> {
    let checkpoints: Arc<dyn CheckpointStore> = Arc::clone(store) as _;
    let host = Host::new().with_checkpointer(StoreCheckpointer::new(checkpoints, who.clone()));
    let at = StateQuery::thread(thread.as_str());
    let find = |_: &str| Ok(graph.clone());
    HistoryReader { graph, host: &host, store: store.as_ref(), who, find: &find }
        .read(&at, filter)
        .await
}
