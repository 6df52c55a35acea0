//! The store and its options.

use crate::error::{Done, StoreLocation};
use crate::identity::Identity;
use crate::lock::Locks;
use crate::open;
use crate::open_stores::OpenStore;
use crate::reader::Readers;
use crate::schema;
use crate::table::claim_cache::ClaimCache;
use crate::table::workers;
use crate::writer::Writer;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_store::{Store, StoreError};
use weftwork_types::BoxFuture;

/// The kind of failure that a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Process kill and power loss: each commit waits for the disk. Concurrent commits share one
    /// wait.
    #[default]
    Full,
    /// Process kill. A power loss may lose the last commits, but never a part of a commit. The
    /// caller's thread does the work, which takes some tens of microseconds per commit.
    Normal,
}

/// Options for opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Kind of failure that a commit survives.
    pub durability: Durability,
    /// Maximum wait for locks of other processes, in milliseconds.
    pub busy_timeout_ms: u64,
    /// Maximum size of the file in bytes, without its log. With `None` only the disk limits it.
    pub size_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durability: Durability::Full, busy_timeout_ms: 5_000, size_bytes_max: None }
    }
}

/// A store in one SQLite file. Several processes may use the file at the same time.
///
/// # Cancel safety
/// Nothing happens before a future is first polled. After that its work continues even if the
/// future is dropped, and may be committed.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    location: StoreLocation,
    identity: Identity,
    locks: Arc<Locks>,
    // Dropped before the writer: the last connection to close removes the log.
    readers: Readers,
    writer: Writer,
    known: Arc<ClaimCache>,
    // Dropped after the connections.
    _open: OpenStore,
}

impl SqliteStore {
    /// Opens a store. Creates the file, readable by its owner only, and its folder if they do not
    /// exist. A file of an older format is migrated, if this program still reads it. Blocks.
    ///
    /// Dead workers are removed, so that their runs can be claimed immediately.
    ///
    /// # Errors
    /// Returns [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Locked`] after the
    /// busy timeout, [`StoreError::Older`], [`StoreError::Newer`], [`StoreError::Corrupt`] for a file that is damaged or
    /// not a database, or [`StoreError::Unavailable`] for a folder, or a database of another
    /// program.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let name = path.display().to_string().into();
        // The log and the other files beside a store are those of its file, not those of a link to it.
        let whole = std::fs::canonicalize(path);
        let path = whole.as_deref().unwrap_or(path);
        let location = StoreLocation { name, busy_timeout_ms: options.busy_timeout_ms };
        let open = OpenStore::new();
        let conn = open::writer(path, &location, options, open.is_only(), &schema::FORMATS)?;
        let identity = Identity::of(path, location.clone())?;
        let locks = Arc::new(Locks::new(path, location.clone()));
        workers::bury(&conn, &locks, &location)?;
        let writer = match options.durability {
            Durability::Full => Writer::thread(conn, location.clone())?,
            Durability::Normal => Writer::inline(conn, location.clone()),
        };
        let readers = Readers::open(path, &location)?;
        let known = Arc::default();
        Ok(Self {
            path: path.to_owned(),
            location,
            identity,
            locks,
            readers,
            writer,
            known,
            _open: open,
        })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn named(&self) -> &StoreLocation {
        &self.location
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn locks(&self) -> Arc<Locks> {
        self.locks.clone()
    }

    pub(crate) fn known(&self) -> Arc<ClaimCache> {
        self.known.clone()
    }

    pub(crate) fn read<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.identity.check()?;
            self.readers.read(work).await
        })
    }

    /// Runs a short read, on the caller's thread unless that connection is in use.
    pub(crate) fn look<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.identity.check()?;
            match self.writer.look(work) {
                Ok(found) => found,
                Err(work) => self.readers.look(work).await,
            }
        })
    }

    pub(crate) fn write<'a, T: Send + 'static>(
        &'a self,
        work: impl Fn(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.identity.check()?;
            self.writer.write(|_| Ok(None), work).await
        })
    }

    /// Runs `single`, which may complete the write in one statement without a transaction around
    /// it, and otherwise `work`.
    pub(crate) fn write_single<'a, T: Send + 'static>(
        &'a self,
        single: impl Fn(&Connection) -> Done<Option<T>> + Send + 'static,
        work: impl Fn(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.identity.check()?;
            self.writer.write(single, work).await
        })
    }
}

impl Store for SqliteStore {
    fn location(&self) -> &str {
        &self.location.name
    }
}
