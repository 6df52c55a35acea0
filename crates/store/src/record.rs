//! The rows.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_types::caller::{Caller, GraphCaller};
use weftwork_types::event::{AiEvent, Piece, Position};
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::port::CallRecord;
use weftwork_types::run::{Multitask, RunFinal, RunInput, RunOptions, RunRef, RunStatus};
use weftwork_types::usage::UsageFact;
use weftwork_types::{CheckpointId, ThreadId, Timestamp, WorkerId};

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The thread.
    pub id: ThreadId,
    /// The graph that last ran on it.
    pub graph: String,
    /// How its last run stands.
    pub status: RunStatus,
    /// Its newest checkpoint.
    pub head: Option<CheckpointId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it goes on by itself, because a question of it takes its default then; a timer is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
}

/// A run about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// Its thread and id.
    pub at: RunRef,
    /// The graph.
    pub graph: String,
    /// Who pays.
    pub caller: Caller,
    /// What it starts from.
    pub input: RunInput,
    /// How.
    pub options: RunOptions,
    /// When it is made.
    pub created_at: Timestamp,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// How it was made.
    pub new: NewRun,
    /// Where it stands.
    pub status: RunStatus,
    /// The worker that has it, or had it last.
    pub worker: Option<WorkerId>,
    /// How often it was claimed; the newest claim's fence.
    pub fence: u64,
    /// How it ended.
    pub outcome: Option<RunFinal>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether somebody asked it to stop.
    pub cancel_requested: bool,
    /// Where the thread stood before it, which is known once it was claimed. One that takes others
    /// back ([`Multitask::Rollback`](weftwork_types::run::Multitask)) has that of the first of
    /// them, and begins there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

/// Where a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// It has no checkpoint.
    Nothing,
    /// At this one, the newest of the outermost graph.
    At(CheckpointId),
}

impl Base {
    /// As stores write it: the 16 bytes of the id, or none for a thread without checkpoints.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::At(id) => id.0.to_be_bytes().to_vec(),
        }
    }

    /// Reads [`to_bytes`](Self::to_bytes); `None` for bytes of another length.
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
    /// Whether the run takes all back that its thread has, when it begins. One that was cancelled
    /// before takes nothing back.
    #[must_use]
    pub fn clears(&self) -> bool {
        self.rolls_back() && self.base == Some(Base::Nothing) && !self.cancel_requested
    }

    /// The checkpoint at which the run begins because it takes back what came after.
    #[must_use]
    pub fn back_to(&self) -> Option<CheckpointId> {
        match self.base {
            Some(Base::At(id)) if self.rolls_back() => Some(id),
            _ => None,
        }
    }

    /// Whether it brings something for its thread, and does not only go on with that.
    #[must_use]
    pub fn brings(&self) -> bool {
        matches!(self.new.input, RunInput::Start { .. } | RunInput::Update { .. })
    }

    /// Whether the run begins where its thread does not stand.
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

/// A worker's right to write for a run. The newest claim wins; older ones are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The run.
    pub at: RunRef,
    /// The worker.
    pub worker: WorkerId,
    /// The number of the claim, from 1.
    pub fence: u64,
}

/// A question and, once given, its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterruptRow {
    /// The question.
    pub interrupt: Interrupt,
    /// The run that ended at it.
    pub run: weftwork_types::RunId,
    /// The answer. The first one stays.
    pub answer: Option<Answer>,
    /// Whether the question is void, because its superstep was left without it.
    pub closed: bool,
}

impl InterruptRow {
    /// Whether it waits for an answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.closed
    }
}

/// Everything one commit of a run writes: all of it or nothing.
///
/// The parts take effect in the order of the fields. The thread's status follows the run's.
/// What is large is shared, so that a commit can be tried again without a copy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Commit {
    /// Checkpoints and parts of open supersteps. The last checkpoint of the root graph becomes the
    /// thread's head.
    pub keep: Arc<crate::checkpoint::Keep>,
    /// Calls as they stand now, each with all it counts; see [`record_call`](crate::rule::record_call)
    /// for one that is on record already.
    pub calls: Vec<Arc<CallRecord>>,
    /// Usage facts, of the run itself or of others. An invocation is one of its run: one that is on
    /// record for it changes nothing.
    pub usage: Vec<Arc<UsageRow>>,
    /// Questions that are open now. One that was answered before stays answered. All other open
    /// questions of the thread are closed when this commit also ends the run or keeps a
    /// checkpoint.
    pub interrupts: Vec<Interrupt>,
    /// Events, in order. The store numbers them.
    pub events: Vec<AiEvent>,
    /// Pieces of the run up to here are void, and forgotten before those of this commit are kept;
    /// what another commit kept goes as a whole, once the last of it is void. Who ends a run voids
    /// all of it.
    pub void: Option<Position>,
    /// Text that was told since, in order. Pieces are no events: they have no numbers, and are not
    /// part of a thread that is taken to another store.
    pub pieces: Vec<Piece>,
    /// How the run ended, in its last commit.
    pub finish: Option<RunFinal>,
    /// With the end of the run: when the thread goes on by itself.
    pub wakes_at: Option<Timestamp>,
    /// The time of the commit.
    pub at: Timestamp,
}

/// What a commit gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The sequence number of the first event of the commit; the others follow without gaps. For
    /// a commit without events, the number that the next event will get.
    pub first_seq: u64,
    /// Whether somebody asked the run to stop.
    pub cancel_requested: bool,
}

/// A durable event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Its place in the run's log, from 1 without gaps.
    pub seq: u64,
    /// When it was committed.
    pub at: Timestamp,
    /// The event.
    pub event: AiEvent,
}

/// A process that executes runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The worker.
    pub id: WorkerId,
    /// When it started.
    pub started_at: Timestamp,
    /// Until when it is taken to be alive.
    pub expires_at: Timestamp,
}

/// What one attempt of a model call used, and who pays for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Who pays, and for which run.
    pub caller: GraphCaller,
    /// The fact.
    pub fact: UsageFact,
}
