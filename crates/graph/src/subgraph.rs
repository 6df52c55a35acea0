//! Graphs as nodes of graphs: what goes in, and what comes out.

use crate::compiled::{CompiledGraph, NodeFn};
use crate::context::Ctx;
use crate::extract::Input;
use crate::output::{IntoOutput, NodeResult};
use crate::semantics::SubgraphState;
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_engine::{EngineError, Plan, TaskOutput, Unknown, Write};

/// A node that runs a graph.
pub(crate) fn node(graph: CompiledGraph, keep: SubgraphState) -> NodeFn {
    let inner = graph.clone();
    let mut node = NodeFn::new(move |Input(input): Input, ctx: Ctx| {
        let inner = inner.clone();
        async move {
            let input = taken(inner.plan(), input);
            let output = ctx.call(&inner, keep, input).await?;
            let around = Some(Arc::clone(ctx.at().scope.graph.plan()));
            NodeResult::Ok(Output { json: output, graph: inner, around })
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
fn taken(plan: &Plan, mut input: Json) -> Json {
    if let (Json::Object(members), Unknown::Refuse, false) =
        (&mut input, plan.unknown(), plan.is_single())
    {
        members.retain(|name, _| plan.channel_idx(name).is_some_and(|index| plan.is_input(index)));
    }
    input
}

/// The output of a graph as the update of the node that ran it.
struct Output {
    json: Json,
    graph: CompiledGraph,
    around: Option<Arc<Plan>>,
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
        let strict = self.around.filter(|plan| plan.unknown() == Unknown::Refuse);
        let shared =
            |name: &str| strict.as_ref().is_none_or(|plan| plan.channel_idx(name).is_some());
        let shared = members.into_iter().filter(|(name, _)| shared(name));
        let named = shared.map(|(name, json)| (name, Write::json(json))).collect();
        Ok(TaskOutput { named, ..TaskOutput::default() })
    }
}
