//! A limit of the runs that a process executes at once, and the runs that wait for a slot.

use crate::hosted::AcceptedRun;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use weftwork_types::{OrgId, RunId};

/// Slots of a process, and the runs that wait for one.
#[derive(Debug)]
pub(super) struct Slots {
    slots_max: usize,
    /// Maximum number of waiting runs without a receiver of their events.
    waiting_max: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: BTreeMap<OrgId, VecDeque<AcceptedRun>>,
    ids: BTreeSet<RunId>,
    /// Organisation of the run that left the queue last.
    last: Option<OrgId>,
}

/// The runs of a process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Number of runs that are executed.
    pub executed: usize,
    /// Number of runs that wait for a slot.
    pub waiting: usize,
    /// Maximum number of runs that are executed at once; `None` without a limit.
    pub executed_max: Option<usize>,
}

/// The right to execute one run. Dropping it lets another run begin.
#[derive(Debug)]
pub(super) struct Slot(Arc<Slots>);

impl Slots {
    /// Creates the slots of a process.
    pub(super) fn new(slots_max: usize, waiting_max: usize) -> Arc<Self> {
        Arc::new(Self { slots_max, waiting_max, state: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a slot; `None` if none is free, or other runs wait for one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<Slot>> {
        let mut state = self.lock();
        if state.taken >= self.slots_max || !state.ids.is_empty() {
            return None;
        }
        state.taken += 1;
        Some(Arc::new(Slot(Arc::clone(self))))
    }

    /// Adds a run to the queue of its organisation. Beyond the limit of waiting runs it is left to
    /// the store, where recovery finds it.
    pub(super) fn wait(&self, run: AcceptedRun) {
        let mut state = self.lock();
        let full = state.ids.len() >= self.waiting_max && run.receiver.is_none();
        if full || !state.ids.insert(run.at.run.clone()) {
            return;
        }
        state.waiting.entry(run.who.org.clone()).or_default().push_back(run);
        // A slot may have become free meanwhile.
        self.changed.notify_one();
    }

    /// Takes a slot for the next waiting run: of the next organisation in turn, the oldest one.
    pub(super) fn next(self: &Arc<Self>) -> Option<(Arc<Slot>, AcceptedRun)> {
        let mut state = self.lock();
        if state.taken >= self.slots_max {
            return None;
        }
        let run = state.next()?;
        state.taken += 1;
        Some((Arc::new(Slot(Arc::clone(self))), run))
    }

    /// Returns the number of slots that are taken, and of runs that wait for one.
    pub(super) fn load(&self) -> Load {
        let state = self.lock();
        let executed_max = Some(self.slots_max).filter(|max| *max != usize::MAX);
        Load { executed: state.taken, waiting: state.ids.len(), executed_max }
    }

    /// Number of waiting runs.
    pub(super) fn waiting(&self) -> usize {
        self.lock().ids.len()
    }

    /// Returns `true` if the run waits for a slot here.
    pub(super) fn has(&self, run: &RunId) -> bool {
        self.lock().ids.contains(run)
    }

    /// Waits until a slot was freed or a run was added. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Ends a wait for changes.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<AcceptedRun> {
        let after = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.waiting.range((after, Bound::Unbounded));
        let org =
            later.next().or_else(|| self.waiting.iter().next()).map(|(org, _)| org.clone())?;
        let queue = self.waiting.get_mut(&org)?;
        let run = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&org);
        }
        self.last = Some(org);
        let run = run?;
        self.ids.remove(&run.at.run);
        Some(run)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.taken -= 1;
        if !state.ids.is_empty() {
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosted::Requester;
    use weftwork_graph::{CompiledGraph, Graph, START, State};
    use weftwork_types::run::RunRef;
    use weftwork_types::{Principal, ThreadId};

    /// A graph that no test runs.
    fn graph() -> CompiledGraph {
        #[derive(State)]
        struct Nothing {
            n: i64,
        }
        async fn rest(_: State<Nothing>) {}
        let graph = Graph::<Nothing>::new("rest").node("rest", rest).edge(START, "rest");
        graph.build().expect("a graph")
    }

    fn run(org: &str, run: &str) -> AcceptedRun {
        AcceptedRun {
            who: Principal::new(OrgId::new(org).expect("an id"), "ada"),
            at: RunRef {
                thread: ThreadId::new(run).expect("an id"),
                run: RunId::new(run).expect("an id"),
            },
            graph: graph(),
            requester: Requester::Recovery,
            receiver: None,
            made: None,
        }
    }

    #[test]
    fn organisations_take_turns_and_runs_of_one_stay_in_order() {
        let slots = Slots::new(1, 100);
        let first = slots.take().expect("a slot is free");
        for id in ["a1", "a2", "a3"] {
            slots.wait(run("a", id));
        }
        slots.wait(run("b", "b1"));
        slots.wait(run("c", "c1"));
        assert!(slots.next().is_none(), "no slot is free");
        drop(first);
        assert!(slots.take().is_none(), "others wait");
        let order: Vec<_> = std::iter::from_fn(|| slots.next())
            .map(|(_slot, run)| run.at.run.to_string())
            .collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "a3"]);
        assert!(slots.take().is_some());
    }

    #[test]
    fn a_run_waits_once_and_only_so_many_wait_here() {
        let slots = Slots::new(1, 2);
        let _first = slots.take();
        for id in ["a1", "a1", "a2", "a3"] {
            slots.wait(run("a", id));
        }
        assert_eq!(slots.waiting(), 2);
        assert!(slots.has(&RunId::new("a2").expect("an id")));
        assert!(!slots.has(&RunId::new("a3").expect("an id")));
    }
}
