//! Everything that can be hosted, or be a member of a team, as a graph.

use crate::builder::Graph;
use crate::compiled::CompiledGraph;
use crate::error::InvalidGraph;
use crate::flow::Flow;
use crate::state::StateSpec;

/// A value that becomes a compiled graph: a [`CompiledGraph`], a builder of graphs or agents, or a
/// `Result` of one of them. Its problems are reported by the call that needs the graph, such as
/// `RuntimeBuilder::open` or `Agent::build`, so that `build()?` may be left out.
///
/// ```
/// # use weftwork_graph::{Graph, IntoGraph, START, State};
/// # #[derive(State)]
/// # struct Count { #[channel(default)] n: u32 }
/// # async fn double(count: State<Count>) -> CountUpdate { CountUpdate::new().n(count.n() * 2) }
/// let graph = Graph::<Count>::new("double").node("double", double);
/// let problem = graph.into_graph().expect_err("no edge leads to the node");
/// assert_eq!(problem.code().0, "W0101");
/// assert!(problem.to_string().contains("graph `double` cannot be built"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no graph",
    note = "graphs are a `CompiledGraph`, a `Graph<S>`, a `Flow`, an agent (`ReactAgent`, `Supervisor`, `Swarm`, …), and a `Result` of one of them; a prompt becomes an agent by `Prompt::with_model`"
)]
pub trait IntoGraph {
    /// Compiles the graph.
    ///
    /// # Errors
    /// [`InvalidGraph`] with all problems.
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph>;
}

impl IntoGraph for CompiledGraph {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        Ok(self)
    }
}

impl IntoGraph for &CompiledGraph {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        Ok(self.clone())
    }
}

impl<S: StateSpec> IntoGraph for Graph<S> {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        Ok(self.build()?)
    }
}

impl IntoGraph for Flow {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        Ok(self.build()?)
    }
}

impl<G: IntoGraph, E: Into<InvalidGraph>> IntoGraph for Result<G, E> {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        self.map_err(Into::into)?.into_graph()
    }
}
