//! Export and import of complete threads.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, bytes, int, json, text};
use crate::store::PostgresStore;
use crate::table::{
    accept, calls, checkpoint_write, events, interrupts, runs, sequences, threads, usage,
};
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::{
    CheckpointBatch, ExportThreads, ImportThreads, InterruptRow, NewCheckpoint, NewPending,
    Pending, RunExport, StoredEvent, ThreadExport, invariants,
};
use weftwork_types::canonical::Hash;
use weftwork_types::event::StoredForm;
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, RunId, ThreadId};

impl ExportThreads for PostgresStore {
    fn export_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>> {
        self.run((who.org.clone(), id.clone()), |conn, (org, id), _| Box::pin(read(conn, org, id)))
    }
}

impl ImportThreads for PostgresStore {
    fn import_thread<'a>(
        &'a self,
        who: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>> {
        let mark = self.mark();
        Box::pin(async move {
            let args = (who.org.clone(), whole.checked()?, mark);
            self.run(args, |conn, (org, whole, mark), before| {
                Box::pin(put(conn, org, whole, mark, before))
            })
            .await
        })
    }
}

const EVENTS: &str = "SELECT run, last_seq, first_seq, at, events FROM events
     WHERE org = $1 AND run IN (SELECT id FROM runs WHERE org = $1 AND thread = $2)
     ORDER BY run, last_seq";
const CHECKPOINTS: &str = "SELECT ns, id, of, tasks, body, blobs FROM checkpoints
     WHERE org = $1 AND thread = $2 ORDER BY ns, id";
const PENDING: &str = "SELECT ns, of, outside, body, blobs FROM pending
     WHERE org = $1 AND thread = $2 ORDER BY ns, of, number";
const BLOBS: &str = "SELECT hash, body FROM blobs WHERE org = $1 AND hash IN (
         SELECT unnest(blobs) FROM checkpoints WHERE org = $1 AND thread = $2 AND blobs <> '{}'
         UNION ALL
         SELECT unnest(blobs) FROM pending WHERE org = $1 AND thread = $2 AND blobs <> '{}')";

async fn read(conn: &mut Conn, org: &OrgId, id: &ThreadId) -> Done<ThreadExport> {
    let of = |sql| ask!(sql, text(org), text(id));
    let found = conn
        .read(vec![
            threads::one(org, id),
            runs::of_thread(org, id),
            of(EVENTS),
            interrupts::of_thread(org, id),
            calls::of_thread(org, id),
            of(CHECKPOINTS),
            of(PENDING),
            of(BLOBS),
            usage::of_thread(org, id),
            sequences::exported(org, id),
        ])
        .await?;
    let [thread, run_rows, events, asked, called, checkpoints, pending, blobs, used, records] =
        found.as_slice()
    else {
        return Err(At::new("threads", id).corrupt("an answer is missing").into());
    };
    let thread = thread.first().ok_or_else(|| invariants::missing("thread", id))?;
    let name = format!("thread `{id}`");
    let runs = run_rows.iter().map(|row| {
        let subject = columns::read_creator(row)?.subject;
        let row = runs::read(row)?;
        let events = events_of(events, &row.new.at.run, &name)?;
        Ok(RunExport { subject, row, events })
    });
    let checkpoints = checkpoints.iter().map(|row| checkpoint(row, &name));
    let pending = pending.iter().map(|row| part(row, &name));
    let at = At::new("blobs", &name);
    let blobs = blobs.iter().map(|row| Ok((at.hash(row, "hash")?, at.plain(row, "body")?)));
    let kept = CheckpointBatch {
        checkpoints: checkpoints.collect::<Done<_>>()?,
        pending: pending.collect::<Done<_>>()?,
        blobs: blobs.collect::<Done<_>>()?,
        layouts: Vec::new(),
    };
    let whole = ThreadExport {
        thread: threads::read(thread)?,
        runs: runs.collect::<Done<_>>()?,
        interrupts: asked.iter().map(|row| interrupts::read(row, id)).collect::<Done<_>>()?,
        calls: called.iter().map(|row| calls::read(row, id)).collect::<Result<_>>()?,
        kept,
        usage: used.iter().map(usage::read).collect::<Done<_>>()?,
        records: records.iter().map(sequences::read).collect::<Result<_>>()?,
    };
    Ok(whole.checked()?)
}

fn events_of(rows: &[Row], run: &RunId, name: &str) -> Done<Vec<StoredEvent>> {
    let mut found = Vec::new();
    for row in rows {
        if At::new("events", &name).plain::<&str>(row, "run")? == run.as_str() {
            found.extend(events::batch(row, run)?);
        }
    }
    Ok(found)
}

fn checkpoint(row: &Row, name: &str) -> Done<NewCheckpoint> {
    let at = At::new("checkpoints", &name);
    Ok(NewCheckpoint {
        ns: at.plain(row, "ns")?,
        id: CheckpointId(at.bits(row, "id")?),
        of: at.maybe_bits(row, "of")?.map(CheckpointId),
        tasks: at.plain(row, "tasks")?,
        body: at.plain(row, "body")?,
        blobs: hashes(row, &at)?,
    })
}

fn part(row: &Row, name: &str) -> Done<NewPending> {
    let at = At::new("pending", &name);
    let outside: bool = at.plain(row, "outside")?;
    Ok(NewPending {
        ns: at.plain(row, "ns")?,
        of: CheckpointId(at.bits(row, "of")?),
        what: if outside { Pending::Outside } else { Pending::Tasks },
        body: at.plain(row, "body")?,
        blobs: hashes(row, &at)?,
    })
}

fn hashes(row: &Row, at: &At<'_>) -> Done<Vec<Hash>> {
    let found: Vec<&[u8]> = at.plain(row, "blobs")?;
    let hash = |bytes: &[u8]| {
        let whole = <[u8; 32]>::try_from(bytes).map(Hash);
        Ok(whole.map_err(|_| at.corrupt("column `blobs`: it holds no hashes"))?)
    };
    found.into_iter().map(hash).collect()
}

async fn put(
    conn: &mut Conn,
    org: &OrgId,
    whole: &ThreadExport,
    mark: &[u8],
    before: Before,
) -> Done<()> {
    let id = &whole.thread.id;
    let kept = "SELECT 1 FROM checkpoints WHERE org = $1 AND thread = $2
                UNION ALL SELECT 1 FROM pending WHERE org = $1 AND thread = $2 LIMIT 1";
    let ids = whole.runs.iter().map(|run| text(&run.row.new.at.run)).collect::<Vec<_>>();
    let keys = whole.runs.iter().filter_map(|run| run.row.new.options.idempotency_key.clone());
    let by_id = "SELECT id FROM runs WHERE org = $1 AND id = ANY ($2)";
    let by_key = "SELECT idempotency_key FROM runs WHERE org = $1 AND idempotency_key = ANY ($2)";
    let found = conn
        .begin(vec![
            threads::lock(org, id),
            checkpoint_write::lock_thread(org, id),
            // Repeated: while the thread had no row, only the other lock excluded concurrent
            // writes.
            threads::lock(org, id),
            ask!(kept, text(org), text(id)),
            ask!(by_id, text(org), ids),
            ask!(by_key, text(org), keys.collect::<Vec<_>>()),
        ])
        .await?;
    let [_, _, thread, kept, by_id, by_key] = found.as_slice() else {
        return Err(At::new("threads", id).corrupt("an answer is missing").into());
    };
    if let Some(row) = thread.first() {
        let ours = At::new("threads", id).plain::<Option<&[u8]>>(row, "mark")? == Some(mark);
        if before == Before::Doubt && ours {
            return Ok(());
        }
    }
    if !(thread.is_empty() && kept.is_empty()) {
        return Err(invariants::thread_exists(id).into());
    }
    if let Some(row) = by_id.first() {
        let taken: &str = At::new("runs", id).plain(row, "id")?;
        let is_it = |run: &&RunExport| run.row.new.at.run.as_str() == taken;
        let run =
            whole.runs.iter().find(is_it).map(|run| invariants::run_id_reused(&run.row.new.at));
        return Err(run.unwrap_or_else(|| invariants::thread_exists(id)).into());
    }
    if let Some(row) = by_key.first() {
        let taken: &str = At::new("runs", id).plain(row, "idempotency_key")?;
        return Err(invariants::key_reused(taken).into());
    }
    conn.commit(inserts(org, whole, mark)?).await?;
    Ok(())
}

fn inserts(org: &OrgId, whole: &ThreadExport, mark: &[u8]) -> Result<Vec<Ask>> {
    let id = &whole.thread.id;
    let mut asks = vec![threads::insert(org, &whole.thread, whole.last_seq(), mark)?];
    for made in &whole.runs {
        asks.push(accept::inserts(org, &made.subject, &made.row)?);
        // Events of one commit have the same time, and were in one row.
        for batch in made.events.chunk_by(|a, b| a.at == b.at) {
            asks.push(batch_of(org, &made.row.new.at.run, batch)?);
        }
    }
    for row in &whole.interrupts {
        asks.push(interrupt(org, id, row)?);
    }
    for call in &whole.calls {
        asks.push(calls::record(org, id, call)?);
    }
    asks.extend(checkpoint_write::asks(org, id, &whole.kept, mark));
    for row in &whole.usage {
        asks.push(usage::record(org, row)?);
    }
    asks.extend(sequences::imports(org, &whole.records));
    Ok(asks)
}

fn batch_of(org: &OrgId, run: &RunId, batch: &[StoredEvent]) -> Result<Ask> {
    let sql = "INSERT INTO events (org, run, last_seq, first_seq, at, events)
               VALUES ($1, $2, $3, $4, $5, $6)";
    let events: Vec<_> = batch.iter().map(|stored| StoredForm(&stored.event)).collect();
    let seq = |stored: Option<&StoredEvent>| int(stored.map_or(0, |stored| stored.seq));
    let at = batch.first().map_or(0, |stored| stored.at.0);
    let first = seq(batch.first());
    let last = seq(batch.last());
    Ok(ask!(sql, text(org), text(run), last, first, at, json(&events)?))
}

fn interrupt(org: &OrgId, thread: &ThreadId, asked: &InterruptRow) -> Result<Ask> {
    let sql = "INSERT INTO interrupts (org, thread, id, run, interrupt, answer, closed)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let id = bytes(asked.interrupt.id.0);
    let run = text(&asked.run);
    let answer = asked.answer.as_ref().map(json).transpose()?;
    let record = json(&asked.interrupt)?;
    Ok(ask!(sql, text(org), text(thread), id, run, record, answer, asked.closed))
}
