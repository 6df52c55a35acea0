//! The store.

use crate::error::{Done, Place};
use crate::lock::Locks;
use crate::open;
use crate::reader::Readers;
use crate::table::held::Known;
use crate::table::workers;
use crate::writer::Writer;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_store::{Store, StoreError};
use weftwork_types::BoxFuture;

/// What a commit outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A kill of the process and a loss of power: each commit waits for the disk. Commits that
    /// come at the same time share the wait.
    #[default]
    Full,
    /// A kill of the process. A loss of power may take the last commits, but never a part of one.
    /// The caller's thread does the work, some tens of microseconds each.
    Normal,
}

/// How to open a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What a commit outlives.
    pub durability: Durability,
    /// How long to wait for other processes, in milliseconds.
    pub busy_timeout_ms: u64,
    /// The most bytes the file may grow to, without its log. `None` leaves it to the disk.
    pub size_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durability: Durability::Full, busy_timeout_ms: 5_000, size_bytes_max: None }
    }
}

/// A store in one SQLite file, which several processes may use at the same time.
///
/// # Cancel safety
/// Nothing happens before a future is first polled. After that its work goes on even when the
/// future is dropped, and may be committed.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    place: Place,
    locks: Arc<Locks>,
    // The readers end first: the last connection to close tidies the log away.
    readers: Readers,
    writer: Writer,
    known: Arc<Known>,
}

impl SqliteStore {
    /// Opens a store; makes the file, readable by its owner only, and its folder when they are
    /// missing. An older format is brought up to date. Blocks.
    ///
    /// Workers whose processes are gone are removed, so that their runs can be taken over at once.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Locked`] after waiting,
    /// [`StoreError::Newer`], [`StoreError::Corrupt`] for a file that is no database or a damaged
    /// one, [`StoreError::Unavailable`] for a folder, or a database of another program.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let name = path.display().to_string().into();
        let place = Place { name, busy_timeout_ms: options.busy_timeout_ms };
        let conn = open::writer(path, &place, options)?;
        let locks = Arc::new(Locks::new(path, place.clone()));
        workers::bury(&conn, &locks, &place)?;
        let writer = match options.durability {
            Durability::Full => Writer::thread(conn, place.clone())?,
            Durability::Normal => Writer::inline(conn, place.clone()),
        };
        let readers = Readers::open(path, &place)?;
        let known = Arc::default();
        Ok(Self { path: path.to_owned(), place, locks, readers, writer, known })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn named(&self) -> &Place {
        &self.place
    }

    pub(crate) fn locks(&self) -> Arc<Locks> {
        self.locks.clone()
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        self.known.clone()
    }

    pub(crate) fn read<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(self.readers.read(work))
    }

    /// Reads a little, on the caller's thread unless others read and write there just now.
    pub(crate) fn look<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
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
        Box::pin(self.writer.write(|_| Ok(None), work))
    }

    /// Does what `single` can do in one statement, which needs no transaction around it; the work
    /// when it cannot.
    pub(crate) fn write_single<'a, T: Send + 'static>(
        &'a self,
        single: impl Fn(&Connection) -> Done<Option<T>> + Send + 'static,
        work: impl Fn(&Connection) -> Done<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(self.writer.write(single, work))
    }
}

impl Store for SqliteStore {
    fn place(&self) -> &str {
        &self.place.name
    }
}
