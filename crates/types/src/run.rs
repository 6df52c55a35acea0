//! How a run is asked for, and how it ends.

use crate::caller::Caller;
use crate::code::Fault;
use crate::{CheckpointId, InterruptId, Principal, RunId, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A request to run a graph on a thread.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// On whose behalf.
    pub principal: Principal,
    /// Who pays.
    pub caller: Caller,
    /// The graph's id, `provider:name`.
    pub graph: String,
    /// The thread; made when it does not exist.
    pub thread: ThreadId,
    /// What to do on it.
    pub input: RunInput,
    /// How.
    pub options: RunOptions,
}

/// What a run starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunInput {
    /// New input: an object of channel writes.
    Start {
        /// Writes by channel name.
        input: Value,
    },
    /// Answers to open questions, by interrupt id.
    Resume {
        /// The answers.
        answers: BTreeMap<InterruptId, Value>,
    },
    /// Nothing new: go on where the thread stands, after a crash or a failure; or, at an older
    /// checkpoint, run what was due there again on a branch of its own.
    Continue,
    /// A change from outside: the writes are applied as if a node had made them, what follows that
    /// node is due, and nothing runs.
    Update {
        /// Writes by channel name.
        writes: Value,
        /// The node; `None` takes the one that ran last, when there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_node: Option<String>,
    },
}

/// Options of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// The most supersteps this run may take; `None` takes the graph's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_limit: Option<u32>,
    /// The checkpoint to start from; `None` takes the thread's newest. From an older one the run
    /// goes on a branch of its own, which becomes the thread's newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<CheckpointId>,
    /// A key under which a repeated request returns the first one's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// From where calls are used again that are not on record on the run's own branch.
    #[serde(default, skip_serializing_if = "ReuseFrom::is_own")]
    pub reuse_from: ReuseFrom,
    /// When its checkpoints are stored.
    #[serde(default, skip_serializing_if = "Durability::is_sync")]
    pub durability: Durability,
    /// What happens when the thread has a run that has not ended.
    #[serde(default, skip_serializing_if = "Multitask::is_reject")]
    pub multitask: Multitask,
    /// The model the graph was opened with, as it was asked for (`provider:model`), so that whoever
    /// goes on with the thread can open the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// When the checkpoints of a run are stored.
///
/// Whatever it says: the run itself, its questions, the intents of calls that change something, and
/// what calls came to are stored as they come, and the run has ended only when all is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each before the next superstep begins.
    #[default]
    Sync,
    /// Each in order, while the tasks of the next superstep run, which may be one ahead of what is
    /// stored and no more. What stands on a checkpoint (results of tasks, intents, questions,
    /// checkpoints of graphs within) is stored or told after it.
    Async,
    /// When the run ends, stops, fails, is cancelled or is put back; in a run of a process without
    /// a worker the last one only, and none when it is dropped. Until then the thread stands where
    /// it stood: a run whose process dies is repeated from there, with its recorded calls.
    Exit,
}

impl Durability {
    fn is_sync(&self) -> bool {
        *self == Self::Sync
    }
}

/// What happens with a run for a thread that has one which has not ended. On a thread at rest all
/// are the same.
///
/// Answers to questions do not wait: a thread that asks has ended its run, so that a run with
/// answers is refused whatever this says.
///
/// Source: the strategies of the same names of LangGraph's server. There `rollback` deletes the
/// earlier runs; here they stay on record as cancelled, for what they used was paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Multitask {
    /// The new run is refused.
    #[default]
    Reject,
    /// It waits for the ends of those before it, however they end, and goes on from there.
    Enqueue,
    /// Those before it are cancelled, and it goes on from where they stood.
    Interrupt,
    /// Those before it are cancelled, and it begins where the thread stood before the first of
    /// them: at that checkpoint, on a branch of its own; on an empty thread when there was none.
    Rollback,
}

impl Multitask {
    /// All, with the words for them in JSON and on the command line.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Reject, "reject"),
        (Self::Enqueue, "enqueue"),
        (Self::Interrupt, "interrupt"),
        (Self::Rollback, "rollback"),
    ];

    fn is_reject(&self) -> bool {
        *self == Self::Reject
    }

    /// Whether runs before it are asked to stop.
    #[must_use]
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}

/// From where a run uses calls again, rather than making them.
///
/// A call is the same where node, path, superstep, name and input are. One that is used again is
/// on record as reused, and its bill stays the first one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReuseFrom {
    /// From its own branch only: a branch that goes off the thread makes its calls itself.
    #[default]
    Own,
    /// From the branch that its own went off as well, and so on to the first: for a replay that
    /// shall not pay again for what is as before. Effects that were made are not made again either.
    Origin,
}

impl ReuseFrom {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; waits until the runs of its thread before it have ended.
    Queued,
    /// Accepted, not yet begun.
    Pending,
    /// A worker has it.
    Running,
    /// It ended well.
    Completed,
    /// It ended at open questions.
    Interrupted,
    /// It ended at its step limit.
    LimitReached,
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed,
}

impl RunStatus {
    /// Whether nothing more will happen in this run.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Pending | Self::Running)
    }
}

/// How a run ended. Interrupts and limits are outcomes, not errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunFinal {
    /// Nothing is left to do.
    Completed {
        /// The state at the end, as an object of channel values.
        output: Value,
    },
    /// Questions are open; an answer is a new run on the thread.
    Interrupted {
        /// The questions.
        interrupts: Vec<InterruptId>,
    },
    /// The step limit was reached with work left to do.
    LimitReached {
        /// The limit.
        step_limit: u32,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// It failed; what was finished is kept.
    Failed {
        /// Why.
        fault: Fault,
    },
}

impl RunFinal {
    /// The status that stays on record.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Interrupted { .. } => RunStatus::Interrupted,
            Self::LimitReached { .. } => RunStatus::LimitReached,
            Self::Cancelled => RunStatus::Cancelled,
            Self::Failed { .. } => RunStatus::Failed,
        }
    }
}

/// A run and its thread, as named to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
}
