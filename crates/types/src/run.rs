//! Requests for runs, and their outcomes.

mod input;
mod mailbox;

pub use input::{AnswerTo, Answers, RunCommand, RunInput, Target};
pub use mailbox::{Mailbox, OnQuestion, RunRetry};

use crate::caller::Caller;
use crate::code::Fault;
use crate::interrupt::Interrupt;
use crate::port::Limits;
use crate::shown::StateForm;
use crate::telemetry::ParentSpan;
use crate::usage::Usage;
use crate::{CheckpointId, InterruptId, Principal, RunId, ThreadId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A request to run a graph on a thread.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Principal of the run.
    pub principal: Principal,
    /// Billing account and origin of the request.
    pub caller: Caller,
    /// Id of the graph, `provider:name`.
    pub graph: String,
    /// Thread of the run. It is created if it does not exist.
    pub thread: ThreadId,
    /// Input of the run.
    pub input: RunInput,
    /// Options of the run.
    pub options: RunOptions,
}

/// Options of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Maximum number of supersteps of this run; `None` selects the graph's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_limit: Option<u32>,
    /// Checkpoint to start from; `None` selects the newest of the thread. From an older one the run
    /// continues on a branch of its own, which becomes the thread's newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<CheckpointId>,
    /// Subgraph in which the run starts; `None` selects the outermost graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// Idempotency key, unique within the organisation. A repeated request with the same key returns
    /// the first run, with its times: those of the repetition are ignored. Keys that begin with
    /// `weft:` are those of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Source of reusable calls that are not recorded on the branch of the run.
    #[serde(default, skip_serializing_if = "ReuseFrom::is_own")]
    pub reuse_from: ReuseFrom,
    /// Time at which checkpoints are stored.
    #[serde(default, skip_serializing_if = "Durability::is_sync")]
    pub durability: Durability,
    /// Behaviour if the thread has an unfinished run.
    #[serde(default, skip_serializing_if = "Multitask::is_reject")]
    pub multitask: Multitask,
    /// Run of the thread that this run rolls back, with all later ones: they are cancelled if they
    /// have not ended, and this run starts from the state before them. Requires
    /// [`Multitask::Rollback`], which otherwise rolls back the unfinished runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roll_back: Option<RunId>,
    /// Model that the graph was opened with, as requested (`provider:model`), so that a later run
    /// on the thread can open the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Nodes before which the run stops; `None` selects those of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<Stops>,
    /// Nodes after which the run stops; `None` selects those of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<Stops>,
    /// Time at which the run is cut off, including its running nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Time before which the run does not begin; `None` for at once. Until then it is queued, and
    /// later runs with input of their own wait for it. It changes nothing before it begins: open
    /// questions stay open, and answers to them come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Maximum number of tasks of a superstep that run concurrently; `None` selects the limit of
    /// the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Model that answers the calls of this run instead of the one that the graph was opened with
    /// (`provider:model`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_model: Option<String>,
    /// Limits of the calls of this run, in addition to those of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Limits>,
    /// Usage of the runs that this run continues, which counts against [`budget`](Self::budget).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Usage>,
    /// Value that nodes read besides the state.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// Named settings that nodes read.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configurable: Map<String, Value>,
    /// Data of the caller about the run, which has no effect on it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Labels of the caller, which have no effect on the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Names of the stream modes that the caller asked for: those of a client that follows the run and
    /// names none. They have no effect on the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream_modes: Vec<String>,
    /// Allows the run on a thread on which another graph ran last, if the graph can read its state and
    /// no question is open there. Otherwise such a run is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_graph: bool,
    /// Place in the mailbox of an instance; `None` for a run that is no activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Mailbox>,
    /// Activity of an instance that this run continues, also in the thread in which it was set aside;
    /// `None` for a run that is the activity itself, and for one of no instance. The runtime sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<RunRef>,
    /// Span of the caller in which the run was requested, which has no effect on the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span: Option<ParentSpan>,
}

impl RunOptions {
    /// Returns the time at which the run may begin, if that is later than `now`.
    #[must_use]
    pub fn begins_later(&self, now: Timestamp) -> Option<Timestamp> {
        self.not_before.filter(|at| *at > now)
    }

    /// Options of a run that continues the thread of one with these options: without what held for
    /// that run alone, its checkpoint, its idempotency key, the run that it rolls back, its
    /// beginning, its deadline, its place in a mailbox, its activity and the usage of the runs before it.
    #[must_use]
    pub fn for_continuation(self) -> Self {
        Self {
            at: None,
            within: None,
            idempotency_key: None,
            roll_back: None,
            not_before: None,
            deadline: None,
            spent: None,
            mailbox: None,
            activity: None,
            ..self
        }
    }
}

/// A subgraph of a thread, at one of its checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// Namespace of the subgraph.
    pub namespace: String,
    /// Checkpoints of the graphs around it and its own, by namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checkpoints: BTreeMap<String, CheckpointId>,
}

/// Nodes before or after which a run stops.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stops {
    /// No node.
    #[default]
    None,
    /// Every node.
    All,
    /// The nodes of these names.
    Nodes(Vec<String>),
}

impl Stops {
    /// Stops at no node.
    #[must_use]
    pub fn none() -> Self {
        Self::None
    }

    /// Stops at the nodes of these names.
    pub fn at<T: Into<String>>(nodes: impl IntoIterator<Item = T>) -> Self {
        Self::Nodes(nodes.into_iter().map(Into::into).collect())
    }

    /// Returns `true` if the run stops at no node.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns `true` if the run stops at the node of this name.
    #[must_use]
    pub fn contains(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Nodes(nodes) => nodes.iter().any(|n| n == node),
        }
    }
}

/// The time at which the checkpoints of a run are stored.
///
/// In every mode, the run itself, its questions, the intents of calls with effects, and the results
/// of calls are stored as they occur. The run ends only after everything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each checkpoint is stored before the next superstep begins.
    #[default]
    Sync,
    /// Checkpoints are stored in order while the tasks of the next superstep run. Execution is at
    /// most one superstep ahead of the stored state. Records that depend on a checkpoint (results
    /// of tasks, intents, questions, checkpoints of subgraphs) are stored or emitted after it.
    Async,
    /// Checkpoints are stored when the run ends, stops, fails, is cancelled or is requeued: one for
    /// each superstep that the log of the run reports, and only the last one in a run without a log,
    /// which stores none if it is dropped. Until then the
    /// thread stays at its previous checkpoint: a run whose process dies is repeated from there,
    /// with its recorded calls.
    Exit,
}

impl Durability {
    fn is_sync(&self) -> bool {
        *self == Self::Sync
    }
}

/// The behaviour of a new run on a thread that has an unfinished run. On a thread without one, all
/// variants are equivalent.
///
/// Runs with answers do not wait, in any variant. They come before the runs that have not begun, which
/// have changed nothing yet, and cancel none of them; so do timers. While a run of the thread is
/// executed, a run with answers is refused.
///
/// Source: the strategies of the same names of LangGraph's server. There, `rollback` deletes the
/// earlier runs; here they are retained as cancelled, because their usage was paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Multitask {
    /// The new run is refused.
    #[default]
    Reject,
    /// The run waits until all earlier runs have ended, with any outcome, and continues from there.
    Enqueue,
    /// Earlier runs are cancelled, and the new run continues from where they stopped.
    Interrupt,
    /// Earlier runs are cancelled, and the new run starts from the state before the first of them:
    /// on a branch from that checkpoint, or on an empty thread if there was none.
    Rollback,
}

impl Multitask {
    /// All variants, with their names in JSON and on the command line.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Reject, "reject"),
        (Self::Enqueue, "enqueue"),
        (Self::Interrupt, "interrupt"),
        (Self::Rollback, "rollback"),
    ];

    fn is_reject(&self) -> bool {
        *self == Self::Reject
    }

    /// Returns `true` if earlier runs are requested to stop.
    #[must_use]
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}

/// The effect of a cancellation on the work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAction {
    /// The run stops. Its committed supersteps stay.
    #[default]
    Interrupt,
    /// The run stops, and the thread returns to its state before the run. Runs that were accepted
    /// after it are rolled back with it, because they continue from its state. Runs that have ended
    /// are rolled back too. Rolled back runs stay in the store and are marked.
    Rollback,
}

/// The branches from which a run reuses recorded calls.
///
/// Calls are the same if node, path, superstep, name and input are equal. A reused call is recorded
/// as reused and is not billed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReuseFrom {
    /// Only the run's own branch: a new branch makes all its calls itself.
    #[default]
    Own,
    /// The run's own branch, the branch it started from, and so on up to the first. For a replay
    /// that does not pay again for unchanged calls. Effects that already happened are not repeated
    /// either.
    Origin,
}

impl ReuseFrom {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// The status of a run.
///
/// ```
/// use weftwork_types::run::RunStatus;
///
/// assert!(RunStatus::Interrupted.is_final());
/// assert_eq!(RunStatus::LimitReached.name(), "limit_reached");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(description = "The status of a run."))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; waiting until all earlier runs of the thread have ended, or for its time. It has
    /// changed nothing.
    Queued,
    /// Accepted, not yet started.
    Pending,
    /// Claimed by a worker.
    Running,
    /// Ended successfully.
    Completed,
    /// Ended at open questions.
    Interrupted,
    /// Ended at its step limit.
    LimitReached,
    /// Cancelled.
    Cancelled,
    /// Failed.
    Failed,
}

impl RunStatus {
    /// Returns `true` if the run has ended.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Pending | Self::Running)
    }

    /// Returns the name, as records have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::LimitReached => "limit_reached",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// The outcome of a run. Interrupts and limits are outcomes, not errors.
///
/// ```
/// use serde_json::json;
/// use weftwork_types::run::{RunOutcome, RunStatus};
///
/// let outcome = RunOutcome::Completed { output: json!({"n": 1}) };
/// assert_eq!(outcome.status(), RunStatus::Completed);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// No tasks are left.
    Completed {
        /// Final state, as an object of channel values.
        output: Value,
    },
    /// Questions are open, or the run stopped before or after a node. An answer starts a new run on
    /// the thread.
    Interrupted {
        /// Ids of the questions; none for a stop.
        interrupts: Vec<InterruptId>,
        /// The questions. They are stored with their thread, not with the outcome: the outcome in
        /// the stored row of a run has their ids only.
        #[serde(skip)]
        questions: Vec<Interrupt>,
    },
    /// The step limit was reached while tasks were due.
    LimitReached {
        /// The limit.
        step_limit: u32,
    },
    /// The run was cancelled, or a node requested its end.
    Cancelled {
        /// Reason of the node that requested the end. It is not stored.
        #[serde(skip)]
        reason: Option<String>,
    },
    /// The run failed. Finished work is retained.
    Failed {
        /// Cause.
        fault: Fault,
    },
}

impl RunOutcome {
    /// The outcome of a run that ended at these questions, or at a stop if there are none.
    #[must_use]
    pub fn interrupted(questions: Vec<Interrupt>) -> Self {
        let interrupts = questions.iter().map(|question| question.id).collect();
        Self::Interrupted { interrupts, questions }
    }

    /// The outcome of a cancelled run.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::Cancelled { reason: None }
    }

    /// The outcome as it is stored: without the state, which is in the checkpoints, without the
    /// questions, which are stored with their thread, and without the reason of a node.
    #[must_use]
    pub fn stored(&self) -> Self {
        match self {
            Self::Completed { .. } => Self::Completed { output: Value::Null },
            Self::Interrupted { interrupts, .. } => {
                Self::Interrupted { interrupts: interrupts.clone(), questions: Vec::new() }
            }
            Self::Cancelled { .. } => Self::cancelled(),
            other => other.clone(),
        }
    }

    /// Returns the outcome with its output and its questions in this form.
    #[must_use]
    pub fn in_form(self, form: StateForm) -> Self {
        match self {
            Self::Completed { output } => Self::Completed { output: form.of(output) },
            Self::Interrupted { interrupts, questions } if form == StateForm::Shown => {
                let questions = questions.into_iter().map(Interrupt::into_shown).collect();
                Self::Interrupted { interrupts, questions }
            }
            other => other,
        }
    }

    /// Output of a run that completed: an object of channel values, or the result of a flow.
    #[must_use]
    pub fn output(self) -> Option<Value> {
        match self {
            Self::Completed { output } => Some(output),
            _ => None,
        }
    }

    /// Questions at which the run ended.
    #[must_use]
    pub fn questions(&self) -> &[Interrupt] {
        match self {
            Self::Interrupted { questions, .. } => questions,
            _ => &[],
        }
    }

    /// Returns the status that is recorded for this outcome.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Interrupted { .. } => RunStatus::Interrupted,
            Self::LimitReached { .. } => RunStatus::LimitReached,
            Self::Cancelled { .. } => RunStatus::Cancelled,
            Self::Failed { .. } => RunStatus::Failed,
        }
    }
}

/// A reference to a run: its thread and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
}
