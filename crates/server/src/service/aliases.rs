//! Threads under the names that clients have for them.
//!
//! The id of a thread is the text that it was created with. A client that accepts only UUIDs may use
//! the UUID of that text instead, see [`ThreadId::uuid`]. It does not lead back to the text, so that
//! the server keeps an index of the threads that it has seen.

use super::Service;
use crate::error::{ApiError, Result};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;
use weftwork_store::thread::is_of_other;
use weftwork_store::{SearchFrom, StoreError, ThreadOrder, ThreadQuery};
use weftwork_types::{OrgId, ThreadId, Timestamp};

/// Time by which clocks of processes that create threads may differ.
const SKEW: Duration = Duration::from_secs(600);

/// The threads of each organisation by their UUIDs. Threads whose ids are UUIDs are not among them.
pub(super) type Aliases = BTreeMap<OrgId, AliasIndex>;

/// The threads of an organisation up to a time.
#[derive(Debug, Default)]
pub(super) struct AliasIndex {
    threads: BTreeMap<Uuid, ThreadId>,
    /// Creation time of the newest thread that was read.
    newest: Option<Timestamp>,
}

impl Service {
    /// Returns the id of the thread that a client names by its id, by another spelling of an id that
    /// is a UUID, or by its UUID. A name of no thread is the id of a new one.
    ///
    /// # Errors
    /// Status 422 for a text that cannot be an id; 404 for the conversation of another subject.
    pub(crate) async fn thread_id(&self, name: &str) -> Result<ThreadId> {
        let id = self.named_thread(name).await?;
        // Only conversations have ids of version 8, which are derived.
        let is_derived = Uuid::try_parse(name).is_ok_and(|uuid| uuid.get_version_num() == 8);
        if is_derived {
            match self.store().thread(self.who(), &id).await {
                Ok(row) if is_of_other(self.who(), &row.metadata) => {
                    return Err(ApiError::thread_missing(name));
                }
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(id)
    }

    async fn named_thread(&self, name: &str) -> Result<ThreadId> {
        let id = ThreadId::new(name)?;
        let Ok(uuid) = Uuid::try_parse(name) else { return Ok(id) };
        let plain = ThreadId::from_uuid(uuid);
        // Only version 5 is made from other ids. Most UUIDs need no read.
        let may_be_alias = uuid.get_version_num() == 5;
        if id == plain && !may_be_alias || self.thread_exists(&id).await? {
            return Ok(id);
        }
        if id != plain && self.thread_exists(&plain).await? {
            return Ok(plain);
        }
        let aliased = if may_be_alias { self.find_by_alias(uuid).await? } else { None };
        Ok(aliased.unwrap_or(id))
    }

    /// Returns the ids of several threads.
    ///
    /// # Errors
    /// As [`thread_id`](Self::thread_id).
    pub(crate) async fn thread_ids(&self, names: &[String]) -> Result<Vec<ThreadId>> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            ids.push(self.thread_id(name).await?);
        }
        Ok(ids)
    }

    async fn thread_exists(&self, id: &ThreadId) -> Result<bool, StoreError> {
        match self.store().thread(self.who(), id).await {
            Err(StoreError::NotFound { .. }) => Ok(false),
            row => row.map(|_| true),
        }
    }

    /// Returns the thread that has a UUID besides its id. Threads that were created since the last
    /// call are read first.
    async fn find_by_alias(&self, uuid: Uuid) -> Result<Option<ThreadId>, StoreError> {
        let org = &self.who().org;
        let mut all = self.state.aliases.lock().await;
        let index = all.entry(org.clone()).or_default();
        if let Some(known) = index.threads.get(&uuid) {
            return Ok(Some(known.clone()));
        }
        let read_before = index.newest;
        let is_read = |at: Timestamp| read_before.is_some_and(|newest| at.plus(SKEW) < newest);
        // Newest first.
        let mut query =
            ThreadQuery { from: SearchFrom::Start(ThreadOrder::default()), ..Default::default() };
        loop {
            let page = self.store().search_threads(self.who(), query.clone()).await?;
            let rows = page.threads.into_iter().map(|found| found.row);
            let mut reached_known = false;
            for row in rows {
                reached_known |= is_read(row.created_at);
                index.newest = index.newest.max(Some(row.created_at));
                if Uuid::try_parse(row.id.as_str()).is_err() {
                    index.threads.insert(row.id.uuid(org), row.id);
                }
            }
            match page.next {
                Some(next) if !reached_known => query.from = SearchFrom::After(next),
                _ => return Ok(index.threads.get(&uuid).cloned()),
            }
        }
    }
}
