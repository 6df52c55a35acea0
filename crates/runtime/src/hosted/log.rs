//! Records of calls, until a commit of the run includes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use weftwork_store::UsageRow;
use weftwork_types::port::{CallKey, CallRecord};

/// Calls and usage facts that wait for the next commit of their run, whatever else that is about:
/// mostly it is the one of the superstep.
///
/// Whoever needs them on disk waits for that commit and makes none itself. So nobody holds what
/// commits need while nobody polls him.
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
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.usage.is_empty()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// Number of calls that were put in.
    put: u64,
    /// Number of them that are on disk.
    on_disk: u64,
    /// `true` while the run continues, so that further commits follow.
    goes_on: bool,
}

/// The place of a call in its log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(u64);

impl Default for CallLog {
    fn default() -> Self {
        let (waiting, arrived) = (Mutex::default(), Notify::new());
        Self { waiting, arrived, written: watch::Sender::new(Written::default()) }
    }
}

impl CallLog {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next commit take a call along.
    pub(crate) fn put(&self, call: Arc<CallRecord>) -> Ticket {
        let mut ticket = Ticket(0);
        {
            let mut waiting = self.lock();
            waiting.calls.push(call);
            // Under the lock, so that tickets have the order of the calls.
            self.written.send_if_modified(|written| {
                written.put += 1;
                ticket = Ticket(written.put);
                false
            });
        }
        self.arrived.notify_one();
        ticket
    }

    /// Lets the next commit take a usage fact along; `false` when none will come.
    pub(crate) fn bill(&self, usage: UsageRow) -> bool {
        if !self.written.borrow().goes_on {
            return false;
        }
        self.lock().usage.push(Arc::new(usage));
        self.arrived.notify_one();
        true
    }

    /// Waits until a call is on disk; `false` when no commit will come any more.
    ///
    /// Cancel safe.
    pub(crate) async fn on_disk(&self, Ticket(number): Ticket) -> bool {
        let mut written = self.written.subscribe();
        let ended = written.wait_for(|now| now.on_disk >= number || !now.goes_on).await;
        // Fails only without a sender, and we are one.
        ended.is_ok_and(|now| now.on_disk >= number)
    }

    /// A call that is not on disk yet, as it stands now.
    pub(crate) fn find(&self, key: CallKey) -> Option<Arc<CallRecord>> {
        self.lock().calls.iter().rfind(|call| call.key == key).map(Arc::clone)
    }

    /// Waits until there is something to take along. Cancel safe.
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

    /// Tells that the first so many calls and facts are on disk.
    pub(crate) fn committed(&self, calls: usize, usage: usize) {
        if calls == 0 && usage == 0 {
            return;
        }
        {
            let mut waiting = self.lock();
            waiting.calls.drain(..calls);
            waiting.usage.drain(..usage);
        }
        self.written.send_modify(|written| written.on_disk += calls as u64);
    }

    /// The facts that no commit took.
    pub(crate) fn unbilled(&self) -> Vec<Arc<UsageRow>> {
        std::mem::take(&mut self.lock().usage)
    }

    /// Lets calls be waited for as long as the run goes on: until what this returns is dropped.
    pub(crate) fn goes_on(&self) -> GoesOn<'_> {
        self.written.send_modify(|written| written.goes_on = true);
        GoesOn(self)
    }
}

/// As long as this is there, somebody commits.
#[derive(Debug)]
#[must_use]
pub(crate) struct GoesOn<'a>(&'a CallLog);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        self.0.written.send_modify(|written| written.goes_on = false);
    }
}
