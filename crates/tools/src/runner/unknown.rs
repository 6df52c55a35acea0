//! Calls of which nobody knows whether they took effect.

use super::ToolRunner;
use super::attempt::{attempt, time_left};
use super::execute::{Executed, RunCall};
use crate::error::{RunToolError, code, cut};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weftwork_types::ToolCallId;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::{CallKey, IdempotencyKey};
pub use weftwork_types::tool::UnknownAnswer;
use weftwork_types::tool::{Effect, ToolErrorKind, ToolFailure, ToolOutcome, UnknownOutcome};

/// A call that was begun and left no result, whose tool declares that a person decides.
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
    /// How often.
    pub(super) made: u32,
}

/// What a person is asked about a call of unknown outcome: the value of
/// [`Ask::Value`](weftwork_types::interrupt::Ask::Value).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "tool_outcome_unknown")]
pub struct UnknownQuestion {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's canonical name.
    pub tool: String,
    /// The arguments it was called with.
    pub args: Value,
    /// What the tool changes.
    pub effect: Effect,
    /// The key the call was made with: what to look for on the other side.
    pub idempotency_key: String,
    /// Why nobody knows.
    pub reason: String,
}

/// What a tool's look-up said.
#[derive(Debug)]
pub(super) enum Looked {
    Found(Value),
    NotFound,
    CannotTell,
}

impl UnknownCall {
    /// The question, as a record.
    #[must_use]
    pub fn question(&self) -> UnknownQuestion {
        UnknownQuestion {
            tool_call_id: self.call.head.tool_call_id.clone(),
            tool: self.call.name().to_owned(),
            args: self.call.head.args.clone(),
            effect: self.call.entry.spec.effect,
            idempotency_key: IdempotencyKey::of(&self.call.head.context.thread, self.begun.key)
                .to_string(),
            reason: self.reason.clone(),
        }
    }

    /// How often it was begun. A person is asked once for each time: an answer speaks of what came
    /// before it, and not of what was begun because of it.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.begun.made
    }

    /// The question to interrupt with.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::Value { value: json!(self.question()) }
    }

    /// JSON Schema of an answer: an [`UnknownAnswer`].
    #[must_use]
    pub fn answer_schema(&self) -> Value {
        let value = self.call.entry.spec.output.clone().unwrap_or(json!(true));
        UnknownAnswer::schema(value)
    }
}

impl ToolRunner {
    /// Takes a call of unknown outcome to its outcome by what a person says.
    ///
    /// # Errors
    /// As [`ToolRunner::execute`].
    ///
    /// # Cancel safety
    /// As [`ToolRunner::execute`].
    pub async fn resolve(
        &self,
        unknown: UnknownCall,
        answer: UnknownAnswer,
    ) -> Result<Executed, RunToolError> {
        let UnknownCall { call, begun, reason } = unknown;
        let Begun { key, made } = begun;
        let outcome = match answer {
            UnknownAnswer::CallAgain => {
                call.head.context.budget.admit_tool_call()?;
                call.head.context.journal.begin_again(key).await?;
                let made = made.saturating_add(1);
                return self.make(*call, Begun { key, made }).await;
            }
            UnknownAnswer::Happened { value } => self.check_result(&call.entry, value),
            UnknownAnswer::GiveUp => ToolOutcome::Failed(ToolFailure::new(
                ToolErrorKind::Execution,
                code::OUTCOME_UNKNOWN,
                format!(
                    "{reason}; nobody knows whether it took effect, and it is not called again"
                ),
            )),
        };
        let announced = call.announce();
        self.settled(*call, key, announced, outcome).await
    }

    /// A process died inside the call: goes by what the tool declares.
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
                let outcome = self.check_result(&call.entry, value);
                let announced = call.announce();
                self.settled(call, key, announced, outcome).await
            }
            Looked::NotFound => {
                call.head.context.budget.admit_tool_call()?;
                self.make(call, begun).await
            }
            Looked::CannotTell => {
                let reason = format!(
                    "tool `{}` was called and left no result: the process ended inside the call",
                    call.name()
                );
                Ok(Executed::OutcomeUnknown(UnknownCall { call: Box::new(call), begun, reason }))
            }
        }
    }

    /// Asks the tool's look-up. Whatever goes wrong there, the answer is that it cannot tell.
    pub(super) async fn look_up(&self, call: &RunCall, key: CallKey) -> Looked {
        let limit = time_left(call.tool.as_ref(), &call.head.context);
        let context = self.tool_context(&call.head, key, limit);
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
                    error = cut(error.message(), 200),
                    "a tool's look-up failed; a person is asked"
                );
                Looked::CannotTell
            }
            Err(_) => Looked::CannotTell,
        }
    }
}
