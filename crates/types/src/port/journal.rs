use super::past::{Admission, Admitted, NewArtifact};
use super::remote::RemoteUse;
use crate::canonical::{Hash, hash_bytes};
use crate::code::Fault;
use crate::shown::show;
use crate::tool::{Effect, ToolRecord};
use crate::{BoxFuture, ThreadId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// The record of calls that cost money or have effects, so that no call is made twice.
///
/// Calls are found by key, never by position. If code changed between a crash and the resume, the
/// worst case is a call that is made again; the thread stays usable. An implementation is bound to
/// one task of one run, and adds that task to the key.
pub trait Journal: Send + Sync + std::fmt::Debug {
    /// Announces a call and returns its record if it was made before.
    ///
    /// For effects other than [`Effect::ReadOnly`] the intent is durable when the future completes.
    /// A read-only call is recorded when it is settled or cut off, unless it is
    /// [withdrawn](Self::withdraw).
    ///
    /// # Errors
    /// Returns [`JournalError`] if the store refused the record; the call must not be made.
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>>;

    /// Returns what [`open`](Self::open) would return, without announcing the call: nothing is
    /// recorded. [`Opened::New`] says that the call has no record.
    ///
    /// # Errors
    /// Returns [`JournalError`] if the record cannot be read.
    fn look(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>>;

    /// Announces that a call without a result is repeated: a person decided about an unknown
    /// outcome, or the policy repeats a call that failed. The record, also of a read-only call, is
    /// durable when the future completes: after another crash the call has no result, and a person
    /// is asked again or the remaining attempts are made.
    ///
    /// # Errors
    /// Returns [`JournalError`] if the store refused the record; the call must not be made.
    fn begin_again(&self, key: CallKey) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Withdraws the announcement of a read-only call that ended before it was made, such as a call
    /// that a budget refused. A call with a result keeps it.
    fn withdraw(&self, key: CallKey);

    /// Records the result of a call. For effects other than [`Effect::ReadOnly`] it is durable when
    /// the future completes; otherwise with the next commit of the run, at the latest with that of
    /// the superstep.
    ///
    /// # Errors
    /// Returns [`JournalError`] if the store refused the record.
    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Records that the run begins a call, if the earlier calls of the run allow it. A call that
    /// the run has begun before is always admitted. The default implementation has no records.
    ///
    /// # Errors
    /// Returns [`JournalError`] if the records cannot be read; the call must not be made.
    fn admit<'a>(&'a self, _call: Admission<'a>) -> BoxFuture<'a, Result<Admitted, JournalError>> {
        Box::pin(std::future::ready(Ok(Admitted::NoRecords)))
    }

    /// Records that an admitted call succeeded, in the commit that includes its result.
    fn succeeded(&self, _key: CallKey) {}

    /// Stores a value by reference, in the commit that includes the result of its call, and returns
    /// the reference. `None` if the run has no place for it, as in the default implementation.
    fn store_artifact(&self, _artifact: NewArtifact) -> Option<String> {
        None
    }

    /// Returns the id of the thread on another server for a use by the thread of the run. The first
    /// call draws it at random and records it with the thread, in the same commit as the next intent
    /// or before. `None` if the run has no place for the record, as in the default implementation.
    ///
    /// # Errors
    /// Returns [`JournalError`] if the record cannot be read; the thread must not be used.
    fn remote_thread(&self, _of: RemoteUse) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A call of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// Any other operation that a node performs once.
    Once,
}

/// The scope of a call across retries by policy. A resume is not such a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    /// Each attempt of the node makes the call again. Used for models and reads.
    Each,
    /// All attempts of the node share one call. Used for effects.
    Shared,
}

/// A call about to be made.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Kind of the call.
    pub kind: CallKind,
    /// Name of the model or tool.
    pub name: String,
    /// Hash of the canonical input, without ids and metadata.
    pub input: Hash,
    /// Id of the call, if it has one. Calls without an id and with equal input are distinguished by
    /// a counter within the task.
    pub call_id: Option<String>,
    /// Effect of the call.
    pub effect: Effect,
    /// Scope of the call across attempts of the node.
    pub attempts: Attempts,
}

/// The key of a call. Equal keys identify the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallKey(pub Hash);

/// A key that is sent along with a call, so that the receiver recognises repetitions. It is the
/// same each time the call is repeated, and different for every other call of this or any other
/// thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub Hash);

impl IdempotencyKey {
    /// Returns the key of a call on a thread. The thread is included because copies of a thread
    /// have equal call keys.
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

/// The journal's record of an announced call.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// The call is new: make it, then settle it.
    New {
        /// Call key, from which the [`IdempotencyKey`] is derived.
        key: CallKey,
    },
    /// The call has a recorded result: do not make it again.
    Settled {
        /// Call key.
        key: CallKey,
        /// Recorded result.
        result: CallResult,
    },
    /// The call was announced, and it was cut off or its process died before it ended. Its outcome
    /// is unknown.
    Unknown {
        /// Call key, from which the [`IdempotencyKey`] that was sent along is derived.
        key: CallKey,
        /// Number of times the call was started.
        made: u32,
    },
}

/// The result of a call. Transport errors are not results; a call that failed with one may be
/// repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The value, in the format that the caller deserialises.
    pub value: Value,
}

/// The state of a recorded call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Announced or started, without a result.
    Intent,
    /// Ended, with a result.
    Settled,
}

/// A call as recorded in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Call key.
    pub key: CallKey,
    /// Kind of the call.
    pub kind: CallKind,
    /// Name of the model or tool.
    pub name: String,
    /// Node that made the call.
    pub node: String,
    /// Superstep in which the call was made.
    pub step: i64,
    /// Effect of the call.
    pub effect: Effect,
    /// State of the call.
    pub state: CallState,
    /// Result, if the call has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// Known number of times the call was started. For a call with an effect, repetitions under the
    /// same idempotency key are not counted, because the receiver recognises them.
    pub made: u32,
    /// Number of times the call may have been made and paid for without leaving a result. For a call
    /// with an effect: the number of times it was found without a result. For a read-only call: the
    /// number of times it was cut off or failed, and in addition an upper bound of starts that left
    /// no record, because every process that died in its superstep may have been making the call.
    #[serde(default)]
    pub possibly_paid: u32,
    /// Number of times the result was reused.
    pub reused: u32,
    /// Time at which the call was announced or started.
    pub opened_at: Timestamp,
    /// Time at which the call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

impl CallRecord {
    /// Returns the record with the shown form of its result. A result of a tool that an older
    /// program recorded has none and stays whole.
    #[must_use]
    pub fn into_shown(mut self) -> Self {
        if let Some(result) = &mut self.result {
            let record = || serde_json::from_value::<ToolRecord>(result.value.clone()).ok();
            match record().filter(|_| self.kind == CallKind::Tool) {
                Some(record) => result.value = json!(record.into_shown()),
                None => show(&mut result.value),
            }
        }
        self
    }
}

/// An error of the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call of `{name}` cannot be recorded: {source}")]
pub struct JournalError {
    /// Name of the model or tool.
    pub name: String,
    /// Cause.
    pub source: Fault,
}
