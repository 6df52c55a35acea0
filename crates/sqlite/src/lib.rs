//! The SQLite store: one file, safe against kill and power loss.
//!
//! Writing goes through one connection. At [`Durability::Full`] it lives on a thread of its own,
//! which puts everything that waits into one transaction (group commit), so that one sync of the
//! disk serves many runs; at [`Durability::Normal`] the caller writes inline. Reading goes through
//! two threads with a connection each, but for what a run needs at its start: at
//! [`Durability::Normal`] that is read inline. No async runtime is needed.
//!
//! **Invariant:** nothing is acknowledged before SQLite has committed it, and a write that was
//! refused leaves nothing behind.

mod error;
mod lock;
mod open;
mod reader;
mod row;
mod schema;
mod store;
mod table;
mod upkeep;
mod verify;
mod writer;

pub use store::{Durability, Options, SqliteStore};
pub use upkeep::Compacted;
pub use verify::Damage;
