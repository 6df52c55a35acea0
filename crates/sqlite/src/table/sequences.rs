use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use rusqlite::{Connection, Row, params};
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::remote::{REMOTE_DELETIONS, REMOTE_ID_CHARS, REMOTE_THREADS};
use weftwork_store::sequence::{
    Change, Content, EXPORTED_KINDS, KINDS_OF_THREADS, Sequence, SequenceQuery, SequenceRow,
    SequenceTable, SequenceWrite, of_thread, version_after,
};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

impl SequenceTable for SqliteStore {
    fn sequence_rows<'a>(
        &'a self,
        who: &'a Principal,
        query: SequenceQuery,
    ) -> BoxFuture<'a, Result<Vec<SequenceRow>>> {
        let org = who.org.clone();
        self.read(move |conn| {
            let sql = "SELECT * FROM effects
                       WHERE org = ?1 AND kind = ?2 AND (key, version) > (?3, ?4)
                           AND (?5 IS NULL OR key <= ?5)
                       ORDER BY key, version LIMIT ?6";
            let SequenceQuery { kind, first, last, after, .. } = &query;
            let limit = row::int(query.reads());
            let asked = params![org.as_str(), kind, first, row::int(*after), last, limit];
            row::all(conn, sql, asked, read)
        })
    }

    fn effect_version<'a>(
        &'a self,
        who: &'a Principal,
        sequence: &'a Sequence,
    ) -> BoxFuture<'a, Result<u64>> {
        let org = who.org.clone();
        let sequence = sequence.clone();
        self.look(move |conn| version(conn, &org, &sequence))
    }

    fn write_sequences<'a>(
        &'a self,
        who: &'a Principal,
        writes: Vec<SequenceWrite>,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        self.write(move |conn| apply(conn, &org, &writes, at))
    }
}

/// Applies writes, one after the other.
pub(crate) fn apply(
    conn: &Connection,
    org: &OrgId,
    writes: &[SequenceWrite],
    at: Timestamp,
) -> Done<()> {
    for write in writes {
        let before = version(conn, org, &write.to)?;
        let after = version_after(write, before)?;
        let sequence = &write.to;
        match &write.change {
            Change::Delete { up_to } => delete(conn, org, &write.to, *up_to)?,
            Change::Append(content) => {
                insert(conn, org, &NewEffect { sequence, version: after, content, at })?;
            }
            Change::Replace(content) => {
                delete(conn, org, &write.to, before)?;
                insert(conn, org, &NewEffect { sequence, version: after, content, at })?;
            }
        }
    }
    Ok(())
}

fn version(conn: &Connection, org: &OrgId, Sequence { kind, key }: &Sequence) -> Done<u64> {
    let sql = "SELECT version FROM sequences WHERE org = ?1 AND kind = ?2 AND key = ?3";
    let found = row::one(conn, sql, params![org.as_str(), kind, key], |row| {
        Ok(At::new("sequences", &key).plain(row, "version")?)
    })?;
    Ok(found.unwrap_or_default())
}

fn delete(
    conn: &Connection,
    org: &OrgId,
    Sequence { kind, key }: &Sequence,
    up_to: u64,
) -> Done<()> {
    let sql = "DELETE FROM effects WHERE org = ?1 AND kind = ?2 AND key = ?3 AND version <= ?4";
    row::execute(conn, sql, params![org.as_str(), kind, key, row::int(up_to)])?;
    Ok(())
}

/// Deletes the sequences of a thread, and makes its records of remote threads records of their
/// deletions.
pub(crate) fn delete_of(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    let (first, last) = of_thread(thread);
    let sql = "INSERT INTO effects (org, kind, key, version, at, format, content)
               SELECT ?1, ?2, substr(key, -?3), version, at, format, content FROM effects
               WHERE org = ?4 AND kind = ?5 AND key BETWEEN ?6 AND ?7";
    let workers = Principal::of_workers().org;
    let id_chars = row::int(REMOTE_ID_CHARS);
    let moved = params![
        workers.as_str(),
        REMOTE_DELETIONS,
        id_chars,
        org.as_str(),
        REMOTE_THREADS,
        first,
        last
    ];
    row::execute(conn, sql, moved)?;
    for kind in KINDS_OF_THREADS.into_iter().chain([REMOTE_THREADS]) {
        for table in ["effects", "sequences"] {
            let sql = format!(
                "DELETE FROM {table} WHERE org = ?1 AND kind = ?2 AND key BETWEEN ?3 AND ?4"
            );
            row::execute(conn, &sql, params![org.as_str(), kind, first, last])?;
        }
    }
    Ok(())
}

/// Returns the records that are exported with a thread.
pub(crate) fn exported(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
) -> Done<Vec<SequenceRow>> {
    let (first, last) = of_thread(thread);
    let sql = "SELECT * FROM effects WHERE org = ?1 AND kind = ?2 AND key BETWEEN ?3 AND ?4
               ORDER BY key, version";
    let mut rows = Vec::new();
    for kind in EXPORTED_KINDS {
        rows.extend(row::all(conn, sql, params![org.as_str(), kind, first, last], read)?);
    }
    Ok(rows)
}

/// Replaces the records of sequences by those of an imported thread.
pub(crate) fn import(conn: &Connection, org: &OrgId, rows: &[SequenceRow]) -> Done<()> {
    for row in rows {
        delete(conn, org, &row.sequence, u64::MAX)?;
    }
    for SequenceRow { sequence, version, at, content } in rows {
        insert(conn, org, &NewEffect { sequence, version: *version, content, at: *at })?;
    }
    Ok(())
}

/// A record to be written, with the version of its sequence after the write.
struct NewEffect<'a> {
    sequence: &'a Sequence,
    version: u64,
    content: &'a Content,
    at: Timestamp,
}

fn insert(conn: &Connection, org: &OrgId, new: &NewEffect<'_>) -> Done<()> {
    let NewEffect { sequence: Sequence { kind, key }, version, content, at } = new;
    let org = org.as_str();
    let version = row::int(*version);
    let sql = "INSERT INTO effects (org, kind, key, version, at, format, content)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let values = params![org, kind, key, version, at.0, content.format, content.bytes];
    row::execute(conn, sql, values)?;
    let sql = "INSERT INTO sequences (org, kind, key, version) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (org, kind, key) DO UPDATE SET version = max(version, excluded.version)";
    row::execute(conn, sql, params![org, kind, key, version])?;
    Ok(())
}

pub(crate) fn read(row: &Row<'_>) -> Done<SequenceRow> {
    Ok(columns::read_sequence_row(row)?)
}
