//! A thread as one decision sees it.

use std::sync::Arc;
use tokio::sync::OnceCell;
use weftwork_graph::RuntimeError;
use weftwork_store::{
    InterruptRow, RunRow, Store, StoreError, ThreadRow, by_execution, invariants,
};
use weftwork_types::{CheckpointId, Principal, ThreadId};

/// The row, the questions and the runs of a thread, each read from the store once and when it is
/// needed first.
///
/// A request is decided by one snapshot, so that its checks agree with each other. What may change
/// meanwhile is checked again by the store, in the transaction that creates the run. Under a claim only
/// the claimed run changes a thread, so a snapshot holds until that run commits.
#[derive(Debug)]
pub(crate) struct ThreadSnapshot {
    store: Arc<dyn Store>,
    who: Principal,
    id: ThreadId,
    row: OnceCell<Option<ThreadRow>>,
    questions: OnceCell<Vec<InterruptRow>>,
    runs: OnceCell<Vec<RunRow>>,
    last_ended: OnceCell<Option<RunRow>>,
}

impl ThreadSnapshot {
    pub(crate) fn new(store: &Arc<dyn Store>, who: &Principal, id: &ThreadId) -> Self {
        Self {
            store: Arc::clone(store),
            who: who.clone(),
            id: id.clone(),
            row: OnceCell::new(),
            questions: OnceCell::new(),
            runs: OnceCell::new(),
            last_ended: OnceCell::new(),
        }
    }

    /// Returns the row of the thread; `None` if the thread does not exist.
    pub(crate) async fn row(&self) -> Result<Option<&ThreadRow>, StoreError> {
        let read = || async {
            match self.store.thread(&self.who, &self.id).await {
                Err(StoreError::NotFound { .. }) => Ok(None),
                row => row.map(Some),
            }
        };
        Ok(self.row.get_or_try_init(read).await?.as_ref())
    }

    /// Returns the row of a thread that exists.
    pub(crate) async fn existing_row(&self) -> Result<&ThreadRow, StoreError> {
        self.row().await?.ok_or_else(|| invariants::missing("thread", &self.id))
    }

    /// Returns the newest checkpoint of a thread that exists.
    pub(crate) async fn head(&self) -> Result<Option<CheckpointId>, StoreError> {
        Ok(self.existing_row().await?.head)
    }

    /// Returns `true` if the thread has no checkpoint.
    pub(crate) async fn is_new(&self) -> Result<bool, RuntimeError> {
        Ok(self.head().await?.is_none())
    }

    /// Returns all questions of the thread, with their answers.
    pub(crate) async fn questions(&self) -> Result<&[InterruptRow], StoreError> {
        let read = || self.store.interrupts(&self.who, &self.id);
        Ok(self.questions.get_or_try_init(read).await?)
    }

    /// Returns the runs of the thread, in the order of their execution.
    ///
    /// The questions are read before them, so that each question has its run here although another
    /// answer may make a run meanwhile.
    pub(crate) async fn runs(&self) -> Result<&[RunRow], StoreError> {
        let read = || async {
            self.questions().await?;
            Ok::<_, StoreError>(by_execution(self.store.runs(&self.who, &self.id).await?))
        };
        Ok(self.runs.get_or_try_init(read).await?)
    }

    /// Returns the run of the thread that ended last.
    pub(crate) async fn last_ended(&self) -> Result<Option<&RunRow>, StoreError> {
        let read = || self.store.last_ended(&self.who, &self.id);
        Ok(self.last_ended.get_or_try_init(read).await?.as_ref())
    }
}
