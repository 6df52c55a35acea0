//! Threads of a runtime, of any graph.

use crate::runtime::Runtime;
use weftwork_graph::RuntimeError;
use weftwork_store::approval::{self, ApprovalPage, ApprovalQuery, WaitingApproval};
use weftwork_store::{
    IfExists, Metadata, NewThread, StoreError, ThreadPage, ThreadQuery, ThreadRow,
};
use weftwork_types::run::{CancelAction, RunRef};
use weftwork_types::{Principal, ThreadId};

/// The threads of a principal, of all graphs. Runs start at [`Runtime::thread`].
#[derive(Debug, Clone)]
pub struct Threads {
    runtime: Runtime,
    who: Principal,
}

impl Runtime {
    /// Returns the threads of the local principal.
    ///
    /// ```
    /// use serde_json::{Map, json};
    /// use weftwork_runtime::Runtime;
    /// use weftwork_store::ThreadQuery;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), weftwork_graph::RuntimeError> {
    /// let runtime = Runtime::in_memory().open().await?;
    /// let metadata = Map::from_iter([("user".to_owned(), json!("ada"))]);
    /// let made = runtime.threads().create(metadata.clone()).await?;
    /// let query = ThreadQuery { metadata, ..ThreadQuery::default() };
    /// let page = runtime.threads().search(query).await?;
    /// assert_eq!(page.threads[0].row.id, made.id);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn threads(&self) -> Threads {
        Threads { runtime: self.clone(), who: Principal::local() }
    }
}

impl Threads {
    /// The threads of another principal.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.who = principal;
        self
    }

    /// Creates a thread with a new id, without a graph and without a run.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `Conflict` if the metadata exceeds a limit.
    pub async fn create(&self, metadata: Metadata) -> Result<ThreadRow, RuntimeError> {
        let clock = self.runtime.clock();
        let id = ThreadId::from_uuid(uuid::Uuid::from_u128(clock.unique()));
        let created_at = clock.now();
        let if_exists = IfExists::Refuse;
        let new = NewThread { id, graph: None, metadata, created_at, if_exists };
        Ok(self.runtime.store().create_thread(&self.who, new).await?)
    }

    /// Returns a thread.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if it does not exist.
    pub async fn get(&self, id: &ThreadId) -> Result<ThreadRow, RuntimeError> {
        Ok(self.runtime.store().thread(&self.who, id).await?)
    }

    /// Finds threads by ids, metadata and status, in pages.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn search(&self, query: ThreadQuery) -> Result<ThreadPage, RuntimeError> {
        Ok(self.runtime.store().search_threads(&self.who, query).await?)
    }

    /// Returns a page of the record of approvals: decisions about calls, and answers that were
    /// refused.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn approvals(&self, query: ApprovalQuery) -> Result<ApprovalPage, RuntimeError> {
        Ok(approval::approvals(self.runtime.store().as_ref(), &self.who, query).await?)
    }

    /// Returns calls that wait for a decision, of one thread or of all, at most `limit`.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist.
    pub async fn waiting_approvals(
        &self,
        thread: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<WaitingApproval>, RuntimeError> {
        let store = self.runtime.store().as_ref();
        Ok(approval::waiting(store, &self.who, thread, limit).await?)
    }

    /// Cancels the runs of a thread that have not ended, newest first, so that no run that is queued
    /// begins, and returns them. They end once their workers have seen the requests; a run without a
    /// worker ends when one claims it.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist.
    pub async fn cancel(&self, id: &ThreadId) -> Result<Vec<RunRef>, RuntimeError> {
        let runs = self.runtime.store().unfinished_runs(&self.who, id).await?;
        let mut cancelled = Vec::new();
        for run in runs.into_iter().rev() {
            let at = run.new.at;
            match self.runtime.cancel_run(&self.who, &at, CancelAction::Interrupt).await {
                Ok(_) => cancelled.push(at),
                // The run has ended meanwhile.
                Err(RuntimeError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(cancelled)
    }

    /// Deletes a thread with everything it owns. Its threads on other servers are deleted later.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if it does not exist, with `Busy` if a run of it has
    /// not ended.
    pub async fn delete(&self, id: &ThreadId) -> Result<(), RuntimeError> {
        self.runtime.delete_thread(&self.who, id).await
    }
}
