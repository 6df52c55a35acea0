//! The journal of a hosted run: calls are recorded with the commits of the run.

use super::lineage::Lineage;
use super::log::{CallLog, Ticket};
use super::made_elsewhere::ReadElsewhere;
use super::past::PastCalls;
use super::remote_threads::RemoteThreadIds;
use crate::patience::Patience;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{CallBook, CallHistory, MadeElsewhere, Origin, ReuseOrigins};
use weftwork_store::{Claim, Store, StoreError};
use weftwork_types::code::Fault;
use weftwork_types::port::{
    Admission, Admitted, CallKey, CallRecord, Clock, NewArtifact, RemoteUse,
};
use weftwork_types::{BoxFuture, CheckpointId, Principal};

/// Data that the journals of all tasks of a hosted run share.
#[derive(Debug)]
pub(crate) struct RunJournal {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) log: Arc<CallLog>,
    /// Number of processes that died with the run since its last progress.
    pub(crate) lost: u32,
    /// Source of the branches to search for calls that are not recorded on a branch.
    pub(crate) lineage: Option<Lineage>,
    /// Calls that are recorded under the keys of other positions.
    pub(crate) elsewhere: ReadElsewhere,
    /// Calls of the run that policies refer to.
    pub(crate) past: PastCalls,
    /// Threads on other servers that belong to the thread.
    pub(crate) remote_threads: RemoteThreadIds,
}

/// Call records of a task of a hosted run.
#[derive(Debug)]
pub(crate) struct RunBook {
    pub(crate) journal: Arc<RunJournal>,
    /// Checkpoint from which the run continued: calls of its tasks are recorded after it. `None` if
    /// checkpoints are stored later than the calls made on top of them.
    pub(crate) since: Option<CheckpointId>,
}

impl CallBook for RunBook {
    fn find(&self, key: CallKey) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        Box::pin(async move {
            // A record that waits for its commit is newer than the one in the store.
            match self.journal.log.find(key) {
                Some(waiting) => Ok(Some(waiting)),
                None => self.journal.read(key, self.since).await,
            }
        })
    }

    fn note(&self, call: Arc<CallRecord>) {
        self.journal.log.put(call);
    }

    fn record(&self, call: Arc<CallRecord>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            // The task waits for a commit of the writer and starts none: if it is not polled, it
            // holds no lock that commits need.
            let ticket = self.journal.log.put(call);
            self.journal.on_disk(ticket).await.map_err(|error| error.fault())
        })
    }

    fn history(&self) -> &dyn CallHistory {
        &*self.journal
    }
}

impl CallHistory for RunJournal {
    fn lost(&self) -> u32 {
        self.lost
    }

    fn reuses_origins(&self) -> ReuseOrigins {
        self.lineage.as_ref().map_or(ReuseOrigins::Nothing, |lineage| lineage.reuses)
    }

    fn origins(&self, branch: CheckpointId) -> BoxFuture<'_, Result<Arc<[Origin]>, Fault>> {
        Box::pin(async move {
            let Some(origins) = &self.lineage else { return Ok(Arc::from([])) };
            origins.of(branch).await.map_err(|error| RuntimeError::from(error).fault())
        })
    }

    fn find_on_thread(
        &self,
        key: CallKey,
    ) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        // Without the base of the run: the call may be older than the checkpoint at which it began.
        Box::pin(self.read(key, None))
    }

    fn made_elsewhere(&self) -> BoxFuture<'_, Result<Arc<MadeElsewhere>, Fault>> {
        Box::pin(async move { self.elsewhere.calls().await.map_err(|error| error.fault()) })
    }

    fn admit<'a>(
        &'a self,
        key: CallKey,
        call: Admission<'a>,
    ) -> BoxFuture<'a, Result<Admitted, Fault>> {
        Box::pin(async move {
            let admitted = self.past.admit(key, call).await;
            admitted.map_err(|error| error.fault())
        })
    }

    fn succeeded(&self, key: CallKey) {
        self.past.succeeded(key);
    }

    fn store_artifact(&self, artifact: NewArtifact) -> Option<String> {
        self.past.store_artifact(artifact)
    }

    fn remote_thread(&self, of: RemoteUse) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        Box::pin(async move {
            let id = self.remote_threads.id_of(of).await;
            id.map(Some).map_err(|error| error.fault())
        })
    }
}

impl RunJournal {
    /// Reads a call from the store; a temporarily unreachable store pauses the call.
    async fn read(
        &self,
        key: CallKey,
        since: Option<CheckpointId>,
    ) -> Result<Option<Arc<CallRecord>>, Fault> {
        let mut patience = Patience::new();
        let who = &self.who;
        let thread = &self.claim.at.thread;
        loop {
            let found = match since {
                Some(since) => self.store.call_since(who, thread, key, since).await,
                None => self.store.call(who, thread, key).await,
            };
            match found {
                Err(error) => {
                    let waited = patience.after(error, self.clock.as_ref(), &self.claim.at, None);
                    waited.await.map_err(|error| error.fault())?;
                }
                Ok(found) => return Ok(found.map(Arc::new)),
            }
        }
    }

    async fn on_disk(&self, ticket: Ticket) -> Result<(), StoreError> {
        if self.log.on_disk(ticket).await {
            return Ok(());
        }
        // No commit follows any more. A call whose intent is not on disk must not be made: after a
        // crash nobody would know of it.
        let run = self.claim.at.run.to_string();
        let fence = self.claim.fence;
        Err(StoreError::Fenced { run, newest: fence, ours: fence })
    }
}
