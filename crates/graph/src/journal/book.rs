//! Where calls come on record.

use super::RunJournal;
use crate::exec::Keeper;
use crate::hosted::{Origins, Patience, Ticket};
use std::sync::Arc;
use weftwork_store::StoreError;
use weftwork_types::CheckpointId;
use weftwork_types::code::Fault;
use weftwork_types::port::{CallKey, CallRecord, Clock};
use weftwork_types::tool::Effect;

/// Where the calls of a task come on record.
#[derive(Debug)]
pub(crate) enum Book {
    /// With the commits of a hosted run. The checkpoint is that on which the run went on, unless
    /// its checkpoints are stored later than what was called on top of them: calls of the task are
    /// not on record before it.
    Run(Arc<RunJournal>, Option<CheckpointId>),
    /// With what becomes of a task, where a run of this process keeps its checkpoints.
    Task(Keeper),
}

impl Book {
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        match self {
            Self::Run(run, _) => &run.clock,
            Self::Task(keeper) => keeper.clock(),
        }
    }

    /// How many processes are known to have died with the run since it last got further.
    pub(super) fn lost(&self) -> u32 {
        match self {
            Self::Run(run, _) => run.lost,
            Self::Task(_) => 0,
        }
    }

    /// Where to look for calls that are not on record on a branch.
    pub(super) fn origins(&self) -> Option<&Origins> {
        match self {
            Self::Run(run, _) => run.origins.as_ref(),
            Self::Task(_) => None,
        }
    }

    /// What is on record of a call of the task.
    pub(super) async fn find(&self, key: CallKey) -> Result<Option<Arc<CallRecord>>, Fault> {
        match self {
            Self::Run(run, since) => match run.log.find(key) {
                Some(waiting) => Ok(Some(waiting)),
                None => self.read(key, *since).await,
            },
            Self::Task(keeper) => Ok(keeper.find(key)),
        }
    }

    /// Looks into the store, from a checkpoint on or through all of the thread.
    pub(super) async fn read(
        &self,
        key: CallKey,
        since: Option<CheckpointId>,
    ) -> Result<Option<Arc<CallRecord>>, Fault> {
        let Self::Run(run, _) = self else { return Ok(None) };
        let found = run.read(key, since).await.map_err(|error| error.fault())?;
        Ok(found.map(Arc::new))
    }

    /// Lets the next commit take a call along.
    pub(super) fn note(&self, call: Arc<CallRecord>) {
        match self {
            Self::Run(run, _) => drop(run.log.put(call)),
            Self::Task(keeper) => keeper.put(call),
        }
    }

    /// Lets the next commit take a call along; waits for it when the call changes something.
    pub(super) async fn record(&self, call: Arc<CallRecord>) -> Result<(), Fault> {
        if call.effect == Effect::ReadOnly {
            self.note(call);
            return Ok(());
        }
        match self {
            Self::Task(keeper) => keeper.keep(call).await.map_err(|error| error.fault()),
            Self::Run(run, _) => {
                let ticket = run.log.put(call);
                run.on_disk(ticket).await.map_err(|error| error.fault())
            }
        }
    }
}

impl RunJournal {
    /// Looks into the store; one that is out of reach for now pauses the call.
    async fn read(
        &self,
        key: CallKey,
        since: Option<CheckpointId>,
    ) -> Result<Option<CallRecord>, StoreError> {
        let mut patience = Patience::new();
        let (who, thread) = (&self.who, &self.claim.at.thread);
        loop {
            let found = match since {
                Some(since) => self.store.call_since(who, thread, key, since).await,
                None => self.store.call(who, thread, key).await,
            };
            match found {
                Err(error) => {
                    patience.after(error, self.clock.as_ref(), &self.claim.at, None).await?;
                }
                found => return found,
            }
        }
    }

    async fn on_disk(&self, ticket: Ticket) -> Result<(), StoreError> {
        if self.log.on_disk(ticket).await {
            return Ok(());
        }
        let (run, fence) = (self.claim.at.run.to_string(), self.claim.fence);
        Err(StoreError::Fenced { run, newest: fence, ours: fence })
    }
}
