//! Calls of tasks of in-process runs, stored with the outcomes of the tasks.

use crate::run_loop::sync::lock;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weftwork_types::port::{CallKey, CallRecord, CallState};

/// Calls of a task as stored: mostly there are none.
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
    pub(crate) fn merge(&mut self, newer: Self) {
        let keys = self.0.iter().enumerate().map(|(at, call)| (call.key, at));
        let mut places: BTreeMap<CallKey, usize> = keys.collect();
        for call in newer.0 {
            match places.get(&call.key).and_then(|at| self.0.get_mut(*at)) {
                // Attempts may have recorded the same call; the record must not lose progress.
                Some(known) if call_progress(known) > call_progress(&call) => {}
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
fn call_progress(call: &CallRecord) -> (bool, u64) {
    let counts = [call.made, call.possibly_paid, call.reused].map(u64::from);
    (call.state == CallState::Settled, counts.iter().sum())
}

/// The calls of a task over its attempts, and which of them are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct TaskCalls(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// In the order in which they came.
    all: Vec<Arc<CallRecord>>,
    /// Position of each, once there are more than a few.
    places: BTreeMap<CallKey, usize>,
    /// Positions of the calls to be stored.
    fresh: SmallVec<[usize; 2]>,
}

/// As many calls are looked for one after the other.
const FEW: usize = 8;

impl Noted {
    fn index_of(&self, key: CallKey) -> Option<usize> {
        if self.all.len() > FEW {
            return self.places.get(&key).copied();
        }
        self.all.iter().position(|call| call.key == key)
    }

    fn put(&mut self, call: Arc<CallRecord>) {
        let index = self.index_of(call.key);
        match index.and_then(|at| self.all.get_mut(at)) {
            Some(known) => *known = call,
            None => self.push(call),
        }
        self.freshen(index.unwrap_or(self.all.len() - 1));
    }

    fn take_fresh(&mut self) -> Calls {
        let fresh = std::mem::take(&mut self.fresh);
        let calls = fresh.into_iter().filter_map(|at| self.all.get(at).map(Arc::clone));
        CallList::of(calls.collect())
    }

    /// Marks a call for the next write.
    fn freshen(&mut self, at: usize) {
        // A call that changes again before it is stored is written once, as it is by then.
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
    pub(crate) fn known(calls: &Calls) -> Self {
        let mut noted = Noted::default();
        let known = calls.iter().flat_map(|calls| &calls.0);
        // Not `put`: calls on record are stored already.
        known.for_each(|call| noted.push(Arc::clone(call)));
        Self(Mutex::new(noted))
    }

    pub(crate) fn find(&self, key: CallKey) -> Option<Arc<CallRecord>> {
        let noted = lock(&self.0);
        noted.index_of(key).and_then(|at| noted.all.get(at)).map(Arc::clone)
    }

    pub(crate) fn put(&self, call: Arc<CallRecord>) {
        lock(&self.0).put(call);
    }

    /// Adds a call and takes all that are to be stored, so that no other write takes it meanwhile.
    pub(crate) fn put_and_take(&self, call: Arc<CallRecord>) -> Calls {
        let mut noted = lock(&self.0);
        noted.put(call);
        noted.take_fresh()
    }

    /// Takes the calls that are to be stored, and marks them as stored.
    pub(crate) fn take_fresh(&self) -> Calls {
        lock(&self.0).take_fresh()
    }

    /// Returns calls whose write failed to the calls to be stored.
    fn give_back(&self, calls: &Calls) {
        let mut noted = lock(&self.0);
        for call in calls.iter().flat_map(|calls| &calls.0) {
            if let Some(at) = noted.index_of(call.key) {
                // The call may have changed since: its current record is stored next.
                noted.freshen(at);
            }
        }
    }
}

/// Calls that are being stored. A write that is cut off gives them back.
pub(crate) struct CallsInFlight<'a> {
    pub(crate) of: &'a TaskCalls,
    pub(crate) calls: Calls,
}

impl Drop for CallsInFlight<'_> {
    fn drop(&mut self) {
        self.of.give_back(&self.calls);
    }
}

#[cfg(test)]
mod tests;
