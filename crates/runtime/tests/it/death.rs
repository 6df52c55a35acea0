//! Processes that die at a commit.

use crate::faulty::{Faulty, Moment};
use crate::support::completed;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_types::port::RunHandle;

/// The commit at which a process dies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeathAt {
    /// Number of the commit, from 1 on.
    pub(crate) commit: usize,
    pub(crate) moment: Moment,
}

/// Begins a run in a process of its own, as it were, which dies at a commit. Returns `false` if the
/// run completed before.
pub(crate) async fn dies_at<Began>(
    inner: &Arc<dyn Store>,
    death: DeathAt,
    begin: impl FnOnce(Arc<dyn Store>) -> Began,
) -> bool
where
    Began: Future<Output = (RunHandle, Runtime)> + Send + 'static,
{
    let store = Faulty::new(Arc::clone(inner));
    let died = Arc::new(watch::Sender::new(false));
    let dead = Arc::clone(&died);
    let commits = AtomicUsize::new(0);
    store.interfere(move |_, when, commit| {
        if commit.is_some() && when == Moment::Before {
            commits.fetch_add(1, Ordering::SeqCst);
        }
        let is_due = commits.load(Ordering::SeqCst) == death.commit && when == death.moment;
        if commit.is_none() || !is_due {
            return Ok(Duration::ZERO);
        }
        dead.send_replace(true);
        Ok(Duration::from_secs(3_600))
    });
    let mut process = tokio::runtime::Builder::new_multi_thread();
    let process = process.worker_threads(1).enable_all().build().expect("a runtime");
    let (handle, runtime) = process.spawn(begin(store)).await.expect("begins");
    let mut died = died.subscribe();
    let reached = tokio::select! {
        biased;
        _ = died.wait_for(|died| *died) => true,
        outcome = handle.outcome => { completed(outcome); false }
    };
    let worker = runtime.worker().clone();
    let ended = move || {
        drop(runtime);
        process.shutdown_timeout(Duration::from_secs(5));
    };
    tokio::task::spawn_blocking(ended).await.expect("ends");
    inner.retire(&worker).await.expect("it is dead");
    reached
}
