//! A store in a Postgres database that many processes share.
//!
//! A store has a few connections and its own thread that serves them, so the caller needs no async
//! runtime. A commit is one transaction whose statements are sent together, in one round trip.
//! Every write for a thread first locks the row of the thread.
//!
//! **Invariant:** a write is acknowledged only after Postgres has committed it with
//! `synchronous_commit = on`, and a refused write changes nothing. If a connection breaks during a
//! commit, the store finds out if the commit took effect before it returns, or reports that this is
//! not known.
//!
//! Connections are encrypted if the address requires TLS, with rustls, and the server's certificate
//! and name are verified.

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
