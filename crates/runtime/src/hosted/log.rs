//! Records of calls, until a commit of the run includes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use weftwork_store::UsageRow;
use weftwork_store::sequence::SequenceWrite;
use weftwork_types::port::{CallKey, CallRecord};

/// Calls and usage facts that wait for the next commit of their run, usually that of the superstep.
///
/// Callers that need them on disk wait for that commit and never start one, so a task that is not
/// polled cannot hold the commit lock.
#[derive(Debug)]
pub(crate) struct CallLog {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    written: watch::Sender<Written>,
}

/// Records for the next commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    pub(crate) calls: Vec<Arc<CallRecord>>,
    pub(crate) usage: Vec<Arc<UsageRow>>,
    pub(crate) sequence_writes: Vec<SequenceWrite>,
    /// `true` once the facts that no commit included were taken: a later one is not accepted.
    is_billed: bool,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.usage.is_empty() && self.sequence_writes.is_empty()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// Number of calls and usage facts that were added.
    put: u64,
    /// Number of them that are on disk: the oldest.
    on_disk: u64,
    /// `true` while the run continues, so that further commits follow.
    goes_on: bool,
}

/// The place of a call or usage fact in its log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(u64);

impl Default for CallLog {
    fn default() -> Self {
        let written = watch::Sender::new(Written::default());
        Self { waiting: Mutex::default(), arrived: Notify::new(), written }
    }
}

impl CallLog {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call to the next commit.
    pub(crate) fn put(&self, call: Arc<CallRecord>) -> Ticket {
        let mut waiting = self.lock();
        waiting.calls.push(call);
        let ticket = self.number(&waiting);
        drop(waiting);
        self.arrived.notify_one();
        ticket
    }

    /// Numbers a record that was added, under the lock, so that tickets have the order of the records.
    fn number(&self, _: &Waiting) -> Ticket {
        self.written.send_if_modified(|written| {
            written.put += 1;
            false
        });
        self.last()
    }

    /// Returns the place of the last record that was added.
    pub(crate) fn last(&self) -> Ticket {
        Ticket(self.written.borrow().put)
    }

    /// Adds a usage fact to the next commit, which may be that of the end of the run.
    ///
    /// # Errors
    /// The fact, if [`take_unbilled`](Self::take_unbilled) was called: nobody would write it.
    pub(crate) fn bill(&self, usage: Arc<UsageRow>) -> Result<(), Arc<UsageRow>> {
        let mut waiting = self.lock();
        if waiting.is_billed {
            return Err(usage);
        }
        waiting.usage.push(usage);
        self.number(&waiting);
        // Released first: the task that is woken takes this lock.
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Adds writes of sequences to the next commit. A call that is added later is not committed
    /// before them.
    pub(crate) fn write(&self, writes: impl IntoIterator<Item = SequenceWrite>) {
        self.lock().sequence_writes.extend(writes);
        self.arrived.notify_one();
    }

    /// Waits until a call or fact is on disk; returns `false` if no commit follows any more.
    ///
    /// Cancel safe.
    pub(crate) async fn on_disk(&self, Ticket(number): Ticket) -> bool {
        let mut written = self.written.subscribe();
        let ended = written.wait_for(|now| now.on_disk >= number || !now.goes_on).await;
        // Fails only without a sender, and we are one.
        ended.is_ok_and(|now| now.on_disk >= number)
    }

    /// Returns the current record of a call that is not on disk yet.
    pub(crate) fn find(&self, key: CallKey) -> Option<Arc<CallRecord>> {
        self.lock().calls.iter().rfind(|call| call.key == key).map(Arc::clone)
    }

    /// Waits until a record waits for a commit. Cancel safe.
    pub(crate) async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.is_empty() {
                return;
            }
            arrived.await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the waiting records. They stay until [`committed`](Self::committed).
    pub(crate) fn waiting(&self) -> Waiting {
        self.lock().clone()
    }

    /// Records that this many calls, facts and writes of sequences, the oldest first, are on disk.
    pub(crate) fn committed(&self, calls: usize, usage: usize, writes: usize) {
        if calls == 0 && usage == 0 && writes == 0 {
            return;
        }
        {
            let mut waiting = self.lock();
            // Records are only appended meanwhile: the first ones are those of the commit.
            waiting.calls.drain(..calls);
            waiting.usage.drain(..usage);
            waiting.sequence_writes.drain(..writes);
        }
        self.written.send_modify(|written| written.on_disk += (calls + usage) as u64);
    }

    /// Removes and returns the facts that no commit included, after the last commit.
    pub(crate) fn take_unbilled(&self) -> Vec<Arc<UsageRow>> {
        let mut waiting = self.lock();
        waiting.is_billed = true;
        std::mem::take(&mut waiting.usage)
    }

    /// Allows waiting for calls while the run continues: until the returned guard is dropped.
    pub(crate) fn goes_on(&self) -> GoesOn<'_> {
        self.written.send_modify(|written| written.goes_on = true);
        GoesOn(self)
    }
}

/// Guard that exists as long as further commits follow.
#[derive(Debug)]
#[must_use]
pub(crate) struct GoesOn<'a>(&'a CallLog);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        self.0.written.send_modify(|written| written.goes_on = false);
    }
}
