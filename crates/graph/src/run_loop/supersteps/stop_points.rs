//! Nodes before and after which a run stops.

use crate::compiled::CompiledGraph;
use crate::run_loop::context::LoopContext;
use crate::run_loop::options::Options;
use crate::run_loop::task::OpenTask;
use weftwork_types::run::Stops;

/// Nodes before and after which a loop stops.
#[derive(Debug)]
pub(crate) struct StopPoints {
    before: Stops,
    after: Stops,
}

impl StopPoints {
    /// Stops of the request for the outermost graph, and those of the graph otherwise.
    pub(crate) fn new(loop_context: &LoopContext, options: &Options) -> Self {
        // A request names nodes of the outermost graph: an equal name within is another node.
        let before = options.before.clone().filter(|_| !loop_context.is_nested());
        let after = options.after.clone().filter(|_| !loop_context.is_nested());
        Self {
            before: before.unwrap_or_else(|| loop_context.graph.before().clone()),
            after: after.unwrap_or_else(|| loop_context.graph.after().clone()),
        }
    }

    /// Stops before and after these nodes.
    pub(crate) fn of(before: Stops, after: Stops) -> Self {
        Self { before, after }
    }

    /// Returns `true` if the run stops before a node.
    pub(crate) fn is_before_node(&self, node: &str) -> bool {
        stops_at(&self.before, node)
    }

    pub(crate) fn has_before(&self) -> bool {
        !self.before.is_none()
    }

    pub(crate) fn has_after(&self) -> bool {
        !self.after.is_none()
    }

    pub(crate) fn is_before(&self, tasks: &[OpenTask], graph: &CompiledGraph) -> bool {
        tasks.iter().any(|slot| stops_at(&self.before, slot.name(graph)))
    }

    /// Returns `true` if the run stops after a node of these names.
    pub(crate) fn is_after_any(&self, nodes: &[String]) -> bool {
        nodes.iter().any(|node| self.after.contains(node))
    }

    pub(crate) fn is_after(&self, tasks: &[OpenTask], graph: &CompiledGraph) -> bool {
        tasks.iter().any(|slot| stops_at(&self.after, slot.name(graph)))
    }
}

/// Returns `true` if the run stops at a node. The hidden first node counts only if it is named.
fn stops_at(stops: &Stops, node: &str) -> bool {
    let hidden = *stops == Stops::All && node == weftwork_engine::plan::START_NAME;
    !hidden && stops.contains(node)
}
