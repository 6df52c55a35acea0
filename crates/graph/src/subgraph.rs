//! Graphs as nodes of graphs: what goes in, and what comes out.

use crate::compiled::{CompiledGraph, NodeFn};
use crate::context::Ctx;
use crate::extract::Input;
use crate::output::{IntoOutput, NodeResult};
use crate::semantics::SubgraphState;
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_engine::{EngineError, TaskOutput, Write};

/// A node that runs a graph.
pub(crate) fn subgraph_node(graph: CompiledGraph, keep: SubgraphState) -> NodeFn {
    let inner = graph.clone();
    let mut node = NodeFn::new(move |Input(input): Input, ctx: Ctx| {
        let inner = inner.clone();
        async move {
            let input = take_input(&inner, input);
            let output = ctx.call(&inner, keep, input).await?;
            let parent = ctx.at().loop_context.graph.clone();
            NodeResult::Ok(Output { json: output, graph: inner, parent })
        }
    });
    // The node writes what the graph returns, and a graph that is closed returns its state.
    let closer = graph.has_closers().then(|| node.clone());
    let options = Arc::make_mut(&mut node.options);
    options.on_left_open = closer;
    options.graph = Some((graph, keep));
    node
}

/// Reduces the node's input to the channels that the graph takes as input. A graph that ignores
/// unknown names filters them itself.
fn take_input(graph: &CompiledGraph, mut input: Json) -> Json {
    let plan = graph.plan();
    let is_filtered = !graph.settings().ignores_unknown && !plan.is_single();
    if let Some(members) = input.as_object_mut().filter(|_| is_filtered) {
        members.retain(|name, _| plan.channel_idx(name).is_some_and(|index| plan.is_input(index)));
    }
    input
}

/// The output of a graph as the update of the node that ran it.
struct Output {
    json: Json,
    graph: CompiledGraph,
    /// The graph of the node.
    parent: CompiledGraph,
}

impl IntoOutput for Output {
    fn into_output(self) -> NodeResult<TaskOutput> {
        let members = match self.json {
            Json::Object(members) => members,
            Json::Null => return Ok(TaskOutput::default()),
            found => {
                let by =
                    format!("the output of graph `{}`, which runs as a node,", self.graph.name());
                return Err(EngineError::NotAnObject { by, found: found.to_string() }.into());
            }
        };
        // A channel of the inner graph alone is its own matter, and no unknown name.
        let is_strict = !self.parent.settings().ignores_unknown;
        let plan = self.parent.plan();
        let written = |name: &str| !is_strict || plan.channel_idx(name).is_some();
        let written = members.into_iter().filter(|(name, _)| written(name));
        let named = written.map(|(name, json)| (name, Write::json(json))).collect();
        Ok(TaskOutput { named, ..TaskOutput::default() })
    }
}
