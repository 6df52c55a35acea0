//! Keys and names of tasks.

use crate::compiled::CompiledGraph;
use crate::run_loop::checkpointer::TaskKey;
use std::sync::Arc;
use weftwork_engine::pregel::{Path, Task};

/// A task's key.
pub(crate) fn key_of(graph: &CompiledGraph, task: &Task) -> TaskKey {
    TaskKey::Node { node: Arc::clone(name_of(graph, task)), path: task.path }
}

/// A task's name: its node's, or that of the error handler.
pub(crate) fn name_of<'a>(graph: &'a CompiledGraph, task: &Task) -> &'a Arc<str> {
    let handler = match task.path {
        Path::Handler(_) => graph.handler_name(task.node),
        _ => None,
    };
    handler.unwrap_or_else(|| graph.plan().shared_name(task.node))
}

/// The task that handles another one's failure.
pub(crate) fn handler_of(failed: &Task) -> Task {
    // The position of a send tells apart the handlers of sends to one node.
    let path = Path::Handler(match failed.path {
        Path::Push(index) => Some(index),
        _ => None,
    });
    Task { node: failed.node, path, arg: failed.arg.clone() }
}
