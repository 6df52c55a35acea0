//! Items: data that is stored beyond a thread.
//!
//! An item is a JSON object under a [`Namespace`] and a key. Graphs store data there and find it
//! again from any thread, by key, by filter or by words. Each call takes a
//! [`Principal`](weftwork_types::Principal); items of
//! another organisation are treated as missing.
//!
//! Limits: a namespace has at most [`NAMESPACE_LABELS_MAX`] labels and [`NAMESPACE_BYTES_MAX`]
//! bytes, a key [`KEY_BYTES_MAX`] bytes, a value [`VALUE_BYTES_MAX`] bytes as JSON and
//! [`DEPTH_MAX`](weftwork_types::canonical::DEPTH_MAX) levels.
//!
//! # Order
//! Items are returned namespace by namespace, in the order in which the namespaces received their
//! first item, and within a namespace in the order in which the items were first put. Replacing the
//! value of an item does not move it. A namespace without items no longer exists and loses its
//! position.
//!
//! # Time
//! An item store reads the time from a [`Clock`](weftwork_types::port::Clock). Once an item has
//! expired, no call returns it. [`WriteItems::sweep`] deletes expired items, and each put deletes a
//! few. Drivers have no clock: the time is an argument of each call of [`ItemTable`], and
//! [`StoreItems`] combines the table with a clock.
//!
//! # Cancel safety
//! The same as for the [tables](crate#cancel-safety): nothing happens before a future is first
//! polled, and a dropped write may still take effect.

mod memory;
mod stored;

pub use memory::MemoryItems;
pub(crate) use memory::{ItemRow, Tables};
pub use stored::{ItemTable, SWEPT_BY_PUT, StoreItems, StoredItem, seal};
pub use weftwork_types::item::*;
