//! One connection: statements prepared once, and sent together.

use crate::error::Done;
use futures_util::future::join_all;
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

/// A value of a statement.
pub(crate) type Value = Box<dyn ToSql + Sync + Send>;

/// A statement with its values.
#[derive(Debug)]
pub(crate) struct Ask {
    sql: &'static str,
    values: Vec<Value>,
}

impl Ask {
    pub(crate) fn new(sql: &'static str, values: Vec<Value>) -> Self {
        Self { sql, values }
    }
}

/// Makes an [`Ask`] of a statement and its values.
macro_rules! ask {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::conn::Ask::new($sql, vec![$(Box::new($value)),*])
    };
}
pub(crate) use ask;

const BEGIN: &str = "BEGIN";
/// All statements of such a transaction see the same moment.
const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// The same, for one that may write.
const AT_ONCE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// The server's end of a connection: its process, and since when it serves.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    process: i32,
    since: String,
}

/// A connection in somebody's hands.
#[derive(Debug)]
pub(crate) struct Conn {
    client: Client,
    /// Known when the connection was greeted.
    backend: Option<Backend>,
    statements: HashMap<&'static str, Statement>,
    /// Whether a transaction may be open.
    open: bool,
    /// Whether something was sent that takes effect when it arrives.
    sent: bool,
}

impl Conn {
    pub(crate) fn new(client: Client) -> Self {
        let statements = HashMap::new();
        Self { client, backend: None, statements, open: false, sent: false }
    }

    /// Sets the connection up with this script.
    pub(crate) async fn greet(&mut self, script: &str) -> Done<()> {
        self.script(script).await?;
        let sql = "SELECT pid, backend_start::text AS since FROM pg_stat_activity
                   WHERE pid = pg_backend_pid()";
        let rows = self.client.query(sql, &[]).await?;
        let backend = |row: &Row| {
            Ok::<_, Error>(Backend { process: row.try_get("pid")?, since: row.try_get("since")? })
        };
        self.backend = rows.first().map(backend).transpose()?;
        Ok(())
    }

    /// What the server may still be doing for this connection although we lost it.
    pub(crate) fn backend(&self) -> Option<Backend> {
        self.backend.clone()
    }

    /// Ends another connection's work and waits for its end, so that what it was about to commit
    /// is committed now or never.
    pub(crate) async fn put_to_rest(&mut self, other: &Backend) -> Done<()> {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                   WHERE pid = $1 AND backend_start::text = $2";
        self.rows(ask!(sql, other.process, other.since.clone())).await?;
        Ok(())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether a transaction may be open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the work so far may have taken effect, although nobody said so.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.sent
    }

    /// Reads; several statements see the same moment.
    pub(crate) async fn read(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        if asks.len() == 1 {
            return self.send(asks).await;
        }
        self.open = true;
        let mut found = self.send(wrapped(LOOK, asks)).await?;
        self.open = false;
        found.pop();
        found.remove(0);
        Ok(found)
    }

    /// Reads with one statement, within a transaction or without.
    pub(crate) async fn rows(&mut self, ask: Ask) -> Done<Vec<Row>> {
        Ok(self.send(vec![ask]).await?.pop().unwrap_or_default())
    }

    /// Begins a transaction with these statements.
    pub(crate) async fn begin(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        self.begin_as(BEGIN, asks).await
    }

    /// Begins a transaction all of whose statements see the same moment.
    pub(crate) async fn begin_at_once(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        self.begin_as(AT_ONCE, asks).await
    }

    async fn begin_as(&mut self, begin: &'static str, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        self.open = true;
        let mut all = vec![ask!(begin)];
        all.extend(asks);
        let mut found = self.send(all).await?;
        found.remove(0);
        Ok(found)
    }

    /// Ends the transaction that was begun, with these statements.
    pub(crate) async fn commit(&mut self, mut asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        asks.push(ask!(COMMIT));
        let statements = self.prepare(&asks).await?;
        self.sent = true;
        let mut found = self.pipeline(&statements, &asks).await?;
        self.done();
        found.pop();
        Ok(found)
    }

    /// A whole transaction of these statements, in one round trip.
    pub(crate) async fn write(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        let alone = asks.len() == 1;
        let all = if alone { asks } else { wrapped(BEGIN, asks) };
        let statements = self.prepare(&all).await?;
        (self.open, self.sent) = (!alone, true);
        let mut found = self.pipeline(&statements, &all).await?;
        self.done();
        if !alone {
            found.pop();
            found.remove(0);
        }
        Ok(found)
    }

    /// Makes the connection fit for its next user, after work that failed.
    pub(crate) async fn tidy(&mut self) -> Done<()> {
        if self.open {
            self.send(vec![ask!(ROLLBACK)]).await?;
        }
        self.done();
        Ok(())
    }

    /// Runs statements without values, each a transaction of its own unless they say otherwise.
    pub(crate) async fn script(&mut self, sql: &str) -> Done<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    fn done(&mut self) {
        (self.open, self.sent) = (false, false);
    }

    async fn send(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        let statements = self.prepare(&asks).await?;
        self.pipeline(&statements, &asks).await
    }

    /// The statements, prepared; those that are new to this connection in one round trip.
    async fn prepare(&mut self, asks: &[Ask]) -> Done<Vec<Statement>> {
        let mut new: Vec<&'static str> = Vec::new();
        for ask in asks {
            if !self.statements.contains_key(ask.sql) && !new.contains(&ask.sql) {
                new.push(ask.sql);
            }
        }
        let prepared = join_all(new.iter().map(|sql| self.client.prepare(sql))).await;
        for (sql, statement) in new.into_iter().zip(prepared) {
            self.statements.insert(sql, statement?);
        }
        // All are there now; a missing one would only shorten the list.
        Ok(asks.iter().filter_map(|ask| self.statements.get(ask.sql).cloned()).collect())
    }

    /// Sends all statements before it waits for the first answer: a request leaves when its future
    /// is first polled, and they are polled in order. The first failure is the one that counts;
    /// the others follow from it.
    async fn pipeline(&self, statements: &[Statement], asks: &[Ask]) -> Done<Vec<Vec<Row>>> {
        let values: Vec<Vec<&(dyn ToSql + Sync)>> =
            asks.iter().map(|ask| ask.values.iter().map(|value| &**value as _).collect()).collect();
        let answers =
            statements.iter().zip(&values).map(|(sql, with)| self.client.query(sql, with));
        let answers: Result<Vec<Vec<Row>>, _> = join_all(answers).await.into_iter().collect();
        Ok(answers?)
    }
}

fn wrapped(begin: &'static str, asks: Vec<Ask>) -> Vec<Ask> {
    let mut all = Vec::with_capacity(asks.len() + 2);
    all.push(ask!(begin));
    all.extend(asks);
    all.push(ask!(COMMIT));
    all
}
