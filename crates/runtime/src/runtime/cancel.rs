//! Cancellation of runs, with or without rollback of their work.

use super::admission::Admit;
use super::core::Runtime;
use super::started::StartedRun;
use crate::hosted::Requester;
use weftwork_graph::RuntimeError;
use weftwork_store::{RunRow, StoreError, invariants};
use weftwork_types::Principal;
use weftwork_types::run::{
    CancelAction, Multitask, RunInput, RunOptions, RunRef, RunRequest, RunStatus,
};

impl Runtime {
    /// Cancels a run. With [`CancelAction::Rollback`], returns the run that takes the thread back to
    /// its state before the cancelled one, on a branch of its own; it waits until the cancelled run
    /// has ended. A run that has ended can be rolled back too. The runs that were accepted after it
    /// are cancelled and rolled back with it. A queued run is only cancelled: it has done nothing.
    ///
    /// Repeated rollbacks of one run have the effect of one.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist, or has ended and is not
    /// to be rolled back; for a rollback, [`RuntimeError::UnknownGraph`] and
    /// [`RuntimeError::Stopping`].
    pub async fn cancel_run(
        &self,
        who: &Principal,
        run: &RunRef,
        action: CancelAction,
    ) -> Result<Option<StartedRun>, RuntimeError> {
        // A run that begins later has done nothing.
        if action == CancelAction::Interrupt || self.is_delayed(who, run).await? {
            self.cancel_by_port(who, run).await?;
            self.end_delayed(who, run).await?;
            // An activity that is cancelled ends now, also while others wait behind a question.
            if self.store().run(who, run).await?.waits_as_activity() {
                self.attend(who, &run.thread);
            }
            return Ok(None);
        }
        if self.store().run(who, run).await?.status == RunStatus::Queued {
            match self.cancel_by_port(who, run).await {
                Ok(()) | Err(RuntimeError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => return Err(error),
            }
            // Its turn may have come before the request.
            let row = self.store().run(who, run).await?;
            if row.fence == 0 {
                return Ok(None);
            }
        }
        let runs = self.store().runs(who, &run.thread).await?;
        let found = runs.iter().position(|row| row.new.at == *run);
        let found = found.ok_or_else(|| invariants::missing("run", &run.run))?;
        self.roll_back(who, &runs[..=found]).await.map(Some)
    }

    /// Ends a cancelled run that would begin later.
    async fn end_delayed(&self, who: &Principal, run: &RunRef) -> Result<(), RuntimeError> {
        if !self.is_delayed(who, run).await? {
            return Ok(());
        }
        match self.take(who, run, Requester::Client).await {
            // It began meanwhile.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(())
            }
            taken => taken.map(drop),
        }
    }

    /// Returns `true` if a run waits for its time.
    async fn is_delayed(&self, who: &Principal, run: &RunRef) -> Result<bool, RuntimeError> {
        let row = self.store().run(who, run).await?;
        let begins_later = row.new.options.begins_later(self.clock().now()).is_some();
        let waits = row.fence == 0 && !row.status.is_final() && !row.waits_as_activity();
        Ok(waits && begins_later)
    }

    /// Starts a run that rolls back the last of these runs of a thread, and all later ones.
    async fn roll_back(
        &self,
        who: &Principal,
        runs: &[RunRow],
    ) -> Result<StartedRun, RuntimeError> {
        let (last, earlier) = runs.split_last().ok_or(RuntimeError::Stopping)?;
        // The state is that of the graph that ran before.
        let ran = |row: &&RunRow| row.fence > 0 && row.rolled_back_by.is_none();
        let before = earlier.iter().rev().find(ran).unwrap_or(last);
        let at = &last.new.at;
        let options = RunOptions {
            multitask: Multitask::Rollback,
            roll_back: Some(at.run.clone()),
            idempotency_key: Some(format!("rollback:{}", at.run)),
            metadata: before.new.options.metadata.clone(),
            ..RunOptions::default()
        };
        let writes = serde_json::Value::Null;
        let request = RunRequest {
            principal: who.clone(),
            caller: last.new.caller.clone(),
            graph: before.new.graph.clone(),
            thread: at.thread.clone(),
            input: RunInput::Update { writes, as_node: Some("__copy__".to_owned()) },
            options,
        };
        let graph = self.graph(who, &request.graph)?;
        let handle = self.accept(request, Admit::Run(None)).await?.into_handle();
        Ok(StartedRun::new(self.clone(), who.clone(), graph, handle))
    }
}
