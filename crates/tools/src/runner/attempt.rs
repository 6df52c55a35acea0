//! A single attempt of a tool's future, which ends with a value, an error, a panic or a timeout.

use super::ToolRunner;
use super::execute::RunCall;
use super::prepare::Head;
use crate::error::code;
use crate::tool::Tool;
use crate::{ToolContext, ToolError};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use weftwork_types::BoxFuture;
use weftwork_types::port::{CallContext, CallKey};
use weftwork_types::tool::{ToolErrorKind, ToolFailure};

/// The end of an attempt without a result from the tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cut {
    Panicked,
    /// The tool does not know what became of the call.
    Lost(ToolFailure),
    TimedOut {
        after: Duration,
    },
}

/// The time left for the tool: its own limit, or the time until the caller's deadline.
pub(super) fn time_left(tool: &dyn Tool, context: &CallContext) -> Duration {
    match context.deadline {
        Some(deadline) => tool.timeout().min(deadline.since(context.clock.now())),
        None => tool.timeout(),
    }
}

impl ToolRunner {
    pub(super) fn tool_context(
        &self,
        call: &RunCall,
        key: CallKey,
        limit: Duration,
    ) -> ToolContext {
        let head = &call.head;
        ToolContext {
            deadline: head.context.clock.now().plus(limit),
            call: head.context.clone(),
            tool_call_id: head.tool_call_id.clone(),
            idempotency_key: call.idempotency_key(key).to_string(),
            replies: call.rounds.for_tool(),
            provided: self.provided.clone(),
        }
    }
}

/// Runs a tool's future. Dropping this future drops the tool's future.
pub(super) async fn attempt<T>(
    head: &Head,
    limit: Duration,
    start: impl FnOnce() -> BoxFuture<'static, Result<T, ToolError>>,
) -> Result<Result<T, ToolError>, Cut> {
    // The function that creates the future may panic too.
    let work = AssertUnwindSafe(async move { start().await }).catch_unwind();
    let sleep = head.context.clock.sleep(limit);
    match select(Box::pin(work), sleep).await {
        Either::Left((Ok(result), _)) => Ok(result),
        Either::Left((Err(payload), _)) => {
            // The text of a panic may contain secrets, so it is only written to the operator's log.
            tracing::error!(
                tool = %head.wire_name,
                tool_call_id = %head.tool_call_id,
                panic = head.shape(panic_text(payload.as_ref())),
                "a tool panicked"
            );
            Err(Cut::Panicked)
        }
        Either::Right(((), _)) => Err(Cut::TimedOut { after: limit }),
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}

impl Cut {
    pub(super) fn failure(self, tool: &str, may_have_acted: bool) -> ToolFailure {
        let acted = if may_have_acted { "; it may have taken effect" } else { "" };
        let (code, what) = match self {
            Self::Lost(mut failure) => {
                failure.safe_message.push_str(acted);
                return failure;
            }
            Self::Panicked => (code::TOOL_PANICKED, "stopped by an error in its own code".into()),
            Self::TimedOut { after } => {
                (code::TOOL_TIMED_OUT, format!("did not end within {} ms", after.as_millis()))
            }
        };
        ToolFailure::new(ToolErrorKind::Execution, code, format!("tool `{tool}` {what}{acted}"))
    }
}
