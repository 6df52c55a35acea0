//! What nodes of hosted runs reach: models and tools with journal, budget and ledger, and those
//! who watch.

use super::writer::Writer;
use super::{CallLog, Host, Origins};
use crate::exec::caught::millis;
use crate::exec::scope::{TaskAt, lock};
use crate::exec::{Attempt, Hosting};
use crate::hub::{Hub, Speaker};
use crate::journal::{Place, TaskJournal};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_store::{Claim, UsageRow};
use weftwork_types::caller::GraphCaller;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallContext, Clock, Emit, Journal, Ledger, LedgerError, NoJournal};
use weftwork_types::usage::UsageFact;
use weftwork_types::{BoxFuture, InterruptId, Principal};

#[derive(Debug)]
pub(super) struct Calls {
    pub(super) host: Arc<Host>,
    pub(super) hub: Arc<Hub>,
    pub(super) who: Principal,
    pub(super) claim: Claim,
    pub(super) caller: GraphCaller,
    /// Who answered which question of the thread.
    pub(super) answers: BTreeMap<InterruptId, Answer>,
    pub(super) log: Arc<CallLog>,
    pub(super) writer: Arc<Writer>,
    /// How many workers died in the superstep that is open.
    pub(super) lost: u32,
    pub(super) origins: Option<Arc<Origins>>,
}

impl Hosting for Calls {
    fn calls(&self, at: &TaskAt, attempt: Attempt<'_>) -> CallContext {
        let host = &self.host;
        let (journal, ledger): (Arc<dyn Journal>, Arc<dyn Ledger>) = if host.journal {
            let journal = TaskJournal {
                store: Arc::clone(&host.store),
                clock: Arc::clone(&host.clock),
                who: self.who.clone(),
                claim: self.claim.clone(),
                place: Place {
                    branch: *lock(&at.scope.shared.branch),
                    path: at.way(),
                    node: at.key.name().to_string(),
                    step: at.step,
                    attempt: attempt.number,
                },
                log: Arc::clone(&self.log),
                earlier: at.earlier,
                lost: self.lost,
                since: at.scope.shared.since.get().copied().filter(|_| !self.writer.holds),
                origins: self.origins.clone(),
                known: Mutex::default(),
            };
            let (log, late) = (Arc::clone(&self.log), Arc::clone(&host.ledger));
            (Arc::new(journal), Arc::new(RunLedger { log, late }))
        } else {
            (Arc::new(NoJournal), Arc::clone(&host.ledger))
        };
        let (to, beat) = (Arc::clone(&self.hub), Arc::clone(attempt.beat));
        let emit = Arc::new(Pulse { to, by: at.speaker(), clock: Arc::clone(&host.clock), beat });
        CallContext {
            principal: self.who.clone(),
            caller: self.caller.clone(),
            thread: self.claim.at.thread.clone(),
            journal,
            budget: Arc::clone(&host.budget),
            ledger,
            clock: Arc::clone(&host.clock),
            emit,
            deadline: None,
        }
    }

    fn tell(&self, by: &TaskAt, event: AiEvent) {
        self.hub.emit(&by.speaker(), event);
    }

    fn stops(&self) -> bool {
        self.host.closing.drains()
    }

    fn reserve(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.writer.reserve())
    }

    fn unreserve(&self) {
        self.writer.unreserve();
    }

    fn repeats(&self) -> bool {
        self.writer.holds
    }

    fn answer(&self, id: InterruptId) -> Option<Answer> {
        self.answers.get(&id).cloned()
    }
}

/// Lets facts come into the ledger with the commits of the run: a recorded answer and its bill are
/// there together or not at all.
#[derive(Debug)]
struct RunLedger {
    log: Arc<CallLog>,
    /// For what comes when the run has ended.
    late: Arc<dyn Ledger>,
}

impl Ledger for RunLedger {
    fn record<'a>(
        &'a self,
        principal: &'a Principal,
        caller: &'a GraphCaller,
        fact: &'a UsageFact,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        let row = UsageRow { caller: caller.clone(), fact: fact.clone() };
        Box::pin(async move {
            if self.log.bill(row) {
                return Ok(());
            }
            self.late.record(principal, caller, fact).await
        })
    }
}

/// Passes events on and takes each as a sign of life. Says which node it is whose attempt died,
/// where a model only knows itself.
#[derive(Debug)]
struct Pulse {
    to: Arc<Hub>,
    by: Speaker,
    clock: Arc<dyn Clock>,
    beat: Arc<AtomicU64>,
}

impl Emit for Pulse {
    fn emit(&self, mut event: AiEvent) {
        if let AiEvent::AttemptReset { node } = &mut event {
            *node = self.by.node.to_string();
        }
        self.beat.store(millis(self.clock.elapsed()), Ordering::Relaxed);
        self.to.emit(&self.by, event);
    }
}
