//! A few connections, and work that is tried again when it may be.

use crate::conn::{Backend, Conn};
use crate::error::{Done, Fail, Place};
use crate::tls::Tls;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use weftwork_store::StoreError;
use weftwork_types::BoxFuture;

/// How often transactions that met others are tried again.
const COLLISIONS_MAX: u32 = 10;
/// The pause before work is tried again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How long closing waits for connections to say goodbye.
const CLOSE: Duration = Duration::from_secs(1);

/// Whether an earlier try of the same call may have taken effect, although nobody said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// It is the first, or the others are known to have left nothing behind.
    Nothing,
    /// The connection broke while it was on its way.
    Doubt,
}

/// What came of the earlier tries of a call.
#[derive(Debug)]
struct Past {
    before: Before,
    /// The server's ends of connections that broke, as long as they may still be at work.
    lost: Vec<Backend>,
}

impl Default for Past {
    fn default() -> Self {
        Self { before: Before::Nothing, lost: Vec::new() }
    }
}

/// Work on a connection, which may be done several times.
pub(crate) type Work<A, T> = for<'c> fn(&'c mut Conn, &'c A, Before) -> BoxFuture<'c, Done<T>>;

/// Who is connected to, and how.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) tls: Option<Tls>,
    /// What every new connection runs first.
    pub(crate) greeting: String,
}

#[derive(Debug)]
pub(crate) struct Pool {
    server: Server,
    place: Place,
    answer: Duration,
    idle: Mutex<Vec<Conn>>,
    served: Mutex<JoinSet<()>>,
    free: Semaphore,
}

impl Pool {
    pub(crate) fn new(
        server: Server,
        place: Place,
        answer: Duration,
        connections_max: usize,
    ) -> Self {
        Self {
            server,
            place,
            answer,
            idle: Mutex::default(),
            served: Mutex::default(),
            free: Semaphore::new(connections_max.max(1)),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    fn wait(&self) -> Duration {
        Duration::from_millis(self.place.wait_ms)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work; again when others were in its way, or when the connection broke, as long as
    /// we may wait.
    pub(crate) async fn run<A, T>(&self, args: &A, work: Work<A, T>) -> Result<T, StoreError> {
        let until = Instant::now() + self.wait();
        let (mut collisions, mut pause, mut past) = (0, PAUSE_MIN, Past::default());
        loop {
            let fail = match self.attempt(args, work, &mut past).await {
                Ok(done) => return Ok(done),
                Err(fail) => fail,
            };
            let again = if fail.is_collision() {
                collisions += 1;
                collisions <= COLLISIONS_MAX
            } else {
                fail.is_loss() && Instant::now() + pause < until
            };
            if !again {
                return Err(self.told(fail, past.before));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Does the work once.
    pub(crate) async fn once<A, T>(&self, args: &A, work: Work<A, T>) -> Result<T, StoreError> {
        let done = self.attempt(args, work, &mut Past::default()).await;
        done.map_err(|fail| self.place.fail(fail))
    }

    fn told(&self, fail: Fail, before: Before) -> StoreError {
        match (self.place.fail(fail), before) {
            (StoreError::Unavailable { place, reason, retriable }, Before::Doubt) => {
                let reason = format!("{reason}; whether the last write took effect is not known");
                StoreError::Unavailable { place, reason, retriable }
            }
            (error, _) => error,
        }
    }

    /// One try. What earlier ones left on its way is put to rest first.
    async fn attempt<A, T>(&self, args: &A, work: Work<A, T>, past: &mut Past) -> Done<T> {
        let permit = match timeout(self.wait(), self.free.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(self.place.unavailable("it was closed").into()),
            Err(_) => {
                let reason = "all its connections are at work for too long";
                return Err(self.place.away(reason).into());
            }
        };
        // Somebody else may be there, who takes connections and says nothing.
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
        let done = done.unwrap_or(Err(Fail::Silence { waited: self.answer }));
        match done.as_ref().err() {
            // The connection is dropped, and with it its transaction, unless it was committed.
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
        // Stale statements are of no use to the next one either.
        if conn.is_lost() || fail.is_some_and(Fail::is_stale) {
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
            None => self.serve(config.connect(NoTls).await?),
            Some(tls) => self.serve(config.connect(tls.clone()).await?),
        };
        let mut conn = Conn::new(client);
        conn.greet(greeting).await?;
        Ok(conn)
    }

    fn serve<S>(&self, (client, connection): (Client, Connection<Socket, S>)) -> Client
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut served = self.served();
        while served.try_join_next().is_some() {}
        served.spawn(async move {
            // Whoever waits for an answer is told the error, too.
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
        // What does not answer is cut off.
        drop(timeout(CLOSE, all).await);
    }
}
