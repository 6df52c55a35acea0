use crate::conn::{Ask, Conn, ask};
use crate::error::{Done, Fail};
use crate::row::{At, int, text};
use crate::store::PostgresStore;
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::remote::{REMOTE_DELETIONS, REMOTE_ID_CHARS, REMOTE_THREADS};
use weftwork_store::sequence::{
    Change, EXPORTED_KINDS, KINDS_OF_THREADS, Sequence, SequenceQuery, SequenceRow, SequenceTable,
    SequenceWrite, check_name, of_thread, wrong_version,
};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

/// Error code of `apply_effect` if a sequence does not have the expected version.
const WRONG_VERSION: &str = "WF002";

impl SequenceTable for PostgresStore {
    fn sequence_rows<'a>(
        &'a self,
        who: &'a Principal,
        query: SequenceQuery,
    ) -> BoxFuture<'a, Result<Vec<SequenceRow>>> {
        self.run((who.org.clone(), query), |conn, (org, query), _| {
            Box::pin(async move {
                let sql = "SELECT kind, key, version, at, format, content FROM effects
                           WHERE org = $1 AND kind = $2 AND (key, version) > ($3, $4)
                               AND ($5::text IS NULL OR key <= $5)
                           ORDER BY key, version LIMIT $6";
                let SequenceQuery { kind, first, last, after, .. } = query.clone();
                let after = int(after);
                let limit = int(query.reads());
                let rows = conn.rows(ask!(sql, text(org), kind, first, after, last, limit)).await?;
                rows.iter().map(|row| Ok(read(row)?)).collect()
            })
        })
    }

    fn effect_version<'a>(
        &'a self,
        who: &'a Principal,
        sequence: &'a Sequence,
    ) -> BoxFuture<'a, Result<u64>> {
        self.run((who.org.clone(), sequence.clone()), |conn, (org, sequence), _| {
            Box::pin(async move {
                let sql = "SELECT version FROM sequences WHERE org = $1 AND kind = $2 AND key = $3";
                let Sequence { kind, key } = sequence.clone();
                let rows = conn.rows(ask!(sql, text(org), kind, key)).await?;
                let at = At::new("sequences", &sequence.key);
                Ok(rows.first().map(|row| at.count(row, "version")).transpose()?.unwrap_or(0))
            })
        })
    }

    fn write_sequences<'a>(
        &'a self,
        who: &'a Principal,
        writes: Vec<SequenceWrite>,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        self.run((who.org.clone(), writes, at), |conn, (org, writes, at), _| {
            Box::pin(async move {
                let written = conn.write(asks(org, writes, *at)?).await;
                checked(conn, writes, written).await.map(drop)
            })
        })
    }
}

/// Returns the statements of writes, one for each; see [`checked`].
pub(crate) fn asks(org: &OrgId, writes: &[SequenceWrite], at: Timestamp) -> Result<Vec<Ask>> {
    writes.iter().enumerate().map(|(number, write)| one(org, number, write, at)).collect()
}

/// Returns the statements that delete the sequences of a thread, and make its records of remote
/// threads records of their deletions.
pub(crate) fn deletes_of(org: &OrgId, thread: &ThreadId) -> Vec<Ask> {
    let (first, last) = of_thread(thread);
    let sql = "INSERT INTO effects (org, kind, key, version, at, format, content)
               SELECT $1, $2, right(key, $3), version, at, format, content FROM effects
               WHERE org = $4 AND kind = $5 AND key BETWEEN $6 AND $7";
    let workers = Principal::of_workers().org;
    let deletions = REMOTE_DELETIONS.to_owned();
    let threads = REMOTE_THREADS.to_owned();
    let id_chars = i32::try_from(REMOTE_ID_CHARS).unwrap_or(i32::MAX);
    let moves = ask!(
        sql,
        text(&workers),
        deletions,
        id_chars,
        text(org),
        threads,
        first.clone(),
        last.clone()
    );
    let tables = [
        "DELETE FROM effects WHERE org = $1 AND kind = $2 AND key BETWEEN $3 AND $4",
        "DELETE FROM sequences WHERE org = $1 AND kind = $2 AND key BETWEEN $3 AND $4",
    ];
    let kinds = KINDS_OF_THREADS.into_iter().chain([REMOTE_THREADS]);
    let kinds = kinds.flat_map(|kind| tables.map(|sql| (kind, sql)));
    let ask =
        |(kind, sql): (&str, _)| ask!(sql, text(org), kind.to_owned(), first.clone(), last.clone());
    std::iter::once(moves).chain(kinds.map(ask)).collect()
}

/// Returns the statement that reads the records that are exported with a thread.
pub(crate) fn exported(org: &OrgId, thread: &ThreadId) -> Ask {
    let (first, last) = of_thread(thread);
    let kinds: Vec<String> = EXPORTED_KINDS.map(str::to_owned).into();
    let sql = "SELECT kind, key, version, at, format, content FROM effects
               WHERE org = $1 AND kind = ANY ($2) AND key BETWEEN $3 AND $4
               ORDER BY kind, key, version";
    ask!(sql, text(org), kinds, first, last)
}

/// Returns the statements that replace the records of sequences by those of an imported thread.
pub(crate) fn imports(org: &OrgId, rows: &[SequenceRow]) -> Vec<Ask> {
    let mut asks = Vec::new();
    for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
        let Some(last) = rows.last() else { continue };
        let Sequence { kind, key } = last.sequence.clone();
        let sql = "DELETE FROM effects WHERE org = $1 AND kind = $2 AND key = $3";
        asks.push(ask!(sql, text(org), kind.clone(), key.clone()));
        let sql = "INSERT INTO sequences (org, kind, key, version) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (org, kind, key) DO UPDATE
                   SET version = greatest(sequences.version, excluded.version)";
        asks.push(ask!(sql, text(org), kind, key, int(last.version)));
        for row in rows {
            let Sequence { kind, key } = row.sequence.clone();
            let sql = "INSERT INTO effects (org, kind, key, version, at, format, content)
                       VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let format = i64::from(row.content.format);
            let bytes = row.content.bytes.clone();
            let version = int(row.version);
            asks.push(ask!(sql, text(org), kind, key, version, row.at.0, format, bytes));
        }
    }
    asks
}

fn one(org: &OrgId, number: usize, write: &SequenceWrite, at: Timestamp) -> Result<Ask> {
    check_name(&write.to)?;
    let sql = "SELECT apply_effect($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let Sequence { kind, key } = write.to.clone();
    let (deletes_to, content) = match &write.change {
        Change::Append(content) => (None, Some(content)),
        Change::Replace(content) => (Some(i64::MAX), Some(content)),
        Change::Delete { up_to } => (Some(int(*up_to)), None),
    };
    let format = content.map(|content| i64::from(content.format));
    let bytes = content.map(|content| content.bytes.clone());
    let expected = write.expected.map(int);
    let number = int(number);
    Ok(ask!(sql, number, text(org), kind, key, expected, deletes_to, at.0, format, bytes))
}

/// Converts the result of statements with those of writes: a refusal by `apply_effect` becomes a
/// store error.
pub(crate) async fn checked<T>(
    conn: &mut Conn,
    writes: &[SequenceWrite],
    done: Done<T>,
) -> Done<T> {
    let refused = |fail: &Fail| {
        let (number, found) = fail.refused(WRONG_VERSION)?.split_once(' ')?;
        let write = writes.get(number.parse::<usize>().ok()?)?;
        Some(wrong_version(write, found.parse().ok()?))
    };
    let Some(error) = done.as_ref().err().and_then(refused) else { return done };
    conn.tidy().await?;
    Err(error.into())
}

pub(crate) fn read(row: &Row) -> Result<SequenceRow> {
    columns::read_sequence_row(row)
}
