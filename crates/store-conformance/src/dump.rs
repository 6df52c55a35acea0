use weftwork_store::ReadCheckpoints;
use weftwork_store::StoreError;
use weftwork_store::{Result, Store};
use weftwork_types::event::Position;
use weftwork_types::{Principal, ThreadId};

/// Reads everything that these principals can read of threads with a row, one line per thread, run,
/// event, partial text, checkpoint, question, call and usage fact. Equal stores give equal lines.
///
/// # Errors
/// Returns the errors of the reads.
pub async fn dump(store: &dyn Store, principals: &[Principal]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for who in principals {
        for thread in store.threads(who, 0, usize::MAX).await? {
            let id = thread.id.clone();
            lines.push(format!("{} {thread:?}", who.org));
            lines.extend(dump_checkpoints(store, who, &id).await?);
            let interrupts = store.interrupts(who, &id).await?;
            lines.extend(interrupts.iter().map(|row| format!("interrupt {row:?}")));
            let calls = store.calls(who, &id).await?;
            lines.extend(calls.iter().map(|row| format!("call {row:?}")));
            let usage = store.usage_of_thread(who, &id).await?;
            lines.extend(usage.iter().map(|row| format!("usage {row:?}")));
            for run in store.runs(who, &id).await? {
                lines.push(format!("run {run:?}"));
                let events = match store.events(who, &run.new.at, 0, usize::MAX).await {
                    Err(StoreError::Dropped { oldest, .. }) => {
                        store.events(who, &run.new.at, oldest - 1, usize::MAX).await?
                    }
                    read => read?,
                };
                lines.extend(events.iter().map(|row| format!("event {row:?}")));
                let pieces = store.pieces(who, &run.new.at, Position::START, usize::MAX).await?;
                lines.extend(pieces.iter().map(|row| format!("piece {row:?}")));
            }
        }
    }
    Ok(lines)
}

/// Reads the checkpoints of a thread, with or without a row, one line each.
///
/// # Errors
/// Returns the errors of the reads.
pub async fn dump_checkpoints(
    store: &(impl ReadCheckpoints + ?Sized),
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for at in store.checkpoint_namespaces(who, thread).await? {
        let page = store.page(who, &at, None, usize::MAX).await?;
        lines.extend(page.iter().map(|row| format!("checkpoint of `{}` {row:?}", at.ns)));
    }
    Ok(lines)
}
