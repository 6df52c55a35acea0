//! Rows of the tables.

use crate::sequence::SequenceWrite;
use crate::thread::Metadata;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_types::caller::{CallOrigin, Caller};
use weftwork_types::event::{AiEvent, Piece, Position};
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::port::CallRecord;
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunStatus};
use weftwork_types::usage::UsageFact;
use weftwork_types::{CheckpointId, RunId, ThreadId, Timestamp, WorkerId};

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The thread.
    pub id: ThreadId,
    /// Graph that last ran on the thread. Before the first run, the graph given when the thread was
    /// created, if there was one.
    pub graph: Option<String>,
    /// Status of the last run, if there was one.
    pub status: Option<RunStatus>,
    /// Newest checkpoint.
    pub head: Option<CheckpointId>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time at which the thread resumes by itself, because one of its questions takes its default
    /// then. Timers are such questions. An instance whose activity asks and is to be set aside has
    /// the time of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// Metadata that clients gave the thread.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// A run to be created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// Thread and run id.
    pub at: RunRef,
    /// Id of the graph.
    pub graph: String,
    /// Billing account and origin.
    pub caller: Caller,
    /// Input of the run.
    pub input: RunInput,
    /// Options of the run.
    pub options: RunOptions,
    /// Creation time.
    pub created_at: Timestamp,
}

impl NewRun {
    /// Returns `true` for an activity that takes its place among those of its mailbox. A run that
    /// continues an activity has no place: it begins at once, or is refused while another run is
    /// unfinished, unless it asks to wait.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.options.mailbox.is_some() && matches!(self.input, RunInput::Start { .. })
    }

    /// Returns `true` for a run that continues the thread at once, or is refused: one with answers, or
    /// one without input that may not wait, such as that of a timer. Runs that have not begun have
    /// changed nothing yet, so that it comes before them.
    #[must_use]
    pub fn continues(&self) -> bool {
        let waits = self.options.multitask != Multitask::Reject || self.begins_later();
        self.input.is_answer() || self.input == RunInput::Continue && !waits
    }

    /// Returns `true` if the run begins at a later time than that of its creation.
    #[must_use]
    pub fn begins_later(&self) -> bool {
        self.options.begins_later(self.created_at).is_some()
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Request that created the run.
    pub new: NewRun,
    /// Status of the run.
    pub status: RunStatus,
    /// Worker that holds the run, or held it last.
    pub worker: Option<WorkerId>,
    /// Number of claims, which is the fence of the newest claim.
    pub fence: u64,
    /// Outcome, once the run has ended.
    pub outcome: Option<RunOutcome>,
    /// Time at which the run ended.
    pub ended_at: Option<Timestamp>,
    /// `true` if cancellation was requested.
    pub cancel_requested: bool,
    /// Position of the thread before the run, known after the first claim. A run that rolls back
    /// earlier ones ([`Multitask::Rollback`](weftwork_types::run::Multitask)) has the base of the
    /// first of them, and starts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Newest checkpoint of the root graph at the end of the run. `None` for a run that has not
    /// ended, whose thread had no checkpoint then, or that ended in an older format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<CheckpointId>,
    /// Run that asked the questions which this run answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<RunId>,
    /// Run that rolls this one back. Its work is on a branch that the thread left, or is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_by: Option<RunId>,
}

/// The position of a thread before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The thread has no checkpoint.
    Nothing,
    /// The newest checkpoint of the root graph.
    At(CheckpointId),
}

impl Base {
    /// Returns the stored form: the 16 bytes of the id, or no bytes for a thread without
    /// checkpoints.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::At(id) => id.0.to_be_bytes().to_vec(),
        }
    }

    /// Parses the result of [`to_bytes`](Self::to_bytes). Returns `None` for bytes of another
    /// length.
    ///
    /// ```
    /// use weftwork_store::Base;
    /// use weftwork_types::CheckpointId;
    ///
    /// for base in [Base::Nothing, Base::At(CheckpointId(7))] {
    ///     assert_eq!(Base::from_bytes(&base.to_bytes()), Some(base));
    /// }
    /// assert_eq!(Base::from_bytes(&[7]), None);
    /// ```
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::Nothing);
        }
        let id = bytes.try_into().ok().map(u128::from_be_bytes)?;
        Some(Self::At(CheckpointId(id)))
    }
}

impl From<Option<CheckpointId>> for Base {
    fn from(newest: Option<CheckpointId>) -> Self {
        newest.map_or(Self::Nothing, Self::At)
    }
}

impl RunRow {
    /// Returns the activity of an instance that the run is or continues; `None` for other runs.
    #[must_use]
    pub fn activity(&self) -> Option<RunRef> {
        let options = &self.new.options;
        let own = || options.mailbox.is_some().then(|| self.new.at.clone());
        options.activity.clone().or_else(own)
    }

    /// Creates the row of an accepted run that no worker has claimed.
    #[must_use]
    pub fn accepted(new: NewRun, status: RunStatus) -> Self {
        Self {
            new,
            status,
            worker: None,
            fence: 0,
            outcome: None,
            ended_at: None,
            cancel_requested: false,
            base: None,
            last_checkpoint: None,
            answers: None,
            rolled_back_by: None,
        }
    }

    /// Returns `true` for an activity that waits in its mailbox.
    #[must_use]
    pub fn waits_as_activity(&self) -> bool {
        self.status == RunStatus::Queued && self.new.options.mailbox.is_some()
    }

    /// Returns `true` if the run waits for its time in a mailbox.
    #[must_use]
    pub fn waits_in_mailbox(&self, now: Timestamp) -> bool {
        self.new.options.mailbox.is_some() && self.waits_for_time(now)
    }

    /// Returns `true` if the run is queued and begins later. A run whose cancellation is requested
    /// does not wait.
    #[must_use]
    pub fn waits_for_time(&self, now: Timestamp) -> bool {
        let later = self.new.options.begins_later(now).is_some();
        later && self.status == RunStatus::Queued && !self.cancel_requested
    }

    /// Returns `true` if the run takes its thread back to an earlier state when it starts. A run
    /// that was cancelled before it started takes nothing back.
    #[must_use]
    pub fn takes_back(&self) -> bool {
        self.rolls_back() && self.base.is_some() && !self.cancel_requested
    }

    /// Returns `true` if the run removes everything from its thread when it starts. A run that was
    /// cancelled before it started removes nothing.
    #[must_use]
    pub fn clears(&self) -> bool {
        self.rolls_back() && self.base == Some(Base::Nothing) && !self.cancel_requested
    }

    /// Returns the checkpoint at which the run starts because it rolls back everything after it.
    #[must_use]
    pub fn back_to(&self) -> Option<CheckpointId> {
        match self.base {
            Some(Base::At(id)) if self.rolls_back() => Some(id),
            _ => None,
        }
    }

    /// Returns `true` if the run has new input for its thread, rather than continuing it.
    #[must_use]
    pub fn brings(&self) -> bool {
        matches!(self.new.input, RunInput::Start { .. } | RunInput::Update { .. })
    }

    /// Returns `true` if the run starts at a position other than the head of its thread.
    #[must_use]
    pub fn begins_elsewhere(&self, head: Option<CheckpointId>) -> bool {
        let at = self.new.options.at;
        at.is_some_and(|at| Some(at) != head)
            || self.rolls_back() && self.base.is_some_and(|base| base != head.into())
    }

    fn rolls_back(&self) -> bool {
        self.new.options.multitask == Multitask::Rollback
    }
}

/// A worker's right to write for a run. Only the newest claim is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Claimed run.
    pub at: RunRef,
    /// Worker that claimed it.
    pub worker: WorkerId,
    /// Number of the claim, from 1.
    pub fence: u64,
}

/// A question, with its answer if there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterruptRow {
    /// The question.
    pub interrupt: Interrupt,
    /// Run that ended at the question.
    pub run: RunId,
    /// First answer. It is never replaced.
    pub answer: Option<Answer>,
    /// `true` if the question is void, because its superstep was left without an answer.
    pub closed: bool,
}

impl InterruptRow {
    /// Returns `true` if the question waits for an answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.closed
    }
}

/// The writes of one commit of a run, applied in one transaction.
///
/// The parts take effect in the order of the fields. The status of the thread follows that of the
/// run. Large records are shared, so that a commit can be retried without copying them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Commit {
    /// Checkpoints and task results of open supersteps. The last checkpoint of the root graph
    /// becomes the head of the thread.
    pub batch: Arc<crate::checkpoint::CheckpointBatch>,
    /// Calls in their current state, each with all its counters. A call that is already recorded is
    /// merged; see [`record_call`](crate::invariants::record_call).
    pub calls: Vec<Arc<CallRecord>>,
    /// Usage facts, of this run or of others. A fact has no effect if its invocation is already
    /// recorded for its run.
    pub usage: Vec<Arc<UsageRow>>,
    /// Open questions. A question that was already answered stays answered. If this commit ends the
    /// run or stores a checkpoint, all other open questions of the thread are closed. A question that
    /// was open before becomes that of this run, unless [`keeps_asking_run`](Self::keeps_asking_run).
    pub interrupts: Vec<Interrupt>,
    /// The open questions are those of earlier runs, because this one ends without having begun.
    pub is_unbegun: bool,
    /// Events, in order. The store assigns their numbers.
    pub events: Vec<AiEvent>,
    /// Position up to which partial text of the run is void. It is deleted before the partial text
    /// of this commit is stored. Partial text of an earlier commit is deleted as a whole, once all
    /// of it is void. The commit that ends a run voids all of it.
    pub void: Option<Position>,
    /// Partial text emitted since the last commit, in order. It is not part of the event log: it
    /// has no event numbers, and is not exported with a thread.
    pub pieces: Vec<Piece>,
    /// Records for readers outside of the run, written one after the other. If a sequence does not
    /// have the expected version, the commit is refused.
    pub sequence_writes: Vec<SequenceWrite>,
    /// Outcome of the run, in its last commit.
    pub finish: Option<RunOutcome>,
    /// Time at which the thread resumes by itself; only together with `finish`.
    pub wakes_at: Option<Timestamp>,
    /// Time of the commit.
    pub at: Timestamp,
}

impl Commit {
    /// Returns `true` if questions that were open before stay those of the runs that asked them: a
    /// completed run asks nothing, nor does one that was cancelled or has not begun.
    #[must_use]
    pub fn keeps_asking_run(&self) -> bool {
        let end = self.finish.as_ref();
        let asks_nothing =
            matches!(end, Some(RunOutcome::Cancelled { .. } | RunOutcome::Completed { .. }));
        asks_nothing || self.is_unbegun
    }
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Number of the first event of the commit; the others follow without gaps. For a commit
    /// without events, the number of the next event.
    pub first_seq: u64,
    /// `true` if cancellation was requested.
    pub cancel_requested: bool,
}

/// A durable event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Number in the log of the run, from 1 without gaps.
    pub seq: u64,
    /// Time of the commit.
    pub at: Timestamp,
    /// The event.
    pub event: AiEvent,
}

/// A process that executes runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Id of the worker.
    pub id: WorkerId,
    /// Time of the last renewal of its lease.
    pub renewed_at: Timestamp,
    /// Time until which the worker is considered alive.
    pub expires_at: Timestamp,
}

impl WorkerRow {
    /// Returns `true` if the worker's lease is valid at a time.
    ///
    /// A lease that ends later than that by more than twice its length is not: it was renewed by a
    /// clock that was ahead, and would otherwise last until the others reach it. Once the length
    /// would be too strict: a clock that is set back a little would end all leases.
    #[must_use]
    pub const fn is_valid(&self, now: Timestamp) -> bool {
        let length = self.expires_at.0.saturating_sub(self.renewed_at.0);
        let left = self.expires_at.0.saturating_sub(now.0);
        left > 0 && left <= length.saturating_mul(2)
    }
}

/// Usage of one attempt of a model call, with its billing identity: a row of the table of model
/// calls, once it is moved there ([`WriteBill`](crate::WriteBill)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Billing identity, with the run and graph if the call was made in one.
    pub caller: CallOrigin,
    /// Usage fact.
    pub fact: UsageFact,
}

impl UsageRow {
    /// Returns the run in which the call was made, if it was made in one.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.caller.run().map(|caller| &caller.run)
    }

    /// Returns the subject of the bill: the run, or the invocation outside of runs.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.run().map_or(self.fact.invocation_id.as_str(), RunId::as_str)
    }
}
