//! The end of a run of a thread.

use std::fmt;
use std::ops::Deref;
use weftwork_graph::{CompiledGraph, Ended};
use weftwork_types::run::{RunOutcome, RunRef};

/// A run of a thread that has ended. It dereferences to its [end](Ended), and is printed like it.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Graph, List, START, State};
/// use weftwork_runtime::Runtime;
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pack = async |_: State<Order>| OrderUpdate::new().log(["packed"]);
/// let graph = Graph::<Order>::new("order").node("pack", pack).edge(START, "pack").build()?;
/// let runtime = Runtime::in_memory().graph("order", graph).open().await?;
/// let ended = runtime.thread("order", "order-7")?.start(json!({})).await?;
/// assert_eq!(ended.run().thread.as_str(), "order-7");
/// assert_eq!(ended.state::<Order>()?.log().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EndedRun {
    run: RunRef,
    ended: Ended,
}

impl EndedRun {
    pub(super) fn new(run: RunRef, outcome: RunOutcome, graph: CompiledGraph) -> Self {
        let ended = Ended::new(run.run.to_string(), outcome, graph);
        Self { run, ended }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunRef {
        &self.run
    }
}

impl Deref for EndedRun {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl fmt::Display for EndedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ended.fmt(f)
    }
}
