//! Partial text that runs emitted since their last durable event.

use crate::error::Done;
use crate::row::{self, At};
use rusqlite::{Connection, Row, params};
use weftwork_store::columns;
use weftwork_store::{Commit, invariants};
use weftwork_types::event::{Piece, Position};
use weftwork_types::run::RunRef;
use weftwork_types::{OrgId, RunId};

/// Deletes void text and stores new text. Most commits have neither.
pub(crate) fn write(conn: &Connection, org: &OrgId, run: &RunId, commit: &Commit) -> Done<()> {
    let org = org.as_str();
    let run = run.as_str();
    if let Some(void) = commit.void {
        let sql = "DELETE FROM pieces WHERE org = ?1 AND run = ?2 AND (seq, bytes) <= (?3, ?4)";
        row::execute(conn, sql, params![org, run, row::int(void.seq), row::int(void.bytes)])?;
    }
    if let Some(last) = commit.pieces.last() {
        let sql = "INSERT OR REPLACE INTO pieces (org, run, seq, bytes, pieces)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let Position { seq, bytes, .. } = last.at.end;
        let pieces = row::json(&commit.pieces)?;
        row::execute(conn, sql, params![org, run, row::int(seq), row::int(bytes), pieces])?;
    }
    Ok(())
}

/// Returns partial text of a run that ends after a position.
pub(crate) fn read(
    conn: &Connection,
    org: &OrgId,
    at: &RunRef,
    after: Position,
    limit: usize,
) -> Done<Vec<Piece>> {
    let sql = "SELECT 1 FROM runs WHERE org = ?1 AND id = ?2 AND thread = ?3";
    let key = params![org.as_str(), at.run.as_str(), at.thread.as_str()];
    row::one(conn, sql, key, |_| Ok(()))?.ok_or_else(|| invariants::missing("run", &at.run))?;
    let sql = "SELECT * FROM pieces WHERE org = ?1 AND run = ?2 AND (seq, bytes) > (?3, ?4)
               ORDER BY seq, bytes";
    let mut statement = conn.prepare_cached(sql)?;
    let seq = row::int(after.seq);
    let bytes = row::int(after.bytes);
    let mut rows = statement.query(params![org.as_str(), at.run.as_str(), seq, bytes])?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        let some = batch(row)?.into_iter().filter(|piece| piece.at.end > after);
        found.extend(some.take(limit - found.len()));
    }
    Ok(found)
}

/// Reads the partial text of one commit.
pub(crate) fn batch(row: &Row<'_>) -> Done<Vec<Piece>> {
    let run: RunId = At::new("pieces", &"the run of a row").id(row, "run")?;
    Ok(columns::read_piece_batch(row, &run)?)
}
