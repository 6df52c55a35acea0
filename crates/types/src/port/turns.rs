//! Conversations with agents that are defined in files, for servers of other protocols.

use super::{RunHandle, TaskCaller, TurnChain};
use crate::code::Fault;
use crate::message::Message;
use crate::run::{AnswerTo, RunRef, RunStatus};
use crate::task::{Mode, TaskRequest, TaskResponse};
use crate::{BoxFuture, Principal, RunId, Timestamp};
use serde_json::{Map, Value};

/// Turns of conversations with agents: each is a run, whose log is all that protocols show of it.
///
/// A conversation belongs to the subject of a principal. What another one has is missing.
pub trait AgentTurns: Send + Sync + std::fmt::Debug {
    /// Begins the run of a turn. A turn with an idempotency key that was taken before has the run of the
    /// first one.
    ///
    /// # Errors
    /// The code W1012 for an unknown agent, W1030 for a mode that it does not have, W1033 for input that
    /// does not fit, W1038 if the conversation waits for an answer, W0202 if a run of it has not ended,
    /// W0201 if the run before it is missing, and errors of the store. Nothing was begun.
    fn begin(&self, by: TaskCaller, turn: Turn) -> BoxFuture<'_, Result<RunHandle, Fault>>;

    /// Returns the run that an earlier request with the idempotency key of the caller began in the
    /// conversation: a repetition of it begins none. Without a conversation, the one is meant that such a
    /// request opens. `None` also if that cannot be read: [`begin`](Self::begin) says why.
    fn earlier<'a>(
        &'a self,
        by: &'a TaskCaller,
        agent: &'a str,
        conversation: Option<&'a str>,
    ) -> BoxFuture<'a, Option<TurnRun>>;

    /// Returns a run of a conversation of the principal.
    ///
    /// # Errors
    /// The code W0201 if there is none, and errors of the store.
    fn turn<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<TurnRun, Fault>>;

    /// Returns the messages with which a run began; none for one that began with answers.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    fn said<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<Message>, Fault>>;

    /// Follows a run from its first event: one that goes on, in any process, or one that has ended.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    fn follow<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<RunHandle, Fault>>;

    /// Requests that a run stop. One that has ended stays as it is.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    fn cancel<'a>(&'a self, who: &'a Principal, run: &'a RunId)
    -> BoxFuture<'a, Result<(), Fault>>;

    /// Hides a run that has ended from its clients. Its log stays with the conversation, because later
    /// runs continue from it.
    ///
    /// # Errors
    /// As [`turn`](Self::turn); W0202 if the run has not ended.
    fn hide<'a>(&'a self, who: &'a Principal, run: &'a RunId) -> BoxFuture<'a, Result<(), Fault>>;

    /// Begins the run of a request with details, or answers one that needs no run. A request with an
    /// idempotency key that was taken before has the run of the first one.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), and those of the details of the request.
    fn begin_request(
        &self,
        by: TaskCaller,
        request: TaskRequest,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Begun, Fault>>;

    /// Returns all runs of a conversation in the order of their execution, those included that were
    /// rolled back; none if it does not exist.
    ///
    /// # Errors
    /// Those of the store.
    fn turns<'a>(
        &'a self,
        who: &'a Principal,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Vec<TurnRun>, Fault>>;

    /// Returns a run with those that continue it, in order, also if they were rolled back.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    fn chain<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<TurnChain, Fault>>;

    /// Rolls back a run that has ended and all later ones of the conversation, with their open
    /// questions. The conversation continues from its state before the run.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    fn roll_back<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<(), Fault>>;
}

/// The effect of a request with details.
#[derive(Debug)]
pub enum Begun {
    /// A run.
    Run(RunHandle),
    /// The answer to a request that needs no run.
    Answer(TaskResponse),
}

/// A turn of a client in a conversation with an agent.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Slug of the agent.
    pub agent: String,
    /// Mode; by default the first one that the agent has.
    pub mode: Option<Mode>,
    /// Id of the conversation, which the first turn opens; `None` for a new one.
    pub conversation: Option<String>,
    /// Messages or answers of the client.
    pub says: Says,
    /// Run from whose end the conversation goes on, also if others follow it; `None` for the newest.
    pub after: Option<RunId>,
    /// Data of the protocol about the run.
    pub metadata: Map<String, Value>,
}

/// Content of a turn.
#[derive(Debug, Clone)]
pub enum Says {
    /// Messages that are new in the conversation, the last one of the user.
    Messages {
        /// The messages, in order.
        messages: Vec<Message>,
        /// Input of the agent, as its `input_schema` describes it.
        input: Option<Value>,
    },
    /// Answers to open questions.
    Answers(Vec<AnswerTo>),
}

/// The run of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRun {
    /// The run.
    pub at: RunRef,
    /// Slug of the agent.
    pub agent: String,
    /// Id of the conversation.
    pub conversation: String,
    /// Status.
    pub status: RunStatus,
    /// Time at which the turn began.
    pub created_at: Timestamp,
    /// Time at which the run ended.
    pub ended_at: Option<Timestamp>,
    /// Run that asked the questions which this run answers.
    pub answers: Option<RunId>,
    /// Time at which the run was rolled back.
    pub rolled_back_at: Option<Timestamp>,
    /// Data of the protocol that began it; of no use to another protocol.
    pub metadata: Map<String, Value>,
}
