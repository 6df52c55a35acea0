//! Calls with unknown outcome.

use super::ToolRunner;
use super::announce::Charge;
use super::attempt::{attempt, time_left};
use super::execute::{Executed, RunCall};
use super::spans::record_call_end;
use crate::error::{RunToolError, code, cut};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::Instrument as _;
use weftwork_types::ToolCallId;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::CallKey;
pub use weftwork_types::tool::UnknownAnswer;
use weftwork_types::tool::{Effect, ToolErrorKind, ToolFailure, ToolOutcome, UnknownOutcome};

/// A call that was begun and has no result, and whose tool declares that a person decides.
#[derive(Debug)]
#[must_use = "put `ask()` to a person, then `ToolRunner::resolve`"]
pub struct UnknownCall {
    pub(super) call: Box<RunCall>,
    pub(super) begun: Begun,
    pub(super) reason: String,
}

/// A call that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) key: CallKey,
    /// Number of times it was begun.
    pub(super) made: u32,
}

/// The question to a person about a call of unknown outcome, as the value of
/// [`Ask::Value`](weftwork_types::interrupt::Ask::Value).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "tool_outcome_unknown")]
pub struct UnknownQuestion {
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The tool's canonical name.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
    /// The effect of the tool.
    pub effect: Effect,
    /// The key of the call, by which the other service can identify it.
    pub idempotency_key: String,
    /// The reason why the outcome is unknown.
    pub reason: String,
}

/// The result of a tool's lookup.
#[derive(Debug)]
pub(super) enum Looked {
    Found(Value),
    NotFound,
    CannotTell,
}

impl UnknownCall {
    /// The question as a record.
    #[must_use]
    pub fn question(&self) -> UnknownQuestion {
        UnknownQuestion {
            tool_call_id: self.call.head.tool_call_id.clone(),
            tool: self.call.name().to_owned(),
            args: self.call.head.shown_args().clone(),
            effect: self.call.entry.spec.effect,
            idempotency_key: self.call.idempotency_key(self.begun.key).to_string(),
            reason: self.reason.clone(),
        }
    }

    /// Number of times the call was begun. A person is asked once for each time: an answer applies
    /// to the attempts before it, and not to an attempt that it caused.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.begun.made
    }

    /// The question for the interrupt.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Value { value: json!(self.question()) }
    }

    /// JSON Schema of the answer, an [`UnknownAnswer`].
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        let value = self.call.entry.spec.output.clone().unwrap_or(json!(true));
        UnknownAnswer::schema(value)
    }
}

impl ToolRunner {
    /// Brings a call of unknown outcome to its outcome, using a person's answer.
    ///
    /// # Errors
    /// See [`ToolRunner::execute`].
    ///
    /// # Cancel safety
    /// See [`ToolRunner::execute`].
    pub async fn resolve(
        &self,
        unknown: UnknownCall,
        answer: UnknownAnswer,
    ) -> Result<Executed, RunToolError> {
        let span = self.call_span(&unknown.call.head);
        let ended = self.resolve_call(unknown, answer).instrument(span.clone()).await;
        record_call_end(&span, &ended);
        ended
    }

    async fn resolve_call(
        &self,
        unknown: UnknownCall,
        answer: UnknownAnswer,
    ) -> Result<Executed, RunToolError> {
        let UnknownCall { call, begun, reason } = unknown;
        let key = begun.key;
        let outcome = match answer {
            UnknownAnswer::CallAgain => {
                let reservation = call.reserve().await?;
                let begun = call.begin_again(begun).await?;
                return self.make(*call, begun, reservation).await;
            }
            UnknownAnswer::Happened { value } => self.check_result(&call, key, value),
            UnknownAnswer::GiveUp => ToolOutcome::Failed(ToolFailure::new(
                ToolErrorKind::Execution,
                code::OUTCOME_UNKNOWN,
                format!(
                    "{reason}; it is unknown whether it took effect, and it is not called again"
                ),
            )),
        };
        let announced = call.announce(Charge::Free);
        self.settled(*call, key, announced, outcome).await
    }

    /// Handles a call that was cut off or whose process died, according to the tool's declaration.
    pub(super) async fn unknown(
        &self,
        call: RunCall,
        begun: Begun,
    ) -> Result<Executed, RunToolError> {
        let key = begun.key;
        let looked = match call.entry.spec.on_unknown {
            UnknownOutcome::Idempotent => Looked::NotFound,
            UnknownOutcome::Reconcile => self.look_up(&call, key).await,
            UnknownOutcome::Ask => Looked::CannotTell,
        };
        match looked {
            Looked::Found(value) => {
                let outcome = self.check_result(&call, key, value);
                let announced = call.announce(Charge::Free);
                self.settled(call, key, announced, outcome).await
            }
            Looked::NotFound => {
                let reservation = call.reserve().await?;
                // With a limited number of attempts, those of all processes count.
                let begun = match call.retry() {
                    Some(_) => call.begin_again(begun).await?,
                    None => begun,
                };
                self.make(call, begun, reservation).await
            }
            Looked::CannotTell => {
                let reason = format!(
                    "tool `{}` was called and left no result: it was cut off, or its process ended",
                    call.name()
                );
                Ok(Executed::OutcomeUnknown(UnknownCall { call: Box::new(call), begun, reason }))
            }
        }
    }

    /// Runs the tool's lookup. A lookup that fails counts as inconclusive.
    pub(super) async fn look_up(&self, call: &RunCall, key: CallKey) -> Looked {
        let limit = time_left(call.tool.as_ref(), &call.head.context);
        let context = self.tool_context(call, key, limit);
        let Some(reconcile) = call.tool.reconcile() else { return Looked::CannotTell };
        let args = call.head.args.clone();
        let found = attempt(&call.head, limit, move || reconcile.lookup(args, context)).await;
        match found {
            Ok(Ok(Some(value))) => Looked::Found(value),
            Ok(Ok(None)) => Looked::NotFound,
            Ok(Err(error)) => {
                tracing::warn!(
                    tool = call.name(),
                    tool_call_id = %call.head.tool_call_id,
                    error = cut(&call.head.shape(error.message()), 200),
                    "the lookup of a tool failed; a person is asked"
                );
                Looked::CannotTell
            }
            Err(_) => Looked::CannotTell,
        }
    }
}
