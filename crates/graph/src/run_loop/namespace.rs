//! Namespaces of checkpoints: paths from the outermost graph to a subgraph.

use std::sync::{Arc, LazyLock};
use weftwork_types::TaskId;

/// The namespace of the outermost graph.
pub(crate) fn nowhere() -> Arc<str> {
    static NOWHERE: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
    Arc::clone(&NOWHERE)
}

/// The namespace of the graph that a task runs.
pub(crate) fn task_ns(ns: &str, name: &str, id: TaskId) -> String {
    if ns.is_empty() { format!("{name}:{id}") } else { format!("{ns}|{name}:{id}") }
}

/// A namespace without its tasks: the same for all of them.
pub(crate) fn without_tasks(ns: &str) -> String {
    // Names of nodes contain neither separator.
    let parts = ns.split('|').map(|part| part.split(':').next().unwrap_or_default());
    parts.collect::<Vec<_>>().join("|")
}
