//! Environment of the run loop under a claim: the books and the log are those of the run, in the store.

use super::claimed::{ClaimedRun, RunResources};
use super::journal::{RunBook, RunJournal};
use super::log::CallLog;
use super::writer::Writer;
use crate::ledger::StoreLedger;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use weftwork_graph::run_loop::{
    CallBook, EventSource, Given, RunAccount, RunEnvironment, TaskContext, TaskReports,
};
use weftwork_store::UsageRow;
use weftwork_types::caller::{CallOrigin, GraphCaller};
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::{Clock, Ledger};
use weftwork_types::usage::UsageFact;
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, Principal};

#[derive(Debug)]
pub(super) struct HostedEnvironment {
    writer: Arc<Writer>,
    resources: RunResources,
    journal: Arc<RunJournal>,
    /// Answers of the thread, by question, each with its author.
    answers: BTreeMap<InterruptId, Answer>,
    cancelled: watch::Receiver<bool>,
}

impl HostedEnvironment {
    pub(super) fn new(
        run: &ClaimedRun,
        writer: &Arc<Writer>,
        resources: &RunResources,
        journal: RunJournal,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> Self {
        Self {
            writer: Arc::clone(writer),
            resources: resources.clone(),
            journal: Arc::new(journal),
            answers,
            cancelled: run.cancel.subscribe(),
        }
    }
}

impl RunEnvironment for HostedEnvironment {
    fn account(&self, _: &TaskContext) -> RunAccount {
        let journal = &self.journal;
        RunAccount {
            principal: journal.who.clone(),
            origin: CallOrigin::Run(Arc::clone(&self.resources.caller)),
            thread: Some(journal.claim.at.thread.clone()),
            budget: Arc::clone(&self.resources.budget),
            ledger: Arc::new(RunLedger {
                log: Arc::clone(&journal.log),
                late: self.writer.context.ledger.clone(),
                who: journal.who.clone(),
                caller: Arc::clone(&self.resources.caller),
            }),
        }
    }

    fn book(&self, at: &TaskContext) -> Option<Box<dyn CallBook>> {
        let since = at.run_base().filter(|_| !self.writer.holds);
        Some(Box::new(RunBook { journal: Arc::clone(&self.journal), since }))
    }

    fn emit(&self, by: EventSource, event: AiEvent) {
        self.writer.bus().emit(&by, event);
    }

    fn resumes(&self, started: AiEvent) {
        self.writer.resumes(started);
    }

    fn task_reports(&self) -> TaskReports {
        TaskReports::Included
    }

    fn shuts_down(&self) -> bool {
        self.writer.context.shutdown.drains()
    }

    fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    fn reserve(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(self.writer.reserve()))
    }

    fn unreserve(&self) {
        self.writer.unreserve();
    }

    fn answer(&self, id: InterruptId) -> Option<Answer> {
        self.answers.get(&id).cloned()
    }

    fn takes(&self, question: InterruptId, ask: &Ask, given: Given<'_>) {
        let known = self.answers.get(&question);
        let now = self.writer.context.clock.now();
        self.writer.decisions.taken(question, ask, given, known, now);
    }

    fn branch_root(&self, _: &dyn Clock) -> CheckpointId {
        // From the run alone: each process that executes it finds the same branch, and with it the
        // keys of the calls that were made there.
        let Hash(bytes) = hash(&json!({"first run": self.journal.claim.at.run}));
        let drawn = u128::from_be_bytes(std::array::from_fn(|at| bytes[at]));
        // Ids have the same length in each row: 126 bits.
        CheckpointId(drawn >> 2 | 1 << 125)
    }
}

/// Records usage facts with the commits of the run: a recorded answer and its bill are stored
/// together or not at all.
#[derive(Debug)]
struct RunLedger {
    log: Arc<CallLog>,
    /// Ledger for facts that arrive after the last commit, from attempts on other threads.
    late: StoreLedger,
    who: Principal,
    caller: Arc<GraphCaller>,
}

impl Ledger for RunLedger {
    fn record(&self, fact: &UsageFact) {
        let row =
            UsageRow { caller: CallOrigin::Run(Arc::clone(&self.caller)), fact: fact.clone() };
        // No commit follows: the fact is written on its own, so that what was paid is billed.
        if let Err(row) = self.log.bill(Arc::new(row)) {
            self.late.record(&self.who, Arc::unwrap_or_clone(row));
        }
    }

    fn recorded(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.log.on_disk(self.log.last()).await;
        })
    }
}
