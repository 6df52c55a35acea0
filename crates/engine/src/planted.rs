//! Bugs planted on purpose, to see that the simulation of graphs finds them.
//!
//! With the feature `planted-bugs`, which only builds with debug assertions have, a test plants one
//! of them for its thread, or for a process by the variable `WEFT_TEST_BUG`. Without the feature there
//! are none, and the checks for them cost nothing.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("the feature `planted-bugs` is for tests: a release must not have it");

/// A bug that other runtimes have shipped, or that we had.
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
    /// A stop holds again when the run goes on.
    StopsRearm,
    /// A checkpoint names the nodes that have just finished.
    NamesFinished,
    /// Finished tasks run again when the run resumes.
    ForgetsFinished,
    /// Results of finished tasks in an open superstep are not stored.
    KeepsNothing,
    /// A run that is watched keeps no checkpoints.
    StreamsKeepNothing,
    /// A checkpoint changes when the next one is kept.
    Aliased,
    /// A graph within starts over when the run goes on.
    StartsOverWithin,
    /// A graph that keeps its own state drops its input when the run around it goes on.
    DropsOwnInput,
    /// An error handler that finished runs again.
    HandlersRerun,
    /// A question waits on though it was answered.
    StaleQuestions,
    /// Calls that tasks made in an open superstep are made again when the run resumes.
    ForgetsCalls,
    /// A hosted run records no calls.
    RecordsNoCalls,
}

#[cfg(feature = "planted-bugs")]
pub use garden::{by_completion, ended, has, plant};
#[cfg(not(feature = "planted-bugs"))]
pub use nothing::{by_completion, ended, has};

#[cfg(not(feature = "planted-bugs"))]
mod nothing {
    use super::Bug;

    /// Returns `true` if a bug is planted.
    #[must_use]
    #[inline(always)]
    pub const fn has(_bug: Bug) -> bool {
        false
    }

    /// A task of a superstep ended, by its place.
    #[inline(always)]
    pub const fn ended(_index: usize) {}

    /// Brings the tasks of a superstep in the order in which they ended, with that bug.
    #[inline(always)]
    pub const fn by_completion<T>(_tasks: &mut [T]) {}
}

#[cfg(feature = "planted-bugs")]
mod garden {
    use super::Bug;
    use std::cell::{Cell, RefCell};
    use std::sync::LazyLock;

    /// Name of the bug of this process.
    const VARIABLE: &str = "WEFT_TEST_BUG";

    static OF_PROCESS: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static ENDED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns `true` if a bug is planted in this thread or this process.
    #[must_use]
    pub fn has(bug: Bug) -> bool {
        let of_process = || OF_PROCESS.as_ref().is_some_and(|name| *name == format!("{bug:?}"));
        PLANTED.get() == Some(bug) || of_process()
    }

    /// Plants a bug in this thread, in place of the one before.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        ENDED.take();
    }

    /// A task of a superstep ended, by its place.
    pub fn ended(index: usize) {
        if has(Bug::CompletionOrder) {
            ENDED.with_borrow_mut(|ended| ended.push(index));
        }
    }

    /// Brings the tasks of a superstep in the order in which they ended, with that bug.
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
