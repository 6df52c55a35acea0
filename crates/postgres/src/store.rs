//! The store.

use crate::address::Address;
use crate::error::Place;
use crate::link::Link;
use crate::pool::{Pool, Server, Work};
use crate::schema;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork_store::{Store, StoreError};
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// Whose clock says whether a worker is alive.
#[derive(Debug, Clone)]
pub enum Time {
    /// The database's. A lease is as long as the worker says by its own clock, which is given
    /// here, and runs by the database's, so workers whose clocks differ do not take each other's
    /// runs. The `now` of [`claim`](weftwork_store::WriteRuns::claim) and
    /// [`orphans`](weftwork_store::ReadRuns::orphans) does not count then.
    Database(Arc<dyn Clock>),
    /// The callers': leases run out at the time they name, by the `now` that calls give. For tests
    /// in which time is a number.
    Caller,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose clock says whether a worker is alive.
    pub time: Time,
    /// The schema of the database in which the tables are: lower-case ASCII letters, digits and
    /// `_`.
    pub schema: String,
    /// The most connections at the same time.
    pub connections_max: usize,
    /// How long to wait for others who hold what is needed, and for a database that went away to
    /// come back, in milliseconds.
    pub wait_ms: u64,
    /// How long to wait for an answer, in milliseconds; the connection is given up after that.
    pub answer_ms: u64,
}

impl Options {
    /// The usual options: the database's time, where `clock` is the one by which the workers of
    /// this process count theirs; the schema `weftwork`; 8 connections.
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

/// A store in a Postgres database, which several processes may use at the same time.
///
/// # Cancel safety
/// Nothing happens before a future is first polled. After that its work goes on even when the
/// future is dropped, and may be committed.
#[derive(Debug)]
pub struct PostgresStore {
    place: Place,
    time: Time,
    link: Link,
    /// Marks of this store differ from those of all others by this, and among each other by the
    /// count.
    marks: (u64, AtomicU64),
}

impl PostgresStore {
    /// Opens a store; makes the schema and its tables when they are missing, and brings an older
    /// format up to date. `address` is a URL (`postgres://user@host:port/database`) or a list of
    /// `key=value` pairs as other programs take it. Blocks.
    ///
    /// With `sslmode=require` or `sslmode=verify-full` connections are encrypted, and the server's
    /// certificate must be vouched for by those in the file `sslrootcert` (or by those whom the
    /// system trusts), be valid now, and be for the host that the address names. With
    /// `sslmode=prefer`, which is also what holds without a mode, and `sslmode=disable` they are
    /// not; nor are those to a local socket.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an address that cannot be read, for a database that does
    /// not answer or lets us not in, for a server without TLS or with a certificate that does not
    /// pass where the address demands it, and for a schema of another program;
    /// [`StoreError::Newer`], [`StoreError::ReadOnly`], [`StoreError::Locked`].
    pub fn open(address: &str, options: &Options) -> Result<Self, StoreError> {
        let Address { mut config, tls, place } = Address::read(address, options.wait_ms)?;
        if !schema::is_name(&options.schema) {
            let reason = format!(
                "`{}` cannot name its schema: expected at most 63 lower-case ASCII letters, digits and `_`",
                options.schema
            );
            return Err(place.unavailable(reason));
        }
        let wait = Duration::from_millis(options.wait_ms);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(wait);
        }
        let answer = Duration::from_millis(options.answer_ms);
        let greeting = greeting(options);
        let server = Server { config, tls, greeting };
        let pool = Pool::new(server, place.clone(), answer, options.connections_max);
        let link = Link::start(pool)?;
        link.wait((options.schema.clone(), place.clone()), |conn, (schema, place), _| {
            Box::pin(schema::migrate(conn, schema, place))
        })?;
        let seed =
            u64::from_be_bytes(std::array::from_fn(|i| uuid::Uuid::new_v4().into_bytes()[i]));
        Ok(Self { place, time: options.time.clone(), link, marks: (seed, AtomicU64::new(0)) })
    }

    /// Does work that reads or writes.
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

    /// A name for one write, which no other write has.
    pub(crate) fn mark(&self) -> Vec<u8> {
        let (seed, count) = &self.marks;
        let count = count.fetch_add(1, Ordering::Relaxed);
        [seed.to_be_bytes(), count.to_be_bytes()].concat()
    }

    /// The time of a call, when it counts; otherwise the database's does.
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
    fn place(&self) -> &str {
        &self.place.name
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
