//! Injected faults, which show that the simulation of graphs finds bugs.
//!
//! With the feature `fault-injection`, which only builds with debug assertions can have, a test
//! injects a bug for its thread, or for a process by the variable `WEFT_TEST_BUG`. Without the
//! feature there are none, and the checks cost nothing.

#[cfg(all(feature = "fault-injection", not(debug_assertions)))]
compile_error!("the feature `fault-injection` is for tests: a release must not have it");

/// A bug that other runtimes or this one had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Writes apply in the order in which tasks end.
    CompletionOrder,
    /// A join fires when the first of its sources has finished.
    JoinPerBranch,
    /// A node runs once for each edge that leads to it.
    FanInPerBranch,
    /// Several sends to one node run only once.
    SendsMerged,
    /// A deferred node does not wait for the others.
    DeferredEarly,
    /// Values that should last one superstep are not cleared.
    EphemeralStays,
    /// A stop takes effect again when the run resumes.
    StopsRearm,
    /// A checkpoint names the nodes that have just finished.
    NamesFinished,
    /// Finished tasks run again when the run resumes.
    ForgetsFinished,
    /// Results of finished tasks in an open superstep are not stored.
    KeepsNothing,
    /// A run that is watched stores no checkpoints.
    StreamsKeepNothing,
    /// A checkpoint changes when the next one is stored.
    Aliased,
    /// A subgraph starts over when the run resumes.
    StartsOverWithin,
    /// A subgraph with its own state drops its input when the run around it resumes.
    DropsOwnInput,
    /// An error handler that finished runs again.
    HandlersRerun,
    /// A question stays open although it was answered.
    StaleQuestions,
    /// Calls that tasks made in an open superstep are made again when the run resumes.
    ForgetsCalls,
    /// A hosted run records no calls.
    RecordsNoCalls,
    /// A follower of a run that reconnects misses an event.
    MissesEvent,
}

#[cfg(not(feature = "fault-injection"))]
pub use disabled::{by_completion, ended, has};
#[cfg(feature = "fault-injection")]
pub use enabled::{by_completion, ended, has, inject};

#[cfg(not(feature = "fault-injection"))]
mod disabled {
    use super::Bug;

    /// Returns `true` if a bug is injected.
    #[must_use]
    #[inline(always)]
    pub const fn has(_bug: Bug) -> bool {
        false
    }

    /// Records the end of a task of a superstep, by its place.
    #[inline(always)]
    pub const fn ended(_index: usize) {}

    /// Sorts the tasks of a superstep by the order in which they ended, with that bug.
    #[inline(always)]
    pub const fn by_completion<T>(_tasks: &mut [T]) {}
}

#[cfg(feature = "fault-injection")]
mod enabled {
    use super::Bug;
    use std::cell::{Cell, RefCell};
    use std::sync::LazyLock;

    /// Name of the bug of this process.
    const VARIABLE: &str = "WEFT_TEST_BUG";

    static OF_PROCESS: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

    thread_local! {
        static INJECTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static ENDED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns `true` if a bug is injected in this thread or this process.
    #[must_use]
    pub fn has(bug: Bug) -> bool {
        let of_process = || OF_PROCESS.as_ref().is_some_and(|name| *name == format!("{bug:?}"));
        INJECTED.get() == Some(bug) || of_process()
    }

    /// Injects a bug in this thread, in place of the one before.
    pub fn inject(bug: Option<Bug>) {
        INJECTED.set(bug);
        ENDED.take();
    }

    /// Records the end of a task of a superstep, by its place.
    pub fn ended(index: usize) {
        if has(Bug::CompletionOrder) {
            ENDED.with_borrow_mut(|ended| ended.push(index));
        }
    }

    /// Sorts the tasks of a superstep by the order in which they ended, with that bug.
    pub fn by_completion<T: Clone>(tasks: &mut [T]) {
        if !has(Bug::CompletionOrder) {
            return;
        }
        let ended = ENDED.take();
        let mut order: Vec<(Option<usize>, T)> = tasks
            .iter()
            .enumerate()
            .map(|(index, task)| (ended.iter().rposition(|e| *e == index), task.clone()))
            .collect();
        order.sort_by_key(|(place, _)| *place);
        tasks.iter_mut().zip(order).for_each(|(task, (_, next))| *task = next);
    }
}
