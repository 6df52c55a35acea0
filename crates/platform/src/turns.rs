//! Turns of the runs of an agent whose definition limits how many there are at once.

use crate::source::Name;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The turns of all agents of a process.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Name, Queue>>);

/// The runs of an agent.
#[derive(Debug, Default)]
struct Queue {
    executed: usize,
    waiting: VecDeque<Waiting>,
}

/// A run that waits. Its version has the limit.
#[derive(Debug)]
struct Waiting {
    limit: usize,
    begin: oneshot::Sender<Turn>,
}

/// The turn of a run. Dropping it lets the next one begin.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    name: Name,
}

impl Turns {
    /// Waits until fewer runs of the agent than the limit are executed, behind those that wait already.
    /// Dropping the future gives the place up.
    pub(crate) async fn take(self: &Arc<Self>, name: &Name, limit: usize) -> Option<Turn> {
        let begin = {
            let mut queues = self.lock();
            let queue = queues.entry(name.clone()).or_default();
            if queue.executed < limit && queue.waiting.iter().all(|run| run.begin.is_closed()) {
                queue.executed += 1;
                return Some(Turn { turns: Arc::clone(self), name: name.clone() });
            }
            let (begin, begins) = oneshot::channel();
            queue.waiting.push_back(Waiting { limit, begin });
            begins
        };
        begin.await.ok()
    }

    /// Ends the turn of a run, and begins those that have room now.
    fn end(self: &Arc<Self>, name: &Name) {
        let mut begun = Vec::new();
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(name) else { return };
        queue.executed -= 1;
        queue.waiting.retain(|run| !run.begin.is_closed());
        while queue.waiting.front().is_some_and(|run| queue.executed < run.limit) {
            let Some(next) = queue.waiting.pop_front() else { break };
            queue.executed += 1;
            begun.push(next.begin);
        }
        if queue.executed == 0 && queue.waiting.is_empty() {
            queues.remove(name);
        }
        drop(queues);
        // A run that was dropped meanwhile drops its turn, which ends it again: not under the lock.
        for begin in begun {
            drop(begin.send(Turn { turns: Arc::clone(self), name: name.clone() }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let turns = Arc::clone(&self.turns);
        turns.end(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn name(slug: &str) -> Name {
        (None, slug.to_owned())
    }

    #[test]
    fn runs_begin_in_order_and_those_that_gave_up_are_passed_over() {
        let turns = Arc::new(Turns::default());
        let golf = name("golf");
        let now = |limit| turns.take(&golf, limit).now_or_never().flatten();
        let first = now(2).expect("has room");
        let second = now(2).expect("has room");
        let mut third = Box::pin(turns.take(&golf, 2));
        let mut fourth = Box::pin(turns.take(&golf, 2));
        let mut fifth = Box::pin(turns.take(&golf, 2));
        for waiting in [&mut third, &mut fourth, &mut fifth] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let other = turns.take(&name("other"), 1).now_or_never().flatten();
        assert!(other.is_some(), "another agent has its own turns");
        drop(third);
        drop(first);
        assert!(fifth.as_mut().now_or_never().is_none(), "the fourth is before it");
        let fourth = fourth.as_mut().now_or_never().flatten().expect("begins");
        // A turn that was given and never taken is passed on.
        drop(second);
        drop(fifth);
        drop(fourth);
        assert!(now(1).is_some());
        drop(other);
        assert!(turns.lock().is_empty());
    }
}
