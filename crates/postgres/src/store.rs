//! The store and its options.

use crate::address::Address;
use crate::error::StoreLocation;
use crate::link::Link;
use crate::pool::{Pool, Server, Work};
use crate::schema::{self, Formats};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork_store::{Store, StoreError};
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// The clock that decides if a worker is alive.
#[derive(Debug, Clone)]
pub enum Time {
    /// The clock of the database. A worker computes the length of its lease by its own clock, which
    /// is given here, and the database measures the lease by its clock. Workers whose clocks differ
    /// therefore do not take over each other's runs. The `now` argument of
    /// [`claim`](weftwork_store::WriteRuns::claim) and
    /// [`orphans`](weftwork_store::ReadRuns::orphans) is ignored.
    Database(Arc<dyn Clock>),
    /// The clocks of the callers: a lease expires at the time it states, compared with the `now`
    /// argument of calls. For tests with simulated time.
    Caller,
}

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Clock that decides if a worker is alive.
    pub time: Time,
    /// Database schema of the tables: lower-case ASCII letters, digits and `_`.
    pub schema: String,
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Maximum wait for locks of other transactions, and for an unavailable database to return, in
    /// milliseconds.
    pub wait_ms: u64,
    /// Maximum wait for a response, in milliseconds; after that the connection is dropped.
    pub answer_ms: u64,
}

impl Options {
    /// Returns the default options: the clock of the database, with `clock` as the clock by which
    /// the workers of this process compute their leases; the schema `weftwork`; 8 connections.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            time: Time::Database(clock),
            schema: "weftwork".to_owned(),
            connections_max: 8,
            wait_ms: 5_000,
            answer_ms: 30_000,
        }
    }
}

/// A store in a Postgres database. Several processes may use the database at the same time.
///
/// # Cancel safety
/// Nothing happens before a future is first polled. After that its work continues even if the
/// future is dropped, and may be committed.
#[derive(Debug)]
pub struct PostgresStore {
    location: StoreLocation,
    time: Time,
    link: Link,
    /// Prefix and counter of the marks of this store. The prefix distinguishes them from those of
    /// all other stores.
    marks: (u64, AtomicU64),
}

impl PostgresStore {
    /// Opens a store. Creates the schema and its tables if they do not exist, and migrates an older
    /// format, if this program still reads it. `address` is a URL (`postgres://user@host:port/database`) or a list of `key=value`
    /// pairs, as in libpq. Blocks.
    ///
    /// With `sslmode=require` or `sslmode=verify-full` connections are encrypted. The server's
    /// certificate must be valid now, match the host in the address, and be issued by a certificate
    /// in the file `sslrootcert`, or by one that the system trusts. With `sslmode=prefer` (the
    /// default) and `sslmode=disable` connections are not encrypted; nor are those to a local
    /// socket.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] for an address that is not valid, for a database that
    /// does not respond or refuses the login, for a server without TLS or with a rejected
    /// certificate if the address requires TLS, and for a schema of another program;
    /// [`StoreError::Older`], [`StoreError::Newer`], [`StoreError::ReadOnly`], or [`StoreError::Locked`].
    pub fn open(address: &str, options: &Options) -> Result<Self, StoreError> {
        Self::open_with(address, options, &schema::FORMATS)
    }

    /// Opens a store as a program does that reads these formats.
    pub(crate) fn open_with(
        address: &str,
        options: &Options,
        formats: &'static Formats,
    ) -> Result<Self, StoreError> {
        let Address { mut config, tls, location } = Address::read(address, options.wait_ms)?;
        if !schema::is_name(&options.schema) {
            let reason = format!(
                "`{}` is not a valid schema name: expected at most 63 lower-case ASCII letters, digits and `_`",
                options.schema
            );
            return Err(location.unavailable(reason));
        }
        let wait = Duration::from_millis(options.wait_ms);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(wait);
        }
        let answer = Duration::from_millis(options.answer_ms);
        let greeting = greeting(options);
        let server = Server { config, tls, greeting };
        let pool = Pool::new(server, location.clone(), answer, options.connections_max);
        let link = Link::start(pool)?;
        link.wait((options.schema.clone(), location.clone(), formats), |conn, args, _| {
            let (schema, location, formats) = args;
            Box::pin(formats.migrate(conn, schema, location))
        })?;
        let seed =
            u64::from_be_bytes(std::array::from_fn(|i| uuid::Uuid::new_v4().into_bytes()[i]));
        Ok(Self { location, time: options.time.clone(), link, marks: (seed, AtomicU64::new(0)) })
    }

    /// Runs work that reads or writes.
    pub(crate) fn run<'a, A, T>(
        &'a self,
        args: A,
        work: Work<A, T>,
    ) -> BoxFuture<'a, Result<T, StoreError>>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(self.link.run(args, work))
    }

    /// Returns a mark that identifies one write.
    pub(crate) fn mark(&self) -> Vec<u8> {
        let (seed, count) = &self.marks;
        let count = count.fetch_add(1, Ordering::Relaxed);
        [seed.to_be_bytes(), count.to_be_bytes()].concat()
    }

    /// Returns the time of a call, or `None` if the clock of the database is used.
    pub(crate) fn now(&self, now: Timestamp) -> Option<i64> {
        match self.time {
            Time::Caller => Some(now.0),
            Time::Database(_) => None,
        }
    }

    pub(crate) fn time(&self) -> &Time {
        &self.time
    }
}

impl Store for PostgresStore {
    fn location(&self) -> &str {
        &self.location.name
    }
}

fn greeting(options: &Options) -> String {
    let Options { schema, wait_ms, .. } = options;
    format!(
        "SET search_path TO {schema};
         SET synchronous_commit TO on;
         SET default_transaction_isolation TO 'read committed';
         SET client_min_messages TO warning;
         SET lock_timeout TO {wait_ms};
         SET idle_in_transaction_session_timeout TO {}",
        options.answer_ms
    )
}
