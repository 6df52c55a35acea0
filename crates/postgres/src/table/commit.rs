use crate::conn::{Ask, Conn, Value, ask};
use crate::error::{Done, Fail};
use crate::pool::Before;
use crate::row::{At, bytes, int, json, text, word};
use crate::table::{calls, checkpoint_write, interrupts, pieces, sequences, threads, usage};
use weftwork_store::invariants::{self, Holder};
use weftwork_store::{Claim, Commit, Committed, NewCheckpoint, StoreError};
use weftwork_types::event::StoredForm;
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::{OrgId, WorkerId};

/// Error code of `hold` if the claim is not the newest, or the run has ended or does not exist.
const NOT_OURS: &str = "WF001";

/// A commit to be written.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) org: OrgId,
    pub(crate) claim: Claim,
    pub(crate) commit: Commit,
    pub(crate) mark: Vec<u8>,
}

/// Locks the thread, and aborts the transaction if the claim is not the newest; see [`checked`].
pub(crate) fn hold(org: &OrgId, claim: &Claim) -> Ask {
    Ask::new("SELECT hold($1, $2, $3, $4, $5)", holding(org, claim))
}

/// Returns the parameters of `hold`.
pub(crate) fn holding(org: &OrgId, claim: &Claim) -> Vec<Value> {
    vec![
        Box::new(text(org)),
        Box::new(text(&claim.at.thread)),
        Box::new(text(&claim.at.run)),
        Box::new(text(&claim.worker)),
        Box::new(int(claim.fence)),
    ]
}

/// Converts the result of statements that started with [`hold`]: a refusal by `hold` becomes a
/// store error.
pub(crate) async fn checked<T>(
    conn: &mut Conn,
    org: &OrgId,
    claim: &Claim,
    done: Done<T>,
) -> Done<T> {
    match done {
        Err(fail) if fail.refused(NOT_OURS).is_some() => {
            conn.tidy().await?;
            Err(refused(conn, org, claim, fail).await?)
        }
        done => done,
    }
}

async fn refused(conn: &mut Conn, org: &OrgId, claim: &Claim, fail: Fail) -> Done<Fail> {
    let sql = "SELECT status, worker, fence FROM runs
               WHERE org = $1 AND id = $2 AND thread = $3";
    let run = text(&claim.at.run);
    let thread = text(&claim.at.thread);
    let rows = conn.rows(ask!(sql, text(org), run.clone(), thread)).await?;
    let Some(row) = rows.first() else { return Ok(invariants::missing("run", run).into()) };
    let name = format!("run `{run}`");
    let at = At::new("runs", &name);
    let status = at.word(row, "status")?;
    let fence = at.count(row, "fence")?;
    let worker: Option<WorkerId> = at.maybe_id(row, "worker")?;
    // Fences only increase and ended runs stay ended, so the check fails now, too.
    let check = invariants::check_claim(claim, Holder { status, worker: worker.as_ref(), fence });
    Ok(check.err().map_or(fail, Fail::from))
}

/// Writes a commit, in one round trip.
pub(crate) async fn commit(conn: &mut Conn, write: &Write, before: Before) -> Done<Committed> {
    if before == Before::Doubt
        && let Some(committed) = found(conn, write).await?
    {
        return Ok(committed);
    }
    let written = conn.write(asks(write)?).await;
    let written = sequences::checked(conn, &write.commit.sequence_writes, written).await;
    let answers = checked(conn, &write.org, &write.claim, written).await?;
    let row = answers.first().and_then(|rows| rows.first());
    let at = At::new("threads", &write.claim.at.thread);
    let row = row.ok_or_else(|| at.corrupt("a commit gave no answer"))?;
    Ok(Committed {
        first_seq: at.count::<u64>(row, "seq")? + 1,
        cancel_requested: at.plain(row, "cancel_requested")?,
    })
}

/// Returns the result of an earlier attempt of this commit if it took effect. Waits for an attempt
/// that is still in progress.
async fn found(conn: &mut Conn, write: &Write) -> Done<Option<Committed>> {
    let Write { org, claim, commit, mark } = write;
    let sql = "SELECT t.seq, t.mark, r.cancel_requested FROM threads t, runs r
               WHERE t.org = $1 AND t.id = $2 AND r.org = $1 AND r.id = $3 FOR UPDATE OF t";
    let thread = text(&claim.at.thread);
    let run = text(&claim.at.run);
    let rows = conn.write(vec![ask!(sql, text(org), thread, run)]).await?;
    let Some(row) = rows.first().and_then(|rows| rows.first()) else { return Ok(None) };
    let at = At::new("threads", &claim.at.thread);
    if at.plain::<Option<&[u8]>>(row, "mark")? != Some(mark) {
        return Ok(None);
    }
    let next = at.count::<u64>(row, "seq")? + 1;
    Ok(Some(Committed {
        first_seq: next.saturating_sub(commit.events.len() as u64),
        cancel_requested: at.plain(row, "cancel_requested")?,
    }))
}

/// Returns the statements of a commit: first the claim, closed questions, events, outcome and the
/// thread's row; then checkpoints, calls, usage, partial text and new questions.
fn asks(write: &Write) -> Result<Vec<Ask>, StoreError> {
    let Write { org, claim, commit, mark } = write;
    let thread = &claim.at.thread;
    if let Some(new) = checkpoint_write::alone(&commit.batch)
        && commit.calls.is_empty()
        && commit.usage.is_empty()
        && commit.interrupts.is_empty()
        && commit.sequence_writes.is_empty()
        && commit.wakes_at.is_none()
        && !pieces::any(commit)
    {
        return Ok(vec![usual(write, new)?]);
    }
    let mut asks = vec![Ask::new(
        "SELECT seq, cancel_requested
         FROM commit_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        every(write)?,
    )];
    asks.extend(checkpoint_write::asks(org, thread, &commit.batch, mark));
    for call in &commit.calls {
        asks.push(calls::record(org, thread, call)?);
    }
    for row in &commit.usage {
        asks.push(usage::record(org, row)?);
    }
    if let (Some(wakes_at), true) = (commit.wakes_at, commit.finish.is_some()) {
        asks.push(threads::wakes_at(org, thread, wakes_at));
    }
    asks.extend(pieces::asks(org, &claim.at.run, commit)?);
    for interrupt in &commit.interrupts {
        asks.push(interrupts::open(org, &claim.at, interrupt, commit.keeps_asking_run())?);
    }
    asks.extend(sequences::asks(org, &commit.sequence_writes, commit.at)?);
    Ok(asks)
}

/// Returns the statement for most commits: one checkpoint, with optional events and outcome.
fn usual(write: &Write, new: &NewCheckpoint) -> Result<Ask, StoreError> {
    let sql = "SELECT c.seq, c.cancel_requested, put($1, $2, $14, $15, $16, $17, $18)
               FROM commit_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) c";
    let mut values = every(write)?;
    values.extend(checkpoint_write::values(new));
    Ok(Ask::new(sql, values))
}

/// Returns the parameters of `commit_run`.
fn every(write: &Write) -> Result<Vec<Value>, StoreError> {
    let Write { org, claim, commit, mark } = write;
    let leaves_step = !commit.batch.checkpoints.is_empty() || commit.finish.is_some();
    let status = commit.finish.as_ref().map_or(RunStatus::Running, RunOutcome::status);
    let events: Vec<_> = commit.events.iter().map(StoredForm).collect();
    let events = (!events.is_empty()).then(|| json(&events)).transpose()?;
    let head = checkpoint_write::head(&commit.batch);
    let mut values = holding(org, claim);
    let more: [Value; 8] = [
        Box::new(commit.at.0),
        Box::new(mark.clone()),
        Box::new(head.map(|id| bytes(id.0))),
        Box::new(leaves_step),
        Box::new(events),
        Box::new(int(commit.events.len())),
        Box::new(word(&status)?),
        Box::new(commit.finish.as_ref().map(json).transpose()?),
    ];
    values.extend(more);
    Ok(values)
}
