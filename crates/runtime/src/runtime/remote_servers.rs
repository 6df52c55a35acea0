//! Servers on which threads are deleted after their local threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use weftwork_store::remote::{forget_deletion, remote_deletions};
use weftwork_store::{Store, StoreError};
use weftwork_types::port::{Clock, RemoteAddress, RemoteThreadRecord, RemoteThreads};

/// Number of records read at once.
const PAGE: usize = 100;

/// Servers with threads that belong to local threads.
#[derive(Debug, Default)]
pub(super) struct RemoteServers {
    pub(super) all: Vec<Arc<dyn RemoteThreads>>,
    /// Wakes the task that passes deletions on.
    pub(super) deleted: Notify,
}

/// Result of one attempt to pass deletions on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteDeletions {
    /// Threads that do not exist on their servers any more.
    pub deleted: usize,
    /// Threads whose deletion is attempted again later.
    pub left: usize,
}

/// Deletes threads on other servers whose local thread was deleted, once each. A deletion that fails
/// stays in the store, and so does one on a server that is not among `servers`.
///
/// # Errors
/// Errors of the store. Threads that were deleted before the error stay deleted.
pub async fn delete_remote_threads(
    store: &dyn Store,
    clock: &dyn Clock,
    servers: &[Arc<dyn RemoteThreads>],
) -> Result<RemoteDeletions, StoreError> {
    let mut result = RemoteDeletions::default();
    let mut unreachable = BTreeSet::new();
    let mut page = remote_deletions(store, None, PAGE).await?;
    while let Some(last) = page.last().cloned() {
        for deletion in page {
            let of = &deletion.of;
            let server = server_of(servers, &of.server);
            let server = server.filter(|server| !unreachable.contains(&server.server()));
            let Some(server) = server else {
                result.left += 1;
                continue;
            };
            match server.delete(&of.thread).await {
                Ok(()) => {
                    forget_deletion(store, deletion, clock.now()).await?;
                    result.deleted += 1;
                }
                Err(error) => {
                    let RemoteThreadRecord { server: RemoteAddress { name, .. }, thread } = of;
                    tracing::warn!(%error, thread, name, "a remote thread is deleted later");
                    result.left += 1;
                    // Its other threads wait for the next attempt. A refusal concerns one thread.
                    if error.retriable {
                        unreachable.insert(server.server());
                    }
                }
            }
        }
        page = remote_deletions(store, Some(&last), PAGE).await?;
    }
    Ok(result)
}

/// Returns the server of a record, preferably that of the same name: another one may have another key.
fn server_of<'a>(
    servers: &'a [Arc<dyn RemoteThreads>],
    of: &RemoteAddress,
) -> Option<&'a Arc<dyn RemoteThreads>> {
    let same_url = servers.iter().filter(|server| server.server().url == of.url);
    same_url.max_by_key(|server| server.server().name == of.name)
}
