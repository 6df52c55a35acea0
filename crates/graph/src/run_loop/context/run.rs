//! Data that the loops of a run share, and data of each loop and each task.

use super::{Host, RunAccount, TaskContext, TaskReports};
use crate::error::Drain;
use crate::run_loop::event::Modes;
use crate::run_loop::options::Options;
use crate::run_loop::sink::Sink;
use crate::run_loop::sync::lock;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::Durability;
use weftwork_types::secret::HiddenValues;
use weftwork_types::{CheckpointId, InterruptId, Timestamp};

/// Data that all loops of a run share.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) host: Host,
    /// Options of the run. Its step limit is that of each graph in it.
    pub(crate) options: Options,
    pub(crate) sink: Option<Sink>,
    /// Time at which the run is cut off.
    pub(crate) deadline: Option<Timestamp>,
    /// Reason that a node gave when it asked the run to stop.
    pub(crate) drain: Mutex<Option<String>>,
    pub(crate) drains: AtomicBool,
    /// Answers by the ids of their questions.
    pub(crate) answers: OnceLock<BTreeMap<InterruptId, Json>>,
    /// Answers to questions whose tasks have other ids now.
    pub(crate) carried: Mutex<Vec<CarriedAnswer>>,
    /// `true` if an earlier process of the run may have taken some of them.
    pub(crate) carries_again: AtomicBool,
    /// `true` if the run answers at the newest checkpoints of all graphs that it names: it continues
    /// there, as if it named none.
    pub(crate) answers_newest: AtomicBool,
    /// Lower bound of this run's checkpoint ids; `given` counts the ids issued after it.
    ids: OnceLock<u128>,
    given: AtomicU32,
    /// Expiry times and defaults of the questions that are on record.
    pub(crate) expiries: Mutex<Expiries>,
    /// The branch of the thread: the checkpoint it began with; none on the first.
    pub(crate) branch: Mutex<Option<CheckpointId>>,
    /// The checkpoint from which the outermost graph continued; none when there was none.
    pub(crate) since: OnceLock<CheckpointId>,
    /// Identity and limits of the calls, once a task needs them.
    account: OnceLock<RunAccount>,
    reports: TaskReports,
    /// The messages that were emitted, or that nodes got, by their ids; of runs that stream them.
    pub(crate) messages: Mutex<BTreeSet<String>>,
    /// Secret arguments and hidden results that the run has seen.
    pub(crate) hidden: Arc<HiddenValues>,
}

impl RunContext {
    pub(crate) fn new(host: Host, options: Options, sink: Option<Sink>) -> Self {
        let deadline = options.deadline.map(|limit| host.clock().now().plus(limit));
        Self {
            reports: host.environment().task_reports(),
            host,
            options,
            sink,
            deadline,
            drain: Mutex::default(),
            drains: AtomicBool::new(false),
            answers: OnceLock::new(),
            carried: Mutex::default(),
            carries_again: AtomicBool::new(false),
            answers_newest: AtomicBool::new(false),
            ids: OnceLock::new(),
            given: AtomicU32::new(0),
            expiries: Mutex::default(),
            messages: Mutex::default(),
            branch: Mutex::default(),
            since: OnceLock::new(),
            account: OnceLock::new(),
            hidden: Arc::default(),
        }
    }

    /// Creates the data for the next part of a run that waited in place. What holds for the run as a
    /// whole stays: its deadline and its identity, the messages that were emitted, and the values
    /// that it hides.
    pub(crate) fn after_wait(&self) -> Self {
        let next = Self::new(self.host.clone(), self.options.clone(), self.sink.clone());
        Self {
            deadline: self.deadline,
            account: self.account.clone(),
            messages: Mutex::new(std::mem::take(&mut *lock(&self.messages))),
            hidden: Arc::clone(&self.hidden),
            ..next
        }
    }

    /// Issues an id for a checkpoint: greater than all that the run issued before, and than all
    /// that its thread had when the run began.
    pub(crate) fn next_id(&self) -> CheckpointId {
        // Reserved at the first use: by then the loop has recorded the newest id of the thread.
        let before = self.ids.get_or_init(|| self.host.id_block());
        CheckpointId(before + 1 + u128::from(self.given.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn wants(&self, modes: Modes) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.modes.any_of(modes))
    }
}

impl RunContext {
    /// Reason to stop after the superstep, when a node or its process asked for that.
    pub(crate) fn drained(&self) -> Option<Drain> {
        // Before a shutdown, which only releases the run: the request of a node ends it.
        if self.drains.load(Ordering::Relaxed) {
            return lock(&self.drain).clone().map(Drain::Requested);
        }
        self.host.environment().shuts_down().then_some(Drain::Shutdown)
    }

    /// Returns the account of the run, given a task that needs it.
    pub(crate) fn account(&self, at: &TaskContext) -> &RunAccount {
        self.account.get_or_init(|| self.host.environment().account(at))
    }

    /// Returns `true` if the run stores only its last checkpoint: it stores them when it ends, and no
    /// report needs those before.
    pub(crate) fn stores_last_only(&self) -> bool {
        self.options.durability == Durability::Exit && self.reports == TaskReports::Omitted
    }

    /// Returns `true` if the checkpoints of the run include reports of tasks: a worker executes it
    /// under its claim.
    pub(crate) fn reports_tasks(&self) -> bool {
        self.reports == TaskReports::Included
    }

    /// Makes a report of tasks, if the checkpoints of the run include reports.
    pub(crate) fn report<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        self.reports_tasks().then(make)
    }

    /// Sets the checkpoint and the branch from which the outermost graph continues.
    pub(crate) fn begins(&self, since: Option<CheckpointId>, branch: Option<CheckpointId>) {
        if let Some(since) = since {
            // Only the outermost graph comes here, and once.
            self.since.get_or_init(|| since);
        }
        self.set_branch(branch);
    }

    /// Sets the branch of the thread the run is on.
    pub(crate) fn set_branch(&self, branch: Option<CheckpointId>) {
        *lock(&self.branch) = branch;
    }
}

/// Expiry times of open questions, with the default answers that apply then.
pub(crate) type Expiries = BTreeMap<InterruptId, (Timestamp, Json)>;

/// An answer to a question whose task has another id now. It is for the same question of the same
/// node only: an answer to another text is never taken.
#[derive(Debug)]
pub(crate) struct CarriedAnswer {
    /// The question, as it was asked.
    pub(crate) question: Interrupt,
    /// Its number among those of its task.
    pub(crate) number: usize,
    pub(crate) answer: Json,
}
