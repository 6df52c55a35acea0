//! Calls of tasks of in-process runs, stored with the outcomes of the tasks.

use super::Host;
use super::api::Durability;
use super::look::At;
use super::record::{Records, TaskDetails, TaskKey, TaskRecord};
use super::scope::{Scope, Scratch, TaskAt, lock};
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::journal::{CallBook, Origin};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weftwork_types::code::Fault;
use weftwork_types::port::{CallKey, CallRecord, CallState, Clock};
use weftwork_types::{BoxFuture, CheckpointId};

/// Number of checkpoints read at a time.
const PAGE: usize = 64;

/// Calls of a task, as they are kept: mostly there are none.
pub type Calls = Option<Box<CallList>>;

/// Some calls of a task, in the order in which they were begun.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallList(pub Vec<Arc<CallRecord>>);

impl CallList {
    /// None, when there are none.
    #[must_use]
    pub fn of(calls: Vec<Arc<CallRecord>>) -> Calls {
        (!calls.is_empty()).then(|| Box::new(Self(calls)))
    }

    /// Adds what is known of calls beside this; of each, the one that got further stays.
    pub(super) fn merge(&mut self, newer: Self) {
        let keys = self.0.iter().enumerate().map(|(at, call)| (call.key, at));
        let mut places: BTreeMap<CallKey, usize> = keys.collect();
        for call in newer.0 {
            match places.get(&call.key).and_then(|at| self.0.get_mut(*at)) {
                Some(known) if further(known) > further(&call) => {}
                Some(known) => *known = call,
                None => {
                    places.insert(call.key, self.0.len());
                    self.0.push(call);
                }
            }
        }
    }
}

/// Returns the progress of a call, for comparison. Knowledge of a call only grows.
fn further(call: &CallRecord) -> (bool, u64) {
    let counts = [call.made, call.possibly_paid, call.reused].map(u64::from);
    (call.state == CallState::Settled, counts.iter().sum())
}

/// The calls of a task over its attempts, and which of them are not kept yet.
#[derive(Debug, Default)]
pub(crate) struct TaskCalls(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// In the order in which they came.
    all: Vec<Arc<CallRecord>>,
    /// Where each is, once there are more than a few.
    places: BTreeMap<CallKey, usize>,
    /// Positions of the calls to be stored.
    fresh: SmallVec<[usize; 2]>,
}

/// As many calls are looked for one after the other.
const FEW: usize = 8;

impl Noted {
    fn place(&self, key: CallKey) -> Option<usize> {
        if self.all.len() > FEW {
            return self.places.get(&key).copied();
        }
        self.all.iter().position(|call| call.key == key)
    }

    fn put(&mut self, call: Arc<CallRecord>) {
        let place = self.place(call.key);
        match place.and_then(|at| self.all.get_mut(at)) {
            Some(known) => *known = call,
            None => self.push(call),
        }
        self.freshen(place.unwrap_or(self.all.len() - 1));
    }

    fn take_fresh(&mut self) -> Calls {
        let fresh = std::mem::take(&mut self.fresh);
        let calls = fresh.into_iter().filter_map(|at| self.all.get(at).map(Arc::clone));
        CallList::of(calls.collect())
    }

    /// Marks a call for the next write.
    fn freshen(&mut self, at: usize) {
        if !self.fresh.contains(&at) {
            self.fresh.push(at);
        }
    }

    fn push(&mut self, call: Arc<CallRecord>) {
        self.all.push(call);
        let from = if self.all.len() == FEW + 1 { 0 } else { self.all.len() - 1 };
        if self.all.len() > FEW {
            let new = self.all.iter().enumerate().skip(from).map(|(at, call)| (call.key, at));
            self.places.extend(new);
        }
    }
}

impl TaskCalls {
    /// Creates a list of calls that are already on record.
    pub(super) fn known(calls: &Calls) -> Self {
        let mut noted = Noted::default();
        let known = calls.iter().flat_map(|calls| &calls.0);
        known.for_each(|call| noted.push(Arc::clone(call)));
        Self(Mutex::new(noted))
    }

    fn find(&self, key: CallKey) -> Option<Arc<CallRecord>> {
        let noted = lock(&self.0);
        noted.place(key).and_then(|at| noted.all.get(at)).map(Arc::clone)
    }

    fn put(&self, call: Arc<CallRecord>) {
        lock(&self.0).put(call);
    }

    /// Adds one and takes all that are to be kept, so that nobody else takes it meanwhile.
    fn put_and_take(&self, call: Arc<CallRecord>) -> Calls {
        let mut noted = lock(&self.0);
        noted.put(call);
        noted.take_fresh()
    }

    /// Takes the calls that are to be stored, and marks them as stored.
    pub(super) fn take_fresh(&self) -> Calls {
        lock(&self.0).take_fresh()
    }

    /// These were not kept after all.
    fn give_back(&self, calls: &Calls) {
        let mut noted = lock(&self.0);
        for call in calls.iter().flat_map(|calls| &calls.0) {
            if let Some(at) = noted.place(call.key) {
                noted.freshen(at);
            }
        }
    }
}

/// Calls that are being kept. Whoever is cut off meanwhile has not kept them.
struct Taken<'a> {
    of: &'a TaskCalls,
    calls: Calls,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.of.give_back(&self.calls);
    }
}

/// The task in whose record calls are kept: one of the outermost graph, whatever graph or task within
/// it makes them. So they are found by whoever makes them again, in another attempt or after the
/// graph within was left, wherever that keeps its checkpoints this time.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    scope: Arc<Scope>,
    scratch: Arc<Scratch>,
    key: TaskKey,
    of: CheckpointId,
    /// The task that makes the calls, when it is another.
    own: Option<Arc<Keeper>>,
}

impl TaskAt {
    /// Returns the keeper that stores the calls of the task; `None` without a checkpointer.
    pub(crate) fn keeper(&self) -> Option<Keeper> {
        let own = || Keeper {
            scope: Arc::clone(&self.scope),
            scratch: Arc::clone(&self.scratch),
            key: self.key.clone(),
            of: self.checkpoint,
            own: None,
        };
        if let Some(keeper) = &self.keeper {
            let own = Some(Arc::new(own()));
            return Some(Keeper { own, ..Keeper::clone(keeper) });
        }
        let hosted = self.scope.shared.host.environment().has_log();
        self.scope.keep.saver.as_ref().filter(|_| !hosted)?;
        Some(own())
    }
}

impl CallBook for Keeper {
    fn clock(&self) -> &Arc<dyn Clock> {
        self.scope.shared.host.clock()
    }

    fn lost(&self) -> u32 {
        0
    }

    fn reuses_origins(&self) -> bool {
        false
    }

    fn origins(&self, _: CheckpointId) -> BoxFuture<'_, Result<Arc<[Origin]>, Fault>> {
        Box::pin(std::future::ready(Ok(Arc::from([]))))
    }

    fn find(&self, key: CallKey) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        Box::pin(std::future::ready(Ok(self.scratch.calls.find(key))))
    }

    fn find_on_thread(
        &self,
        key: CallKey,
    ) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        self.find(key)
    }

    /// Includes the call in the next record of the task: at the latest that of its end, before that
    /// when the loop waits.
    fn note(&self, call: Arc<CallRecord>) {
        self.scratch.calls.put(call);
        self.scope.noted.notify_one();
    }

    fn record(&self, call: Arc<CallRecord>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.keep(call).await.map_err(|error| error.fault()) })
    }
}

impl Keeper {
    /// Keeps a call, and what else the task called, at once. A run that keeps everything at its end
    /// does so with this.
    async fn keep(&self, call: Arc<CallRecord>) -> Result<(), RuntimeError> {
        let (scope, of) = (&self.scope, &self.scratch.calls);
        let exit = scope.shared.durability == Durability::Exit;
        let Some(saver) = scope.keep.saver.as_ref().filter(|_| !exit) else {
            of.put(call);
            return Ok(());
        };
        let mut taken = Taken { of, calls: of.put_and_take(call) };
        // The answers that led here are as durable as what is done because of them, and so are the
        // checkpoints that it is done upon.
        if let Some(own) = &self.own {
            own.scope.stored().await?;
            own.keep_answers().await?;
        }
        scope.stored().await?;
        let mut record = self.answers().unwrap_or_default();
        record.calls.clone_from(&taken.calls);
        let tasks = Records::from_iter([(self.key.clone(), record)]);
        saver.put_tasks(&scope.place, scope.graph.plan(), self.of, tasks).await?;
        taken.calls = None;
        Ok(())
    }

    /// The answers that the task took, when it took any.
    fn answers(&self) -> Option<TaskRecord> {
        let answers = Some(self.scratch.answers()?);
        Some(TaskDetails { answers, ..TaskDetails::default() }.into())
    }

    async fn keep_answers(&self) -> Result<(), RuntimeError> {
        let scope = &self.scope;
        if let (Some(saver), Some(answers)) = (&scope.keep.saver, self.answers()) {
            let tasks = Records::from_iter([(self.key.clone(), answers)]);
            saver.put_tasks(&scope.place, scope.graph.plan(), self.of, tasks).await?;
        }
        Ok(())
    }
}

impl CompiledGraph {
    /// The calls that runs of this process left on record on a thread, and those of graphs within:
    /// superstep by superstep, the oldest first, of all branches, whichever checkpoint `at` names.
    ///
    /// They are kept with the checkpoints of the outermost graph and go with them. Calls of hosted
    /// runs are in the store (`JournalRead` of the store).
    ///
    /// # Errors
    /// [`RuntimeError::NoSaver`], and what the saver says: a checkpoint that cannot be read is an
    /// error, never left out.
    pub async fn calls(&self, host: &Host, at: &At) -> Result<Vec<CallRecord>, RuntimeError> {
        let saver = host.saver().ok_or(RuntimeError::NoSaver { what: "looking at calls" })?;
        let (graph, place) = self.at(at)?;
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = saver.list(&place, graph.plan(), before, PAGE).await?;
            let Some(oldest) = page.last() else { break };
            before = Some(oldest.checkpoint.id);
            for saved in page {
                let calls = saved.tasks.into_iter().filter_map(|(_, record)| record.calls);
                let mut calls: Vec<_> = calls.flat_map(|calls| calls.0).collect();
                calls.reverse();
                found.extend(calls);
            }
        }
        Ok(found.into_iter().rev().map(Arc::unwrap_or_clone).collect())
    }
}

#[cfg(test)]
mod tests;
