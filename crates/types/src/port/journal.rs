use crate::canonical::{Hash, hash_bytes};
use crate::code::Fault;
use crate::tool::Effect;
use crate::{BoxFuture, ThreadId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The record of calls that cost money or change the world, so that none is made twice.
///
/// Calls are found by key, never by position: code that changed between a crash and the resume at
/// worst makes a call that is new, and never breaks a thread. An implementation is bound to one
/// task of one run, and fills in that part of the key itself.
pub trait Journal: Send + Sync + std::fmt::Debug {
    /// Announces a call and learns whether it was made before.
    ///
    /// For effects other than [`Effect::ReadOnly`] the intent is on disk when this returns. A call
    /// that only reads comes on record when it is settled, or cut off.
    ///
    /// # Errors
    /// [`JournalError`] when the store refused; the call must not be made then.
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>>;

    /// Announces that a call of unknown outcome is made once more, because a person said so. That
    /// is on disk when this returns: whoever finds the call without a result then asks anew.
    ///
    /// # Errors
    /// [`JournalError`] when the store refused; the call must not be made then.
    fn begin_again(&self, key: CallKey) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Records how a call ended. For effects other than [`Effect::ReadOnly`] that is on disk when
    /// this returns; otherwise with the next commit of the run, at the latest that of the
    /// superstep.
    ///
    /// # Errors
    /// [`JournalError`] when the store refused.
    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>>;
}

/// What kind of call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A call of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// Anything else a node wants done once.
    Once,
}

/// Whether a retry by policy (not a resume) makes the call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    /// Each attempt of the node makes the call anew: models and reads.
    Each,
    /// All attempts of the node share one call: effects.
    Shared,
}

/// A call about to be made.
#[derive(Debug, Clone)]
pub struct Intent {
    /// What kind of call.
    pub kind: CallKind,
    /// The model or tool.
    pub name: String,
    /// Hash of the canonical input, without ids and metadata.
    pub input: Hash,
    /// The call's own id where it has one; otherwise calls with the same input are told apart by
    /// counting them within the task.
    pub call_id: Option<String>,
    /// What the call changes.
    pub effect: Effect,
    /// Whether each attempt of the node makes it anew.
    pub attempts: Attempts,
}

/// The key of one call. Equal keys mean the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallKey(pub Hash);

/// What is sent along with a call, so that the other side knows it again: the same whenever the
/// call is made again, and that of no other call, on this thread or any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub Hash);

impl IdempotencyKey {
    /// That of a call of a thread. The thread takes part for the sake of its copies, whose calls
    /// stand at the same places.
    #[must_use]
    pub fn of(thread: &ThreadId, key: CallKey) -> Self {
        Self(hash_bytes(&[thread.as_str().as_bytes(), &key.0.0].concat()))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the journal knows of an announced call.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// It is new: make it, then settle it.
    New {
        /// Its key, of which the [`IdempotencyKey`] to send along is made.
        key: CallKey,
    },
    /// It was made and this came of it: do not make it again.
    Settled {
        /// Its key.
        key: CallKey,
        /// What came of it.
        result: CallResult,
    },
    /// It was announced, and the process died before it ended. Nobody knows what came of it.
    Unknown {
        /// Its key, of which the [`IdempotencyKey`] that was sent along is made.
        key: CallKey,
        /// How often it was begun.
        made: u32,
    },
}

/// How a call ended. Errors of transport are not results: such a call may be made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The value, in the form the caller reads back.
    pub value: Value,
}

/// Where a recorded call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Announced or begun; no result yet.
    Intent,
    /// Ended.
    Settled,
}

/// A call as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The key.
    pub key: CallKey,
    /// What kind of call.
    pub kind: CallKind,
    /// The model or tool.
    pub name: String,
    /// The node that made it.
    pub node: String,
    /// The superstep in which it was made.
    pub step: i64,
    /// What it changes.
    pub effect: Effect,
    /// Where it stands.
    pub state: CallState,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// How often it was begun, as far as is known; of a call that changes something, not how often
    /// it was begun again with the same key because the other side knows that.
    pub made: u32,
    /// How often it may have been made besides and paid, without leaving a result. For a call that
    /// changes something: how often it was found without one. For one that reads an upper bound:
    /// each process that died in its superstep may have been within it.
    #[serde(default)]
    pub possibly_paid: u32,
    /// How often its result was used again.
    pub reused: u32,
    /// When it was announced or begun.
    pub opened_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

/// The journal could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call of `{name}` cannot be recorded: {source}")]
pub struct JournalError {
    /// The model or tool.
    pub name: String,
    /// Why.
    pub source: Fault,
}
