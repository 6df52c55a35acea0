//! The tool trait.

use crate::{Need, ToolContext, ToolError, ToolOutput};
use serde_json::Value;
use std::time::Duration;
use weftwork_types::BoxFuture;
use weftwork_types::tool::ToolSpec;

/// Default time limit of a tool.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A function that a model may call. Only [`ToolRunner`](crate::ToolRunner) calls it.
///
/// Most tools are functions with [`#[tool]`](macro@crate::tool) or an [`FnTool`](crate::FnTool).
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// The tool's description for models and policies. Every call returns the same value.
    fn spec(&self) -> &ToolSpec;

    /// Runs the tool. The arguments satisfy [`ToolSpec::parameters`].
    ///
    /// A tool that returns questions is called again with the same arguments and the
    /// [`replies`](ToolContext::replies), possibly in another process, days later.
    ///
    /// # Cancel safety
    /// The future is dropped at the deadline or when the run is cancelled. It must yield at await
    /// points; a computation that never yields cannot be stopped.
    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;

    /// Fills in arguments that the model left out, before they are checked, approved and recorded.
    fn complete(&self, _args: &mut Value) {}

    /// The time limit of a call.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// The values that the program must provide for the tool.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// The lookup of past calls. Required if the spec says
    /// [`Reconcile`](weftwork_types::tool::UnknownOutcome::Reconcile).
    fn reconcile(&self) -> Option<&dyn Reconcile> {
        None
    }
}

/// Determines whether a call took effect after the process died inside it.
pub trait Reconcile: Send + Sync {
    /// Returns the result of the call made with `context.idempotency_key`, or `None` if the call
    /// certainly did not take effect and never will. In that case the call is made again.
    ///
    /// # Cancel safety
    /// See [`Tool::call`].
    fn lookup(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Option<Value>, ToolError>>;
}
