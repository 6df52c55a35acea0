//! Partial text that runs emitted since their last durable event.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{int, json, text};
use weftwork_store::columns;
use weftwork_store::{Commit, StoreError, invariants};
use weftwork_types::event::{Piece, Position};
use weftwork_types::run::RunRef;
use weftwork_types::{OrgId, RunId};

/// Returns `true` if a commit adds or voids partial text; most do not.
pub(crate) fn any(commit: &Commit) -> bool {
    commit.void.is_some() || !commit.pieces.is_empty()
}

/// Deletes void text and stores new text.
pub(crate) fn asks(org: &OrgId, run: &RunId, commit: &Commit) -> Result<Vec<Ask>, StoreError> {
    let mut asks = Vec::new();
    if let Some(Position { seq, bytes, .. }) = commit.void {
        let sql = "DELETE FROM pieces WHERE org = $1 AND run = $2 AND (seq, bytes) <= ($3, $4)";
        asks.push(ask!(sql, text(org), text(run), int(seq), int(bytes)));
    }
    if let Some(last) = commit.pieces.last() {
        let sql = "INSERT INTO pieces (org, run, seq, bytes, pieces) VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (org, run, seq, bytes) DO UPDATE SET pieces = excluded.pieces";
        let Position { seq, bytes, .. } = last.at.end;
        let pieces = json(&commit.pieces)?;
        asks.push(ask!(sql, text(org), text(run), int(seq), int(bytes), pieces));
    }
    Ok(asks)
}

/// Returns partial text of a run that ends after a position.
pub(crate) async fn read(
    conn: &mut Conn,
    org: &OrgId,
    at: &RunRef,
    after: Position,
    limit: usize,
) -> Done<Vec<Piece>> {
    let there = "SELECT 1 FROM runs WHERE org = $1 AND id = $2 AND thread = $3";
    // Each row has at least one piece.
    let sql = "SELECT seq, bytes, pieces FROM pieces
               WHERE org = $1 AND run = $2 AND (seq, bytes) > ($3, $4)
               ORDER BY seq, bytes LIMIT $5";
    let run = text(&at.run);
    let thread = text(&at.thread);
    let seq = int(after.seq);
    let bytes = int(after.bytes);
    let asks = vec![
        ask!(there, text(org), run.clone(), thread),
        ask!(sql, text(org), run, seq, bytes, int(limit)),
    ];
    let found = conn.read(asks).await?;
    let [there, rows] = found.as_slice() else { return Ok(Vec::new()) };
    if there.is_empty() {
        return Err(invariants::missing("run", &at.run).into());
    }
    let mut found = Vec::new();
    for row in rows {
        let some = columns::read_piece_batch(row, &at.run)?
            .into_iter()
            .filter(|piece| piece.at.end > after);
        found.extend(some.take(limit - found.len()));
    }
    Ok(found)
}
