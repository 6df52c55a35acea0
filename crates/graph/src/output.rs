//! Results of nodes: updates of a state.

use crate::error::NodeError;
use crate::extract::BuildInfo;
use weftwork_engine::TaskOutput;

/// The result of a node.
///
/// ```
/// use weftwork_graph::{NodeError, NodeResult, State};
///
/// #[derive(State)]
/// struct Order {
///     euros: u32,
/// }
///
/// async fn check(order: State<Order>) -> NodeResult<()> {
///     match order.euros() {
///         Some(euros) if *euros > 1000 => Err(NodeError::message(format!("{euros} is too much"))),
///         _ => Ok(()),
///     }
/// }
/// ```
pub type NodeResult<T> = Result<T, NodeError>;

/// Types that a node may return: an update of its state, a [`Command`](crate::Command), nothing, or a `Result` of
/// those.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a node",
    label = "not an update of a state",
    note = "nodes return an update (`MyStateUpdate`), a `Command`, `()`, or a `Result` of one of them"
)]
pub trait IntoOutput {
    /// The writes and targets.
    ///
    /// # Errors
    /// The node's own error, or a value that cannot be sent.
    fn into_output(self) -> NodeResult<TaskOutput>;

    /// Reasons for which a graph cannot take this result, and how to fix them.
    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let _ = info;
        None
    }
}

impl IntoOutput for () {
    fn into_output(self) -> NodeResult<TaskOutput> {
        Ok(TaskOutput::default())
    }
}

impl<T: IntoOutput, E: Into<NodeError>> IntoOutput for Result<T, E> {
    fn into_output(self) -> NodeResult<TaskOutput> {
        self.map_err(Into::into)?.into_output()
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        T::check(info)
    }
}
