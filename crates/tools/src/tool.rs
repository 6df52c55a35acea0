//! What a tool is.

use crate::{Need, ToolContext, ToolError};
use serde_json::Value;
use std::time::Duration;
use weftwork_types::BoxFuture;
use weftwork_types::tool::ToolSpec;

/// How long a tool may take unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Something a model may call. Nothing but [`ToolRunner`](crate::ToolRunner) calls it.
///
/// Most tools are functions under [`#[tool]`](macro@crate::tool) or an [`FnTool`](crate::FnTool).
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// The tool as models and policies see it. The same at every call.
    fn spec(&self) -> &ToolSpec;

    /// Runs the tool. The arguments satisfy [`ToolSpec::parameters`].
    ///
    /// # Cancel safety
    /// The future is dropped at the deadline or when the run is cancelled. It must give control
    /// back at await points: one that computes without end cannot be cut off.
    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// What the program must provide for it.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Its look-up of past calls; a tool whose spec says
    /// [`Reconcile`](weftwork_types::tool::UnknownOutcome::Reconcile) has one.
    fn reconcile(&self) -> Option<&dyn Reconcile> {
        None
    }
}

/// Finds out whether a call took effect, after the process died inside it.
pub trait Reconcile: Send + Sync {
    /// The result of the call that was made with `context.idempotency_key`, or `None` when the
    /// call certainly did not take effect and never will: it is made again then.
    ///
    /// # Cancel safety
    /// As [`Tool::call`].
    fn lookup(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Option<Value>, ToolError>>;
}
