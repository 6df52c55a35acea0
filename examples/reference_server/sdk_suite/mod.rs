//! The graphs that the integration suite of LangGraph's Python SDK expects a server to have:
//! `agent`, `tools_agent`, `deep_agent` and `factory_agent`. Names of nodes, keys of states, texts
//! and the order of steps are part of them.
//!
//! Source: `integration/graph` in the source distribution of `langgraph-sdk`.

mod agents;
mod factory;
mod streaming;

use std::error::Error;
use weftwork::runtime::RuntimeBuilder;

/// Adds the graphs to a runtime.
///
/// # Errors
/// The problem of a graph or of its tools.
pub(crate) fn host(builder: RuntimeBuilder) -> Result<RuntimeBuilder, Box<dyn Error>> {
    let builder = builder
        .graph("agent", streaming::agent()?)
        .graph("tools_agent", agents::tools_agent()?)
        .graph("deep_agent", agents::deep_agent()?);
    factory::host(builder)
}
