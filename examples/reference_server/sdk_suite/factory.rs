//! The graph `factory_agent`. In Python a function makes the graph for each access of the server,
//! and the graph reports the access. Here a function makes what the runs of the graph depend on,
//! when one of them is executed.

use serde_json::json;
use std::error::Error;
use weftwork::graph::Semantics;
use weftwork::graph::{DynUpdate, Dynamic};
use weftwork::prelude::*;
use weftwork::runtime::RuntimeBuilder;
use weftwork::types::port::Dependencies;

use crate::graphs::last;

/// The access for which the dependency was made.
struct Access {
    context: &'static str,
    is_for_execution: bool,
}

async fn echo(state: State<Dynamic>, access: Deps<Access>) -> DynUpdate {
    let text = state.get("text").and_then(|text| text.as_str().map(str::to_owned));
    DynUpdate::new()
        .write("text", json!(text.unwrap_or_default() + " echoed"))
        .write("access_context", json!(access.context))
        .write("is_for_execution", json!(access.is_for_execution))
}

/// Adds the graph to a runtime.
///
/// # Errors
/// The problem of the graph.
pub(super) fn host(builder: RuntimeBuilder) -> Result<RuntimeBuilder, Box<dyn Error>> {
    let channels = vec![
        last("text", "string"),
        last("access_context", "string"),
        last("is_for_execution", "boolean"),
    ];
    let graph: Graph<Dynamic> = Graph::dynamic("factory_agent", channels);
    let graph = graph
        .semantics(Semantics::langgraph())
        .with_run_scoped::<Access>()
        .node("echo", echo)
        .edge(START, "echo")
        .build()?;
    // Runs are all that a runtime makes dependencies for.
    Ok(builder.graph_with("factory_agent", graph, |_, _| {
        let access = Access { context: "threads.create_run", is_for_execution: true };
        Ok(Dependencies::new().with(access))
    }))
}
