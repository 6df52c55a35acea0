//! A runtime with the graphs of `examples/reference_server`.

#[path = "../../../../examples/reference_server/agent.rs"]
mod agent;
#[path = "../../../../examples/reference_server/graphs.rs"]
mod graphs;

use weftwork_runtime::{Runtime, RuntimeBuilder};

/// Builds a runtime in memory that hosts the graphs of the recording.
pub(crate) fn builder() -> RuntimeBuilder {
    let builder = graphs::host(Runtime::in_memory().runs_max(4)).expect("sound");
    builder.graph("agent", agent::agent().expect("sound"))
}

/// A runtime in memory that hosts the graphs of the recording.
pub(crate) async fn runtime() -> Runtime {
    builder().open().await.expect("opens")
}
