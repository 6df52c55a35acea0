//! Injected bugs, which show that tests find bugs. This file and its callers exist only in the copy
//! of the tree that `scripts/bugs/run.py` makes.

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;

/// Variable with the name of the bug of this process.
const VARIABLE: &str = "WEFT_TEST_BUG";

static OF_PROCESS: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

thread_local! {
    static OF_THREAD: Cell<Option<&'static str>> = const { Cell::new(None) };
    static ENDED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Returns `true` if a bug is injected in this thread or this process.
#[must_use]
pub fn has(bug: &str) -> bool {
    OF_THREAD.get() == Some(bug) || OF_PROCESS.as_deref() == Some(bug)
}

/// Injects a bug in this thread, in place of the one before.
pub fn inject(bug: Option<&'static str>) {
    OF_THREAD.set(bug);
    ENDED.take();
}

/// Records the end of a task of a superstep, by its place.
pub fn record_end(index: usize) {
    if has("CompletionOrder") {
        ENDED.with_borrow_mut(|ended| ended.push(index));
    }
}

/// Sorts the tasks of a superstep by the order in which they ended.
pub fn sort_by_completion<T: Clone>(tasks: &mut [T]) {
    if !has("CompletionOrder") {
        return;
    }
    let ended = ENDED.take();
    let places = tasks.iter().enumerate();
    let mut order: Vec<(Option<usize>, T)> = places
        .map(|(index, task)| (ended.iter().rposition(|e| *e == index), task.clone()))
        .collect();
    order.sort_by_key(|(place, _)| *place);
    tasks.iter_mut().zip(order).for_each(|(task, (_, next))| *task = next);
}
