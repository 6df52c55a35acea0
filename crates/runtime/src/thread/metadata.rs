//! Creation and metadata of a thread.

use super::Thread;
use weftwork_graph::RuntimeError;
use weftwork_store::{IfExists, Metadata, NewThread, ThreadRow};

impl Thread {
    /// Creates the thread without a run, with this graph and metadata. A thread that exists is
    /// returned unchanged, or refused. Threads need not be created: the first run does it.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `Conflict` if the thread exists and `if_exists` refuses it, or
    /// if the metadata exceeds a limit.
    pub async fn create(
        &self,
        metadata: Metadata,
        if_exists: IfExists,
    ) -> Result<ThreadRow, RuntimeError> {
        let id = self.id.clone();
        let graph = Some(self.graph.clone());
        let created_at = self.runtime.clock().now();
        let new = NewThread { id, graph, metadata, created_at, if_exists };
        Ok(self.runtime.store().create_thread(&self.who, new).await?)
    }

    /// Returns the metadata of the thread.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist.
    pub async fn metadata(&self) -> Result<Metadata, RuntimeError> {
        Ok(self.runtime.store().thread(&self.who, &self.id).await?.metadata)
    }

    /// Merges metadata into that of the thread, member by member, and returns the result.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist, with `Conflict` if the
    /// result exceeds a limit.
    pub async fn set_metadata(&self, metadata: Metadata) -> Result<Metadata, RuntimeError> {
        let now = self.runtime.clock().now();
        let store = self.runtime.store();
        Ok(store.update_metadata(&self.who, &self.id, metadata, now).await?.metadata)
    }
}
