//! A store in one SQLite file, safe against process kills and power loss.
//!
//! All writes use one connection. At [`Durability::Full`] it belongs to a writer thread, which
//! writes all waiting jobs in one transaction (group commit), so that one disk sync serves many
//! runs. At [`Durability::Normal`] the caller writes inline. Reads use two threads with one
//! connection each, except for the reads at the start of a run, which are inline at
//! [`Durability::Normal`]. No async runtime is needed.
//!
//! **Invariant:** a write is acknowledged only after SQLite has committed it, and a refused write
//! changes nothing.

mod error;
mod identity;
mod lock;
mod open;
mod open_stores;
mod reader;
mod restore;
mod row;
mod schema;
mod store;
mod table;
mod upkeep;
mod verify;
mod writer;

pub use open_stores::wait_until_closed;
pub use restore::Restored;
pub use store::{Durability, Options, SqliteStore};
pub use upkeep::Compacted;
pub use verify::Damage;
