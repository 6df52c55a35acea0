//! A connection pool that retries work where this is safe.

use crate::conn::{Backend, Conn};
use crate::error::{Done, Fail, StoreLocation};
use crate::tls::Tls;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use weftwork_store::StoreError;
use weftwork_types::BoxFuture;

/// Number of retries of transactions that collided with others, however long they take. More of
/// them are made within the maximum wait.
const COLLISIONS_MIN: u32 = 10;
/// Initial and maximum pause before a retry.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Maximum wait for connections to close.
const CLOSE: Duration = Duration::from_secs(1);

/// The known effect of earlier attempts of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// There were none, or they are known to have had no effect.
    Nothing,
    /// A connection broke while an attempt was in progress, so it may have taken effect.
    Doubt,
}

/// The state of the earlier attempts of a call.
#[derive(Debug)]
struct Past {
    before: Before,
    /// Server processes of broken connections that may still be working.
    lost: Vec<Backend>,
}

impl Default for Past {
    fn default() -> Self {
        Self { before: Before::Nothing, lost: Vec::new() }
    }
}

/// Work on a connection, which may be repeated.
pub(crate) type Work<A, T> = for<'c> fn(&'c mut Conn, &'c A, Before) -> BoxFuture<'c, Done<T>>;

/// The server to connect to, and how.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) tls: Option<Tls>,
    /// Script that every new connection runs first.
    pub(crate) greeting: String,
}

#[derive(Debug)]
pub(crate) struct Pool {
    server: Server,
    location: StoreLocation,
    answer: Duration,
    idle: Mutex<Vec<Conn>>,
    served: Mutex<JoinSet<()>>,
    free: Semaphore,
}

/// A random number from 0 to 1.
fn random_share() -> f64 {
    let number = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(number >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

impl Pool {
    pub(crate) fn new(
        server: Server,
        location: StoreLocation,
        answer: Duration,
        connections_max: usize,
    ) -> Self {
        Self {
            server,
            location,
            answer,
            idle: Mutex::default(),
            served: Mutex::default(),
            free: Semaphore::new(connections_max.max(1)),
        }
    }

    pub(crate) fn location(&self) -> &StoreLocation {
        &self.location
    }

    fn wait(&self) -> Duration {
        Duration::from_millis(self.location.wait_ms)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work. Retries it after collisions with other transactions and after connection
    /// failures, for the maximum wait.
    pub(crate) async fn run<A, T>(&self, args: &A, work: Work<A, T>) -> Result<T, StoreError> {
        let until = Instant::now() + self.wait();
        let mut collisions = 0;
        let mut pause = PAUSE_MIN;
        let mut past = Past::default();
        loop {
            let fail = match self.attempt(args, work, &mut past).await {
                Ok(done) => return Ok(done),
                Err(fail) => fail,
            };
            let collides = fail.is_collision();
            collisions += u32::from(collides);
            let in_time = Instant::now() + pause < until;
            let again = match collides {
                true => collisions <= COLLISIONS_MIN || in_time,
                false => fail.is_loss() && in_time,
            };
            if !again {
                return Err(self.fail(fail, past.before));
            }
            // Transactions that collided do not begin again at the same time.
            sleep(pause.mul_f64(0.5 + 0.5 * random_share())).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs the work without retries.
    pub(crate) async fn once<A, T>(&self, args: &A, work: Work<A, T>) -> Result<T, StoreError> {
        let done = self.attempt(args, work, &mut Past::default()).await;
        done.map_err(|fail| self.location.fail(fail))
    }

    fn fail(&self, fail: Fail, before: Before) -> StoreError {
        match (self.location.fail(fail), before) {
            (StoreError::Unavailable { location, reason, retriable }, Before::Doubt) => {
                let reason = format!("{reason}; it is not known if the last write took effect");
                StoreError::Unavailable { location, reason, retriable }
            }
            (error, _) => error,
        }
    }

    /// Makes one attempt. Server processes of earlier attempts are terminated first.
    async fn attempt<A, T>(&self, args: &A, work: Work<A, T>, past: &mut Past) -> Done<T> {
        let permit = match timeout(self.wait(), self.free.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(self.location.unavailable("it was closed").into()),
            Err(_) => {
                let reason = "no connection became free in time";
                return Err(self.location.away(reason).into());
            }
        };
        // The peer may be another program, which accepts connections and never responds.
        let silence = Fail::Silence { waited: self.answer };
        let mut conn = timeout(self.answer, self.connection()).await.unwrap_or(Err(silence))?;
        let whole = async {
            while let Some(backend) = past.lost.last() {
                conn.put_to_rest(backend).await?;
                past.lost.pop();
            }
            work(&mut conn, args, past.before).await
        };
        let done = timeout(self.answer, whole).await;
        let mut done = done.unwrap_or(Err(Fail::Silence { waited: self.answer }));
        if let Err(fail) = &done
            && fail.may_be_of_shared_session()
            && conn.is_swapped().await
        {
            done = Err(Fail::SharedSession);
        }
        match done.as_ref().err() {
            // The connection is dropped, which rolls back its transaction unless it was committed.
            Some(fail) if fail.is_loss() => {
                if conn.is_in_doubt() {
                    past.before = Before::Doubt;
                    past.lost.extend(conn.backend());
                }
            }
            fail => self.give_back(conn, fail).await,
        }
        drop(permit);
        done
    }

    async fn give_back(&self, mut conn: Conn, fail: Option<&Fail>) {
        // Statements are stale for the next user of the connection, too.
        let is_unusable = |fail: &Fail| fail.is_stale() || matches!(fail, Fail::SharedSession);
        if conn.is_lost() || fail.is_some_and(is_unusable) {
            return;
        }
        if (fail.is_some() || conn.is_open()) && conn.tidy().await.is_err() {
            return;
        }
        self.idle().push(conn);
    }

    async fn connection(&self) -> Done<Conn> {
        loop {
            let idle = self.idle().pop();
            match idle {
                Some(conn) if conn.is_lost() => {}
                Some(conn) => return Ok(conn),
                None => return self.connect().await,
            }
        }
    }

    async fn connect(&self) -> Done<Conn> {
        let Server { config, tls, greeting } = &self.server;
        let client = match tls {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                self.serve(client, connection)
            }
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                self.serve(client, connection)
            }
        };
        let mut conn = Conn::new(client);
        conn.greet(greeting).await?;
        Ok(conn)
    }

    fn serve<S>(&self, client: Client, connection: Connection<Socket, S>) -> Client
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut served = self.served();
        while served.try_join_next().is_some() {}
        served.spawn(async move {
            // The client that waits for a response receives the error, too.
            drop(connection.await);
        });
        client
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        self.free.close();
        self.idle().clear();
        let mut served = std::mem::take(&mut *self.served());
        let all = async { while served.join_next().await.is_some() {} };
        // Connections that do not close in time are dropped.
        drop(timeout(CLOSE, all).await);
    }
}
