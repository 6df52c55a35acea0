//! Repetition of calls that failed because their tool was not available, as the policy says.

use super::ToolRunner;
use super::attempt::{Cut, attempt, time_left};
use super::execute::RunCall;
use super::unknown::Begun;
use crate::error::RunToolError;
use crate::{ToolError, ToolOutput};
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::port::{CallKey, JournalError};
use weftwork_types::retry::RetryPolicy;
use weftwork_types::tool::ToolFailure;

/// The end of an attempt.
type Ended = Result<Result<ToolOutput, ToolError>, Cut>;

/// A round whose last attempt ended.
pub(super) struct Made {
    pub(super) begun: Begun,
    pub(super) ended: Ended,
}

impl ToolRunner {
    /// Makes the attempts of a round, all with the same idempotency key, until one of them ends the
    /// call.
    pub(super) async fn make_attempts(
        &self,
        call: &RunCall,
        mut begun: Begun,
    ) -> Result<Made, RunToolError> {
        loop {
            let ended = self.make_attempt(call, begun.key).await;
            let Some(wait) = call.wait_after(begun.made, &ended) else {
                return Ok(Made { begun, ended });
            };
            tracing::warn!(
                tool = call.name(),
                tool_call_id = %call.head.tool_call_id,
                attempt = begun.made,
                wait_ms = wait.as_millis(),
                "a tool is not available; its call is repeated"
            );
            call.set_dispatched(Vec::new());
            call.head.context.clock.sleep(wait).await;
            // Recorded after the wait and before the attempt: a process that continues after a crash
            // in the wait has this attempt left, and after a crash in the attempt it does not.
            begun = call.begin_again(begun).await?;
        }
    }

    async fn make_attempt(&self, call: &RunCall, key: CallKey) -> Ended {
        let limit = time_left(call.tool.as_ref(), &call.head.context);
        let context = self.tool_context(call, key, limit);
        let args = call.head.args.clone();
        let tool = Arc::clone(&call.tool);
        call.open_dispatched(key);
        attempt(&call.head, limit, move || tool.call(args, context)).await
    }
}

impl RunCall {
    /// The repetition of the call. A call whose repetition could do harm has none, whatever the
    /// policy says.
    pub(super) fn retry(&self) -> Option<&RetryPolicy> {
        self.head.retry.as_ref().filter(|_| self.entry.spec.may_repeat())
    }

    /// Records that a call is made once more.
    pub(super) async fn begin_again(&self, begun: Begun) -> Result<Begun, JournalError> {
        self.head.context.journal.begin_again(begun.key).await?;
        Ok(Begun { made: begun.made.saturating_add(1), ..begun })
    }

    /// Returns the delay before the next attempt; `None` if this one ends the call, also because the
    /// next one would be too late for the run.
    fn wait_after(&self, attempt: u32, ended: &Ended) -> Option<Duration> {
        let policy = self.retry()?;
        let asked = match ended {
            Ok(Err(error)) if error.is_transient() => error.asked_delay(),
            Err(Cut::TimedOut { .. }) => None,
            Ok(_) | Err(_) => return None,
        };
        let context = &self.head.context;
        let wait = policy.delay(attempt, asked, context.clock.unique())?;
        let next = context.clock.now().plus(wait);
        let is_late = context.deadline.is_some_and(|deadline| next >= deadline);
        (!is_late).then_some(wait)
    }

    /// Adds the number of attempts to the messages of a failure.
    pub(super) fn note_attempts(&self, failure: &mut ToolFailure, made: u32) {
        if made < 2 || self.retry().is_none() {
            return;
        }
        let note = format!("; {made} attempts were made");
        failure.safe_message.push_str(&note);
        if let Some(message) = &mut failure.model_message {
            message.push_str(&note);
        }
    }
}
