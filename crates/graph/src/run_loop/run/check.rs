//! Reasons to refuse a run before it starts.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::context::Host;
use crate::run_loop::options::{Options, Start};
use weftwork_engine::plan::START_NAME;
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::run::Stops;

/// Refuses what cannot be, and names of what is not there unless the graph ignores them.
pub(crate) fn check_run(
    graph: &CompiledGraph,
    host: &Host,
    start: &Start,
    options: &Options,
) -> Result<(), RuntimeError> {
    // Input is read again only from a checkpoint.
    if let (Start::Input(input), Some(_)) = (start, host.checkpointer())
        && !can_be_read_back(input)
    {
        return Err(RuntimeError::TooDeep { what: "the input" });
    }
    if let Start::Typed(_, misfit) = start
        && let Some((what, fix)) = misfit(&graph.info())
    {
        return Err(RuntimeError::OtherState { what, fix });
    }
    let plan = graph.plan();
    // The reference ignores stops at nodes that it does not have.
    if graph.settings().ignores_unknown {
        return Ok(());
    }
    for (what, stops) in
        [("`interrupt_before`", &options.before), ("`interrupt_after`", &options.after)]
    {
        let Some(Stops::Nodes(nodes)) = stops else { continue };
        let known = |node: &String| node == START_NAME || plan.node_idx(node).is_some();
        if let Some(node) = nodes.iter().find(|node| !known(node)) {
            return Err(RuntimeError::unknown_node(what, node, plan));
        }
    }
    if options.at.is_some() && host.checkpointer().is_none() {
        return Err(RuntimeError::NoCheckpointer { what: "starting from a checkpoint" });
    }
    Ok(())
}
