//! In-memory newest checkpoints of threads that ran here recently: the next run of a thread need
//! not read all of it again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_engine::Plan;
use weftwork_engine::pregel::Machine;
use weftwork_graph::run_loop::WriteHint;
use weftwork_types::{CheckpointId, OrgId};

/// Maximum number of cached threads.
const THREADS_MAX: usize = 64;

type Key = (OrgId, Arc<str>);

/// Newest checkpoints of threads, the most recently used last. A row is never changed, so a
/// checkpoint with the same id is the same; only the store determines if it is the newest.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Threads>);

#[derive(Debug, Default)]
struct Threads {
    known: BTreeMap<Key, (CheckpointId, Machine, WriteHint)>,
    order: VecDeque<Key>,
}

impl Recent {
    pub(super) fn insert(&self, key: Key, id: CheckpointId, machine: Machine, hint: WriteHint) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.touch(&key);
        threads.known.insert(key, (id, machine, hint));
        if threads.order.len() > THREADS_MAX
            && let Some(oldest) = threads.order.pop_front()
        {
            threads.known.remove(&oldest);
        }
    }

    /// Returns the checkpoint if it is cached for the same build of the graph.
    pub(super) fn get(
        &self,
        key: &Key,
        id: CheckpointId,
        plan: &Arc<Plan>,
    ) -> Option<(Machine, WriteHint)> {
        let threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, machine, hint) = threads.known.get(key)?;
        let same = *known == id && Arc::ptr_eq(machine.plan(), plan);
        same.then(|| (machine.clone(), hint.clone()))
    }
}

impl Threads {
    fn touch(&mut self, key: &Key) {
        // The last thread is usually the one that runs.
        if self.order.back() == Some(key) {
            return;
        }
        self.order.retain(|known| known != key);
        self.order.push_back(key.clone());
    }
}
