//! The Postgres store: one database that many processes share.
//!
//! A store has a few connections and a thread of its own that serves them, so it needs no async
//! runtime of its user. A commit is one transaction whose statements are sent together: one round
//! trip. Everything that writes for a thread locks the thread's row first.
//!
//! **Invariant:** nothing is acknowledged before Postgres has committed it with
//! `synchronous_commit = on`, and a write that was refused leaves nothing behind. A connection
//! that breaks while a commit is on its way leaves it in doubt; the store finds out what became of
//! it before it answers, or says that it does not know.
//!
//! An address that demands TLS gets it: with rustls, and with the server's certificate and name
//! checked.

mod address;
mod conn;
mod error;
mod link;
mod pool;
mod row;
mod schema;
mod store;
mod table;
mod tls;

pub use address::name_of_address;
pub use store::{Options, PostgresStore, Time};
