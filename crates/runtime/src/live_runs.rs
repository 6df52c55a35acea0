//! The runs that this process executes, for their watchers.

use crate::event_bus::{Attached, EventBus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use weftwork_types::run::RunRef;
use weftwork_types::{OrgId, RunId, ThreadId};

/// Registry of the event buses of runs in this process. It notifies the watchers of a run when the
/// run begins or ends here, and the watchers of a thread when one of its runs begins here.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    /// Runs that are executed here or have a watcher.
    runs: BTreeMap<(OrgId, RunId), watch::Sender<Option<Arc<EventBus>>>>,
    /// Threads that have a watcher.
    threads: BTreeMap<(OrgId, ThreadId), watch::Sender<()>>,
}

/// A watcher's view of a run in the registry.
#[derive(Debug)]
pub(crate) struct LiveRun {
    registry: Arc<LiveRuns>,
    key: (OrgId, RunId),
    receiver: watch::Receiver<Option<Arc<EventBus>>>,
}

/// A watcher's view of a thread in the registry.
#[derive(Debug)]
pub(crate) struct LiveThread {
    registry: Arc<LiveRuns>,
    key: (OrgId, ThreadId),
    receiver: watch::Receiver<()>,
}

impl LiveRuns {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a run begins here.
    pub(crate) fn begin(&self, org: &OrgId, at: &RunRef, bus: &Arc<EventBus>) {
        let mut tables = self.lock();
        let run = tables.runs.entry((org.clone(), at.run.clone())).or_default();
        run.send_replace(Some(Arc::clone(bus)));
        if let Some(thread) = tables.threads.get(&(org.clone(), at.thread.clone())) {
            thread.send_replace(());
        }
    }

    /// Records that a run has ended or left this process, unless it has begun here again.
    pub(crate) fn end(&self, org: &OrgId, run: &RunId, bus: &Arc<EventBus>) {
        let mut tables = self.lock();
        let key = (org.clone(), run.clone());
        let Some(sender) = tables.runs.get(&key) else { return };
        sender.send_if_modified(|here| here.take_if(|here| Arc::ptr_eq(here, bus)).is_some());
        if sender.receiver_count() == 0 && sender.borrow().is_none() {
            tables.runs.remove(&key);
        }
    }

    /// Watches a run.
    pub(crate) fn run(self: &Arc<Self>, org: &OrgId, run: &RunId) -> LiveRun {
        let key = (org.clone(), run.clone());
        let receiver = self.lock().runs.entry(key.clone()).or_default().subscribe();
        LiveRun { registry: Arc::clone(self), key, receiver }
    }

    /// Watches a thread.
    pub(crate) fn thread(self: &Arc<Self>, org: &OrgId, thread: &ThreadId) -> LiveThread {
        let key = (org.clone(), thread.clone());
        let receiver = self.lock().threads.entry(key.clone()).or_default().subscribe();
        LiveThread { registry: Arc::clone(self), key, receiver }
    }
}

impl LiveRun {
    /// Returns `true` if this process executes the run. Changes from now on are reported by
    /// [`changed`](Self::changed).
    pub(crate) fn is_here(&mut self) -> bool {
        self.receiver.borrow_and_update().is_some()
    }

    /// Attaches to the live events of the run if this process executes it.
    pub(crate) fn attach(&mut self) -> Option<Attached> {
        let bus = self.receiver.borrow_and_update().clone();
        bus?.attach()
    }

    /// Waits until the run begins or ends in this process. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        wait_for_change(&mut self.receiver).await;
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let mut tables = self.registry.lock();
        // The receiver that is dropped here is the only one.
        let last =
            |run: &watch::Sender<Option<_>>| run.receiver_count() <= 1 && run.borrow().is_none();
        if tables.runs.get(&self.key).is_some_and(last) {
            tables.runs.remove(&self.key);
        }
    }
}

impl LiveThread {
    /// Waits until a run of the thread begins in this process. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        wait_for_change(&mut self.receiver).await;
    }
}

impl Drop for LiveThread {
    fn drop(&mut self) {
        let mut tables = self.registry.lock();
        if tables.threads.get(&self.key).is_some_and(|thread| thread.receiver_count() <= 1) {
            tables.threads.remove(&self.key);
        }
    }
}

async fn wait_for_change<T>(receiver: &mut watch::Receiver<T>) {
    // Fails only without a sender, which the registry holds as long as there is a receiver.
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}
