//! Runs that clients deleted. Their rows stay with their thread, because their usage was paid for and
//! later runs continue from them; this API does not return them any more.

use super::Service;
use crate::error::{ApiError, Result};
use serde_json::json;
use std::collections::BTreeSet;
use weftwork_store::{ItemQuery, ItemRef, Namespace, Prefix, PutOptions, Ttl};
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
        let query = ItemQuery { limit: usize::MAX, ..ItemQuery::default() };
        let within = Prefix::from(&marks_namespace(thread)?);
        let found = self.items().search(&self.own()?, &within, &query).await?;
        Ok(found.into_iter().map(|item| item.key).collect())
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

/// Longest label of a thread, in bytes; that of a longer key is a hash of it.
const LABEL_BYTES_MAX: usize = 512;

fn marks_namespace(thread: &ThreadId) -> Result<Namespace> {
    // A label has no dot.
    let mut label = thread.to_key().replace('.', "=2E");
    if label.len() > LABEL_BYTES_MAX {
        // No key has this beginning.
        label = format!("=h{}", uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, label.as_bytes()));
    }
    Ok(Namespace::new(["deleted_runs".to_owned(), label])?)
}

fn mark_of_run(run: &RunRef) -> Result<ItemRef> {
    Ok(ItemRef::new(marks_namespace(&run.thread)?, run.run.as_str())?)
}

#[cfg(test)]
mod tests {
    use super::marks_namespace;
    use weftwork_types::ThreadId;

    #[test]
    fn every_thread_has_a_namespace_of_its_own() {
        let ids = ["t", "a.b", "a=2Eb"].map(str::to_owned);
        let long = ["月", "日", "\u{1f9f5}", "x", "."].map(|one| one.repeat(256));
        let all: Vec<_> = ids
            .iter()
            .chain(&long)
            .map(|id| marks_namespace(&ThreadId::new(id.clone()).expect("an id")).expect("fits"))
            .collect();
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{one:?}");
        }
    }
}
