//! Threads that wait for answers.

use crate::mailbox::is_terminated;
use crate::table::Result;
use crate::{InterruptRow, SearchFrom, Store, StoreError, ThreadQuery, ThreadRow, ThreadStatus};
use weftwork_types::run::RunStatus;
use weftwork_types::{Principal, ThreadId};

/// A thread with open questions.
#[derive(Debug, Clone, PartialEq)]
pub struct AskingThread {
    /// The thread.
    pub thread: ThreadRow,
    /// Its open questions.
    pub open: Vec<InterruptRow>,
}

/// Returns the threads that have open questions and of which no run is executed: those that wait, those
/// whose last run failed, then those of which a run is about to begin. A terminated instance takes no
/// answers and is left out, and so is a thread that is damaged.
///
/// # Errors
/// Only system errors.
pub async fn asking_threads(store: &dyn Store, who: &Principal) -> Result<Vec<AskingThread>> {
    let mut asking = Vec::new();
    // A node that failed leaves the questions of the nodes beside it open.
    for status in [ThreadStatus::Interrupted, ThreadStatus::Error, ThreadStatus::Busy] {
        let mut query = ThreadQuery { status: Some(status), ..ThreadQuery::default() };
        loop {
            let page = store.search_threads(who, query.clone()).await?;
            let found = page.threads.into_iter().map(|found| found.row);
            for thread in found.filter(|thread| !is_terminated(&thread.metadata)) {
                let mut open = match store.interrupts(who, &thread.id).await {
                    // The thread was deleted meanwhile, or is damaged, which takes none of the others.
                    Err(StoreError::NotFound { .. } | StoreError::Corrupt { .. }) => continue,
                    rows => rows?,
                };
                open.retain(InterruptRow::is_open);
                if !open.is_empty() && !has_begun(store, who, status, &thread.id).await? {
                    asking.push(AskingThread { thread, open });
                }
            }
            let Some(next) = page.next else { break };
            query.from = SearchFrom::After(next);
        }
    }
    Ok(asking)
}

/// Returns `true` if a run of a thread with this status was begun and has not ended. Answers come
/// before runs that are queued.
async fn has_begun(
    store: &dyn Store,
    who: &Principal,
    status: ThreadStatus,
    thread: &ThreadId,
) -> Result<bool> {
    if status != ThreadStatus::Busy {
        return Ok(false);
    }
    match store.unfinished_runs(who, thread).await {
        Err(StoreError::NotFound { .. } | StoreError::Corrupt { .. }) => Ok(true),
        runs => Ok(runs?.iter().any(|run| run.status != RunStatus::Queued)),
    }
}
