//! Requeuing of runs.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, json, text, word};
use crate::table::{commit, runs, threads};
use weftwork_store::Result;
use weftwork_store::{Claim, RunRow, invariants};
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{OrgId, Principal, Timestamp};

/// A release of a run by its worker.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) org: OrgId,
    pub(crate) claim: Claim,
    pub(crate) at: Timestamp,
    pub(crate) mark: Vec<u8>,
}

/// A requeue of a failed run.
#[derive(Debug)]
pub(crate) struct Requeue {
    pub(crate) who: Principal,
    pub(crate) at: RunRef,
    pub(crate) now: Timestamp,
    pub(crate) mark: Vec<u8>,
}

/// Returns the statements that set a run to pending, given that its thread is locked. The first one
/// returns the number of the event that reports it.
fn put(org: &OrgId, at: &RunRef, told: &AiEvent, now: Timestamp, mark: &[u8]) -> Result<[Ask; 3]> {
    let org = text(org);
    let run = text(&at.run);
    let thread = text(&at.thread);
    let status = word(&RunStatus::Pending)?;
    let follows = "UPDATE threads SET status = $3, updated_at = $4, mark = $5, seq = seq + 1,
                       wakes_at = NULL
                   WHERE org = $1 AND id = $2 RETURNING seq";
    let pending = "UPDATE runs SET status = $3, worker = NULL, outcome = NULL, ended_at = NULL,
                       last_checkpoint = NULL
                   WHERE org = $1 AND id = $2";
    let tells = "INSERT INTO events (org, run, last_seq, first_seq, at, events)
                 SELECT $1, $2, seq, seq, $4, $5 FROM threads WHERE org = $1 AND id = $3";
    Ok([
        ask!(follows, org.clone(), thread.clone(), status.clone(), now.0, mark.to_vec()),
        ask!(pending, org.clone(), run.clone(), status),
        ask!(tells, org, run, thread, now.0, json(&[told])?),
    ])
}

pub(crate) async fn release(conn: &mut Conn, release: &Release, before: Before) -> Done<u64> {
    let Release { org, claim, at, mark } = release;
    let place = At::new("threads", &claim.at.thread);
    if before == Before::Doubt {
        let rows = conn.write(vec![threads::lock(org, &claim.at.thread)]).await?;
        if let Some(row) = rows.first().and_then(|rows| rows.first())
            && place.plain::<Option<&[u8]>>(row, "mark")? == Some(mark)
        {
            return Ok(place.count(row, "seq")?);
        }
    }
    let told = AiEvent::Released { claim: claim.fence };
    let mut asks = vec![commit::hold(org, claim)];
    asks.extend(put(org, &claim.at, &told, *at, mark)?);
    let written = conn.write(asks).await;
    let answers = commit::checked(conn, org, claim, written).await?;
    let row = answers.get(1).and_then(|rows| rows.first());
    let row = row.ok_or_else(|| place.corrupt("a release gave no answer"))?;
    Ok(place.count(row, "seq")?)
}

pub(crate) async fn requeue(conn: &mut Conn, requeue: &Requeue, before: Before) -> Done<RunRow> {
    let Requeue { who, at, now, mark } = requeue;
    let org = &who.org;
    let found = conn
        .begin(vec![
            threads::lock(org, &at.thread),
            runs::one(org, at),
            runs::open_run(org, &at.thread),
            runs::last(org, &at.thread),
            threads::one(org, &at.thread),
        ])
        .await?;
    let [lock, row, open, last, thread] = found.as_slice() else {
        return Err(At::new("runs", &at.run).corrupt("an answer is missing").into());
    };
    let mut row = runs::read(row.first().ok_or_else(|| invariants::missing("run", &at.run))?)?;
    if before == Before::Doubt
        && let Some(lock) = lock.first()
        && At::new("threads", &at.thread).plain::<Option<&[u8]>>(lock, "mark")? == Some(mark)
    {
        return Ok(row);
    }
    if let Some(open) = open.first() {
        return Err(invariants::busy(&runs::named(open, &at.thread)?).into());
    }
    let last = last.first().map(|last| runs::named(last, &at.thread)).transpose()?;
    let thread = thread.first().map(threads::read).transpose()?;
    let metadata = thread.map(|thread| thread.metadata).unwrap_or_default();
    invariants::check_requeue(at, row.status, last.as_ref() == Some(at), &metadata)?;
    let told = AiEvent::Requeued { by: who.subject.clone() };
    let forget = "UPDATE runs SET cancel_requested = false WHERE org = $1 AND id = $2";
    let mut asks = vec![ask!(forget, text(org), text(&at.run))];
    asks.extend(put(org, at, &told, *now, mark)?);
    conn.commit(asks).await?;
    (row.status, row.worker) = (RunStatus::Pending, None);
    (row.outcome, row.ended_at, row.cancel_requested) = (None, None, false);
    row.last_checkpoint = None;
    Ok(row)
}
