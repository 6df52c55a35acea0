//! Ending runs that nobody works on.

use crate::error::StoreError;
use crate::record::{Claim, Commit};
use crate::rule;
use crate::table::{Result, Store};
use std::collections::BTreeSet;
use weftwork_types::event::{AiEvent, Position};
use weftwork_types::run::{RunFinal, RunRef, RunStatus};
use weftwork_types::{Principal, Timestamp, WorkerId};

/// How many pieces are read at once.
const PIECES_AT_ONCE: usize = 1_000;

/// Ends a run as cancelled that no living worker has, without its graph: for threads that go on no
/// more, because their agent is gone or because they are to be deleted. What the run has committed
/// stays, and questions that nobody answered stay open. The worker that ends it need not be
/// registered; when it is not, it counts as dead, and another one may take the run before.
///
/// # Errors
/// [`StoreError::Busy`] while a living worker has the run, another one took it in this moment, or a
/// run before it has not ended; [`StoreError::NotFound`] when it does not exist or has ended.
///
/// # Cancel safety
/// When dropped, the run is as it was, or has ended, or is one whose worker is dead.
pub async fn cancel_orphan(
    store: &dyn Store,
    who: &Principal,
    at: &RunRef,
    (worker, now): (&WorkerId, Timestamp),
) -> Result<()> {
    let row = store.run(who, at).await?;
    if row.fence == 0 && row.clears() {
        // With its first claim it would take back what the thread has.
        store.request_cancel(who, at).await?;
    }
    let (claim, _) = store.claim(who, at, worker, now).await?;
    let resets = speaking(store, who, &claim).await?.into_iter();
    let resets = resets.map(|node| AiEvent::AttemptReset { node });
    let done = AiEvent::Done { outcome: RunStatus::Cancelled };
    let rows = store.interrupts(who, &at.thread).await?.into_iter();
    let open = rows.filter(|row| row.answer.is_none() && !row.closed);
    let commit = Commit {
        interrupts: open.map(|row| row.interrupt).collect(),
        events: resets.chain([done]).collect(),
        void: Some(Position::END),
        finish: Some(RunFinal::Cancelled),
        at: now,
        ..Commit::default()
    };
    match store.commit(who, &claim, commit).await {
        Err(StoreError::Fenced { .. }) => Err(rule::busy(at)),
        committed => committed.map(drop),
    }
}

/// The nodes whose text is void with the end of the run.
async fn speaking(store: &dyn Store, who: &Principal, claim: &Claim) -> Result<BTreeSet<String>> {
    let (mut nodes, mut after) = (BTreeSet::new(), Position::START);
    loop {
        let some = store.pieces(who, &claim.at, after, PIECES_AT_ONCE).await?;
        let Some(last) = some.last() else { return Ok(nodes) };
        after = last.at.end;
        nodes.extend(some.into_iter().map(|piece| piece.at.node));
    }
}
