//! Decisions about calls that the tasks of a run take from their answers.

use super::log::CallLog;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_graph::run_loop::Given;
use weftwork_store::approval::{ApprovalRow, decided};
use weftwork_store::{Store, StoreError};
use weftwork_types::approval::{ApprovalOutcome, ApprovalRecord, Verdict};
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::{InterruptId, Principal, ThreadId, Timestamp};

/// Records the decisions of a run, each once: with the next commit, which comes before each call
/// that an approval allows and that changes something.
#[derive(Debug)]
pub(super) struct Decisions {
    log: Arc<CallLog>,
    thread: ThreadId,
    /// Subject of the principal of the run.
    subject: String,
    /// Questions about which a decision is recorded, or waits for a commit.
    recorded: Mutex<BTreeSet<InterruptId>>,
}

impl Decisions {
    pub(super) fn new(log: Arc<CallLog>, thread: ThreadId, subject: String) -> Self {
        Self { log, thread, subject, recorded: Mutex::default() }
    }

    fn lock_recorded(&self) -> MutexGuard<'_, BTreeSet<InterruptId>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads which decisions earlier runs and processes have recorded.
    pub(super) async fn read(&self, store: &dyn Store, who: &Principal) -> Result<(), StoreError> {
        let earlier = decided(store, who, &self.thread).await?;
        self.lock_recorded().extend(earlier);
        Ok(())
    }

    /// Records that a task takes an answer, given the stored one, unless it is not about a call.
    pub(super) fn taken(
        &self,
        question: InterruptId,
        ask: &Ask,
        given: Given<'_>,
        known: Option<&Answer>,
        now: Timestamp,
    ) {
        let Ask::Approval(request) = ask else { return };
        // A task that runs again takes the same answer again; the first record stands.
        if !self.lock_recorded().insert(question) {
            return;
        }
        let (Given::Answer(value) | Given::Default(value)) = given;
        let outcome = ApprovalOutcome::of(request, value);
        let lapsed =
            matches!(&outcome, ApprovalOutcome::Decided(by) if by.verdict == Verdict::Lapse);
        let known = known.filter(|known| known.value == *value);
        let (by, at) = match (given, known) {
            (Given::Answer(_), Some(known)) => (Some(known.answered_by.clone()), known.answered_at),
            (Given::Answer(_), None) if !lapsed => (Some(self.subject.clone()), now),
            _ => (None, now),
        };
        let record = ApprovalRecord { question, request: request.clone(), outcome, by, at };
        match (ApprovalRow { thread: self.thread.clone(), record }).sequence_write() {
            Ok(effect) => self.log.write([effect]),
            Err(error) => tracing::warn!(%error, "a decision is not on record"),
        }
    }
}
