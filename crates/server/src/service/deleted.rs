//! Runs that clients deleted, which this API does not return any more.

use super::Service;
use crate::error::{ApiError, Result};
use serde_json::json;
use std::collections::BTreeSet;
use weftwork_runtime::deleted_runs::{self, mark_of_run, marks_namespace};
use weftwork_store::{Prefix, PutOptions, Ttl};
use weftwork_types::ThreadId;
use weftwork_types::run::RunRef;

impl Service {
    /// Deletes a run that has ended.
    pub(crate) async fn delete_run(&self, run: &RunRef) -> Result<()> {
        if !self.run_row(run).await?.status.is_final() {
            return Err(ApiError::conflict(format!(
                "run {} has not ended; cancel it before it is deleted",
                run.run
            )));
        }
        let who = self.own()?;
        let at = mark_of_run(run)?;
        Ok(self.items().put(&who, &at, json!({}), PutOptions::default()).await?)
    }

    pub(super) async fn is_deleted(&self, run: &RunRef) -> Result<bool> {
        Ok(self.items().get(&self.own()?, &mark_of_run(run)?, Ttl::Keep).await?.is_some())
    }

    /// Returns the ids of the deleted runs of a thread.
    pub(super) async fn deleted_runs(&self, thread: &ThreadId) -> Result<BTreeSet<String>> {
        Ok(deleted_runs::deleted_runs(self.items(), &self.own()?, thread).await?)
    }

    /// Removes the marks of a thread that was deleted.
    pub(super) async fn forget_deleted(&self, thread: &ThreadId) -> Result<()> {
        let who = self.own()?;
        let within = Prefix::from(&marks_namespace(thread)?);
        if !self.deleted_runs(thread).await?.is_empty() {
            self.items().clear(&who, &within).await?;
        }
        Ok(())
    }
}
