//! The part of the tables that an operation uses.

use crate::bill::BilledTo;
use crate::checkpoint::{CheckpointBatch, Pending};
use crate::items::ItemRef;
use crate::limit::StartPlace;
use crate::record::{Claim, Commit, NewRun};
use crate::retention::Untouched;
use crate::sequence::{Change, Sequence, SequenceQuery, SequenceWrite};
use std::collections::BTreeSet;
use weftwork_types::canonical::Hash;
use weftwork_types::port::CallKey;
use weftwork_types::run::Multitask;
use weftwork_types::{CheckpointId, InvocationId, OrgId, RunId, ThreadId, Timestamp, WorkerId};

/// The part of the tables that an operation reads and changes. Rows that an operation adds are not
/// part of it, except where their existence makes a difference.
#[derive(Debug, Clone, Default)]
pub struct Scope(pub(crate) Vec<Need>);

/// A need of an operation.
#[derive(Debug, Clone)]
pub(crate) enum Need {
    /// A thread with its runs and questions, and parts of it.
    Thread(OrgId, ThreadId, Vec<Part>),
    /// The threads of an organisation, with their runs and questions, without changes.
    Threads(OrgId),
    /// The threads of all organisations with an unfinished run or a time to resume, without changes.
    Active,
    /// The thread of a run id.
    Run(OrgId, RunId),
    /// The thread of an idempotency key.
    RequestKey(OrgId, String),
    /// Threads that are to be deleted.
    Untouched { org: OrgId, which: Untouched },
    /// Threads with a run that ended before a time, with events.
    EndedBefore { org: OrgId, at: Timestamp },
    /// All workers, without changes.
    Workers,
    /// A worker.
    Worker(WorkerId),
    /// A usage fact.
    Usage(OrgId, InvocationId),
    /// The usage facts of a run, without changes.
    UsageOfRun { org: OrgId, run: RunId },
    /// The oldest facts that are not yet moved to the bill, and their rows there.
    Unmoved { limit: usize },
    /// The rows of an organisation in the bill, or those of a subject, without changes.
    Bill { org: OrgId, subject: Option<String> },
    /// The usage facts of an organisation, its rows in the bill, and the starts of an account or key.
    AllUsage { org: OrgId, of: BilledTo },
    /// The attempts of all organisations in the bill, without changes.
    Bills,
    /// The starts at some places.
    Starts(BTreeSet<StartPlace>),
    /// A blob, without changes.
    Blob { org: OrgId, hash: Hash },
    /// A layout, without changes.
    Layout { org: OrgId, hash: Hash },
    /// The records that a query selects, without changes.
    Records { org: OrgId, query: SequenceQuery },
    /// The version of a sequence, and its records up to a version.
    Sequence { org: OrgId, sequence: Sequence, up_to: u64 },
    /// An item.
    Item(OrgId, ItemRef),
    /// The items of an organisation.
    Items(OrgId),
    /// The items of all organisations.
    AllItems,
}

/// A part of a thread.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// All that is deleted with the thread, except usage.
    Everything,
    /// All that is exported with the thread, without changes.
    Export,
    /// Events of a run after a number, without changes.
    Events { run: RunId, after: u64, limit: usize },
    /// The last event of a run.
    LastEvent(RunId),
    /// The partial text of a run.
    Pieces(RunId),
    /// All calls, without changes.
    AllCalls,
    /// Calls by key.
    Calls(Vec<CallKey>),
    /// The usage of the runs, without changes.
    Usage,
    /// Dependencies of the claim of a run: the newest checkpoint, or all of them if the run clears the
    /// thread, and its worker.
    Claim(RunId),
    /// The newest checkpoint of the root graph.
    Newest,
    /// All checkpoints and parts of open supersteps.
    Checkpoints,
    /// A checkpoint, or the newest one, and what it is read with.
    Checkpoint { ns: String, id: Option<CheckpointId> },
    /// Checkpoints by id, without changes.
    Bodies { ns: String, ids: Vec<CheckpointId> },
    /// A page of checkpoints, without changes.
    Page { ns: String, before: Option<CheckpointId>, limit: usize },
    /// The newest checkpoint of each graph, without changes.
    Namespaces,
    /// The blobs that loaded checkpoints refer to, which are to be retained.
    References,
    /// Dependencies of a write of checkpoints: the last parts of these open supersteps, and the
    /// existence of blobs and layouts.
    Batch { tails: Vec<(String, CheckpointId)>, blobs: BTreeSet<Hash>, layouts: Vec<Hash> },
}

impl Part {
    pub(crate) fn checkpoint(ns: &str, id: Option<CheckpointId>) -> Self {
        Self::Checkpoint { ns: ns.to_owned(), id }
    }

    pub(crate) fn batch(batch: &CheckpointBatch) -> Self {
        let tasks = batch.pending.iter().filter(|part| part.what == Pending::Tasks);
        let tails = tasks.map(|part| (part.ns.clone(), part.of)).collect();
        let carried = batch.blobs.iter().map(|(hash, _)| hash);
        let spoken = batch.checkpoints.iter().flat_map(|new| &new.blobs);
        let spoken = spoken.chain(batch.pending.iter().flat_map(|part| &part.blobs));
        let blobs = carried.chain(spoken).copied().collect();
        Self::Batch { tails, blobs, layouts: batch.layouts.iter().map(|(hash, _)| *hash).collect() }
    }
}

impl Need {
    pub(crate) fn thread(org: &OrgId, id: &ThreadId) -> Self {
        Self::Thread(org.clone(), id.clone(), Vec::new())
    }

    pub(crate) fn run(org: &OrgId, run: &RunId) -> Self {
        Self::Run(org.clone(), run.clone())
    }

    pub(crate) fn request_key(org: &OrgId, key: &str) -> Self {
        Self::RequestKey(org.clone(), key.to_owned())
    }

    pub(crate) fn usage(org: &OrgId, invocation: &InvocationId) -> Self {
        Self::Usage(org.clone(), invocation.clone())
    }

    pub(crate) fn item(org: &OrgId, at: &ItemRef) -> Self {
        Self::Item(org.clone(), at.clone())
    }

    pub(crate) fn items(org: &OrgId) -> Self {
        Self::Items(org.clone())
    }
}

impl Scope {
    pub(crate) fn of(need: Need) -> Self {
        Self(vec![need])
    }

    pub(crate) fn thread(org: &OrgId, id: &ThreadId) -> Self {
        Self::of(Need::thread(org, id))
    }

    pub(crate) fn part(org: &OrgId, id: &ThreadId, part: Part) -> Self {
        Self::of(Need::Thread(org.clone(), id.clone(), vec![part]))
    }

    pub(crate) fn add(&mut self, need: Need) {
        self.0.push(need);
    }

    /// Adds a part of the thread that was added last.
    pub(crate) fn add_part(&mut self, part: Part) {
        if let Some(Need::Thread(_, _, parts)) = self.0.last_mut() {
            parts.push(part);
        }
    }

    /// Returns the scope of writes to sequences.
    pub(crate) fn of_writes(org: &OrgId, writes: &[SequenceWrite]) -> Self {
        let needs = writes.iter().map(|write| Need::Sequence {
            org: org.clone(),
            sequence: write.to.clone(),
            up_to: match write.change {
                Change::Append(_) => 0,
                Change::Replace(_) => u64::MAX,
                Change::Delete { up_to } => up_to,
            },
        });
        needs.collect()
    }

    /// Returns the scope of the creation of a run, and of its claim.
    pub(crate) fn of_request(org: &OrgId, new: &NewRun) -> Self {
        let clears = new.options.multitask == Multitask::Rollback;
        let part = if clears { Part::Checkpoints } else { Part::Newest };
        let mut scope = Self::part(org, &new.at.thread, part);
        scope.add(Need::run(org, &new.at.run));
        scope.extend(new.options.idempotency_key.iter().map(|key| Need::request_key(org, key)));
        scope
    }

    /// Returns the scope of a commit.
    pub(crate) fn of_commit(org: &OrgId, claim: &Claim, commit: &Commit) -> Self {
        let mut scope = Self::part(org, &claim.at.thread, Part::LastEvent(claim.at.run.clone()));
        scope.add_part(Part::batch(&commit.batch));
        if commit.void.is_some() {
            scope.add_part(Part::Pieces(claim.at.run.clone()));
        }
        scope.add_part(Part::Calls(commit.calls.iter().map(|call| call.key).collect()));
        scope.extend(commit.usage.iter().map(|row| Need::usage(org, &row.fact.invocation_id)));
        scope.extend(Self::of_writes(org, &commit.sequence_writes).0);
        scope
    }
}

impl Extend<Need> for Scope {
    fn extend<I: IntoIterator<Item = Need>>(&mut self, needs: I) {
        self.0.extend(needs);
    }
}

impl FromIterator<Need> for Scope {
    fn from_iter<I: IntoIterator<Item = Need>>(needs: I) -> Self {
        Self(needs.into_iter().collect())
    }
}
