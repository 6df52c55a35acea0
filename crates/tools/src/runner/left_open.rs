//! Calls that are left open: the conversation goes on without them. Their outcomes are read from the
//! record; nothing is made, recorded or emitted.

use super::ToolRunner;
use super::ask::{AskingCall, Rounds};
use super::execute::{RunCall, not_runnable};
use super::prepare::{Plan, ReadyCall};
use super::unknown::Looked;
use crate::error::{RunToolError, code};
use crate::toolbox::Kind;
use std::sync::Arc;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{CallContext, CallKey, Opened};
use weftwork_types::tool::{
    Effect, Reply, ToolErrorKind, ToolFailure, ToolOutcome, ToolRecord, UnknownOutcome,
};

/// A call that is left open, as far as it is on record.
#[derive(Debug)]
#[must_use]
pub enum LeftOpen {
    /// The outcome with which the call is closed.
    Closed(ToolOutcome),
    /// The tool asked a person. With replies on record, call [`ToolRunner::left_open_after`];
    /// otherwise close the call with [`AskingCall::left_open`].
    Asked(AskingCall),
}

/// The record of a call.
enum Record {
    Known(LeftOpen),
    /// There is none, so the call closes with this outcome.
    Nothing(ToolOutcome),
}

impl Record {
    fn known(self) -> Option<LeftOpen> {
        match self {
            Self::Known(left) => Some(left),
            Self::Nothing(_) => None,
        }
    }

    fn closed(self) -> LeftOpen {
        match self {
            Self::Known(left) => left,
            Self::Nothing(outcome) => LeftOpen::Closed(outcome),
        }
    }
}

/// Progress of a round of a call that has no outcome on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    NotBegun,
    Begun,
}

impl ToolRunner {
    /// Returns what is on record of a call as the model made it, whatever the policy says now;
    /// `None` if nothing is. A person may have approved it with other arguments: then
    /// [`left_open`](Self::left_open) finds it.
    ///
    /// # Errors
    /// [`RunToolError`] if the record cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is recorded, so the call can be repeated.
    pub async fn recorded(
        &self,
        call: &ToolCall,
        context: &CallContext,
    ) -> Result<Option<LeftOpen>, RunToolError> {
        let Some(entry) = self.catalogue.get(&call.name) else { return Ok(None) };
        let Kind::Run(tool) = &entry.kind else { return Ok(None) };
        let head = self.head(call, context);
        let tool = Arc::clone(tool);
        let rounds = Rounds::default();
        let call = RunCall { head, entry: Arc::clone(entry), tool, slot: None, rounds };
        self.on_record(call).await.map(Record::known)
    }

    /// Returns the outcome with which a call is closed that is left open.
    ///
    /// A recorded outcome counts, and so does that of a tool's [`lookup`](crate::Reconcile). A call
    /// that was begun and has no outcome closes as unknown (`W0413`) if it may have had an effect. A
    /// call that was never begun, or that only reads, closes as not made (`W0418`).
    ///
    /// # Errors
    /// As [`recorded`](Self::recorded).
    ///
    /// # Cancel safety
    /// As [`recorded`](Self::recorded).
    pub async fn left_open(&self, call: ReadyCall) -> Result<LeftOpen, RunToolError> {
        let ReadyCall { head, plan } = call;
        let entry = match plan {
            Plan::Refuse(failure) => return Ok(LeftOpen::Closed(ToolOutcome::Failed(failure))),
            Plan::Answer(value) => return Ok(LeftOpen::Closed(ToolOutcome::ok(value))),
            Plan::Run(entry) => entry,
        };
        let tool = match &entry.kind {
            Kind::Run(tool) => Arc::clone(tool),
            Kind::AskHuman => return Ok(LeftOpen::Closed(not_runnable())),
        };
        let call = RunCall { head, entry, tool, slot: None, rounds: Rounds::default() };
        self.on_record(call).await.map(Record::closed)
    }

    /// Continues with a call whose tool asked, given the replies on record.
    ///
    /// # Errors
    /// As [`recorded`](Self::recorded).
    ///
    /// # Cancel safety
    /// As [`recorded`](Self::recorded).
    pub async fn left_open_after(
        &self,
        asking: AskingCall,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Result<LeftOpen, RunToolError> {
        self.on_record(asking.replied(replies)).await.map(Record::closed)
    }

    async fn on_record(&self, call: RunCall) -> Result<Record, RunToolError> {
        let (key, progress) = match call.head.context.journal.look(call.intent()).await? {
            Opened::New { key } => (key, Progress::NotBegun),
            Opened::Unknown { key, .. } => (key, Progress::Begun),
            Opened::Settled { key, result } => match call.read(result)? {
                ToolRecord::Ended(outcome) => {
                    return Ok(Record::Known(LeftOpen::Closed(call.shown_now(outcome))));
                }
                // The tool waits for a graph that it runs.
                ToolRecord::Asked(asked) if asked.questions.is_empty() => (key, Progress::Begun),
                ToolRecord::Asked(asked) => {
                    return Ok(Record::Known(LeftOpen::Asked(call.asked(key, asked))));
                }
            },
        };
        Ok(self.without_outcome(&call, key, progress).await)
    }

    /// Closes a call that has no outcome on record.
    async fn without_outcome(&self, call: &RunCall, key: CallKey, progress: Progress) -> Record {
        let spec = &call.entry.spec;
        let name = call.name();
        let has_effect = spec.effect != Effect::ReadOnly;
        let looked = match (progress, spec.on_unknown) {
            (Progress::NotBegun, _) if has_effect => Looked::NotFound,
            // A call that only reads is recorded when it ends, so it may have begun.
            (_, UnknownOutcome::Reconcile) => self.look_up(call, key).await,
            (Progress::Begun, _) if has_effect => Looked::CannotTell,
            _ => Looked::NotFound,
        };
        let known = |outcome| Record::Known(LeftOpen::Closed(outcome));
        match looked {
            Looked::Found(value) => known(self.check_result(call, key, value)),
            Looked::CannotTell => known(outcome_unknown(name)),
            Looked::NotFound if call.rounds.have_acted() => known(outcome_unknown(name)),
            Looked::NotFound if has_effect => Record::Nothing(not_made(name)),
            Looked::NotFound => Record::Nothing(no_result(name)),
        }
    }
}

impl AskingCall {
    /// Closes a call whose tool asked and got no replies.
    pub fn left_open(self) -> ToolOutcome {
        match self.has_acted() {
            true => outcome_unknown(self.name()),
            false => not_made(self.name()),
        }
    }
}

/// Outcome of a call that is left open before a person decided about it.
#[must_use]
pub fn not_decided(call: &ToolCall) -> ToolOutcome {
    not_made(&call.name)
}

fn not_made(tool: &str) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure::new(
        ToolErrorKind::Unavailable,
        code::NOT_MADE,
        format!("`{tool}` was not called: the conversation went on before the call was made"),
    ))
}

/// A call that only reads may have begun without a record.
fn no_result(tool: &str) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure::new(
        ToolErrorKind::Unavailable,
        code::NOT_MADE,
        format!("`{tool}` has no result: the conversation went on before the call ended"),
    ))
}

fn outcome_unknown(tool: &str) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure::outcome_unknown(tool))
}
