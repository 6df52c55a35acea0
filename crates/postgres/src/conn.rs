//! A connection that prepares each statement once and sends statements together.

use crate::error::{Done, Fail};
use futures_util::future::join_all;
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement};

/// A parameter of a statement.
pub(crate) type Value = Box<dyn ToSql + Sync + Send>;

/// A statement with its parameters.
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

/// Creates an [`Ask`] from a statement and its parameters.
macro_rules! ask {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::conn::Ask::new($sql, vec![$(Box::new($value)),*])
    };
}
pub(crate) use ask;

const BEGIN: &str = "BEGIN";
/// Starts a transaction in which all statements read the same snapshot.
const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Starts a transaction with writes in which all statements read the same snapshot.
const AT_ONCE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// The server process of a connection: its process id and start time.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    process: i32,
    since: String,
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Conn {
    client: Client,
    /// Value of a setting of the session, by which this connection recognises it.
    mark: String,
    /// Server process, known after `greet`.
    backend: Option<Backend>,
    statements: HashMap<&'static str, Statement>,
    /// `true` if a transaction may be open.
    open: bool,
    /// `true` if a statement was sent that commits.
    sent: bool,
}

impl Conn {
    pub(crate) fn new(client: Client) -> Self {
        let statements = HashMap::new();
        let mark = uuid::Uuid::new_v4().simple().to_string();
        Self { client, mark, backend: None, statements, open: false, sent: false }
    }

    /// Initialises the connection with a script.
    ///
    /// # Errors
    /// [`Fail::SharedSession`] if another client has used the session: a pooler gives it to several.
    pub(crate) async fn greet(&mut self, script: &str) -> Done<()> {
        // Before the first prepared statement, of which the other client has some by the same names.
        if self.session_mark().await?.is_some() {
            return Err(Fail::SharedSession);
        }
        self.script(&format!("{script}; SET weft.session TO '{}'", self.mark)).await?;
        let sql = "SELECT pid, backend_start::text AS since FROM pg_stat_activity
                   WHERE pid = pg_backend_pid()";
        let rows = self.client.query(sql, &[]).await?;
        let backend = |row: &Row| {
            Ok::<_, Error>(Backend { process: row.try_get("pid")?, since: row.try_get("since")? })
        };
        self.backend = rows.first().map(backend).transpose()?;
        Ok(())
    }

    /// The mark of the session in which statements are executed now, if it has one.
    async fn session_mark(&self) -> Done<Option<String>> {
        let sql = "SELECT current_setting('weft.session', true)";
        let answer = self.client.simple_query(sql).await?;
        let mark = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).filter(|mark| !mark.is_empty()),
            _ => None,
        });
        Ok(mark.map(str::to_owned))
    }

    /// Returns `true` if statements are not executed in the session that this connection has
    /// initialised.
    pub(crate) async fn is_swapped(&self) -> bool {
        let mark = self.session_mark().await;
        mark.is_ok_and(|mark| mark.as_ref() != Some(&self.mark))
    }

    /// Returns the server process, which may still be working after the connection was lost.
    pub(crate) fn backend(&self) -> Option<Backend> {
        self.backend.clone()
    }

    /// Terminates the server process of another connection and waits for its end. After that, its
    /// commit has taken effect or never will.
    pub(crate) async fn put_to_rest(&mut self, other: &Backend) -> Done<()> {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                   WHERE pid = $1 AND backend_start::text = $2";
        self.rows(ask!(sql, other.process, other.since.clone())).await?;
        Ok(())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns `true` if a transaction may be open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns `true` if the work so far may have taken effect without a confirmation.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.sent
    }

    /// Runs read statements. Several statements read the same snapshot.
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

    /// Runs one read statement, inside or outside of a transaction.
    pub(crate) async fn rows(&mut self, ask: Ask) -> Done<Vec<Row>> {
        Ok(self.send(vec![ask]).await?.pop().unwrap_or_default())
    }

    /// Begins a transaction with these statements.
    pub(crate) async fn begin(&mut self, asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        self.begin_as(BEGIN, asks).await
    }

    /// Begins a transaction with these statements, in which all statements read the same snapshot.
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

    /// Runs these statements and commits the open transaction.
    pub(crate) async fn commit(&mut self, mut asks: Vec<Ask>) -> Done<Vec<Vec<Row>>> {
        asks.push(ask!(COMMIT));
        let statements = self.prepare(&asks).await?;
        self.sent = true;
        let mut found = self.pipeline(&statements, &asks).await?;
        self.done();
        found.pop();
        Ok(found)
    }

    /// Runs these statements as a transaction, in one round trip.
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

    /// Resets the connection for its next user, after work that failed.
    pub(crate) async fn tidy(&mut self) -> Done<()> {
        if self.open {
            self.send(vec![ask!(ROLLBACK)]).await?;
        }
        self.done();
        Ok(())
    }

    /// Runs statements without parameters, each in its own transaction unless the script states
    /// otherwise.
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

    /// Returns the prepared statements. Statements that are new to this connection are prepared in
    /// one round trip.
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
        // All statements are prepared at this point.
        Ok(asks.iter().filter_map(|ask| self.statements.get(ask.sql).cloned()).collect())
    }

    /// Sends all statements before it waits for the first response: a request is sent when its
    /// future is first polled, and futures are polled in order. The first failure is returned; the
    /// others are consequences of it.
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
