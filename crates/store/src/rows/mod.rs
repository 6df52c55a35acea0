//! A store of one's own: [`Rows`], the four methods that a database has to provide, and [`RowStore`],
//! which is a complete [`Store`](crate::Store) over them.
//!
//! Rows are bytes under ordered keys; their formats are those of this module. A [`RowStore`] reads the
//! rows of an operation, applies the same functions as the store in memory, and writes the changed
//! rows in one [`Batch`] that names the rows on which they depend, as they were read. If one of
//! them has changed, the operation starts again. Any number of processes can use the same rows.
//!
//! # Costs
//! The work of an operation grows with the runs and questions of its thread, but not with its events,
//! calls and checkpoints. Lists and searches of threads read the threads, runs and questions of the
//! organisation; searches and writes of items read the items of the organisation. Workers that look
//! for runs read the threads with unfinished runs.

mod backend;
mod encode;
mod key;
mod load;
mod memory;
mod parts;

pub use backend::RowBackend;
pub use key::{Key, KeyRange};
pub use memory::MemoryRows;

use crate::memory::TableStore;
use crate::table::Result;
use std::fmt::Debug;
use std::sync::Arc;
use weftwork_types::BoxFuture;

/// The content of a row.
pub type Value = Vec<u8>;

/// Rows of bytes under ordered keys, and one conditional write: all that a database has to provide for
/// a [`RowStore`].
///
/// `store-conformance` has cases for these guarantees (`rows::CASES`) besides those of a complete
/// store.
///
/// # Atomicity
/// The result of one call is the state at one moment between two writes: no call returns a part of a
/// batch. Different calls may see different moments. A read that begins after a write has returned
/// sees it, in all processes.
///
/// # Errors
/// All methods return [`StoreError::Unavailable`](crate::StoreError::Unavailable) or another system
/// error if the database cannot be used.
///
/// # Cancel safety
/// A future that is dropped has read nothing, and has written either the whole batch or nothing.
pub trait Rows: Send + Sync + Debug {
    /// Returns the address of the database for messages: a file, or a URL without secrets.
    fn location(&self) -> &str;

    /// Returns the contents of rows, in the order of `keys`; `None` for a row that does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Option<Value>>>>;

    /// Returns at most `limit` rows of a range: the first ones in ascending order of the bytes of
    /// their keys, or the last ones in descending order.
    ///
    /// # Errors
    /// Only system errors.
    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Key, Value)>>>;

    /// Writes a batch if all rows that it expects are as expected, or nothing. Comparison and writes
    /// are one transaction: no other batch is written in between. Once the future has returned
    /// [`Written::Done`], the batch is durable.
    ///
    /// If it is not known whether the batch was written, for example because a connection broke, the
    /// result is a retriable error. An implementation does not repeat such a write: after its own
    /// first write it would find a conflict. The store reads whether the batch is there.
    ///
    /// # Errors
    /// System errors. The batch was written completely or not at all.
    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<Written>>;
}

/// An order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the lowest key.
    Ascending,
    /// From the highest key.
    Descending,
}

/// A conditional write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Rows with the contents that they must have; `None` for a row that must not exist. A key occurs
    /// at most once.
    pub expected: Vec<(Key, Option<Value>)>,
    /// New contents of rows; `None` for a row to be deleted, which need not exist. A key occurs at
    /// most once.
    pub writes: Vec<(Key, Option<Value>)>,
}

/// The result of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The batch was written.
    Done,
    /// A row is not as expected. Nothing was written.
    Conflict,
}

/// A complete store over [`Rows`].
///
/// An operation that conflicts with others is repeated at most [`ATTEMPTS_MAX`] times and then fails
/// with a retriable [`StoreError::Unavailable`](crate::StoreError::Unavailable).
///
/// ```
/// use weftwork_store::rows::{MemoryRows, RowStore};
/// use weftwork_store::Store;
///
/// let store = RowStore::new(MemoryRows::default());
/// assert_eq!(store.location(), "memory rows");
/// ```
pub type RowStore<R> = TableStore<RowBackend<R>>;

/// Maximum number of times that an operation reads its rows.
pub const ATTEMPTS_MAX: usize = 200;

impl<R: Rows> RowStore<R> {
    /// Creates a store over rows. A database without rows is an empty store.
    pub fn new(rows: R) -> Self {
        Self { backend: RowBackend::new(rows) }
    }
}

impl<R: Rows + ?Sized> Rows for Arc<R> {
    fn location(&self) -> &str {
        (**self).location()
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Option<Value>>>> {
        (**self).get(keys)
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Key, Value)>>> {
        (**self).scan(range, order, limit)
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<Written>> {
        (**self).write(batch)
    }
}
