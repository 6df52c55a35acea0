//! What nodes of hosted runs reach: models and tools with journal, budget and ledger, and those
//! who watch.

use super::Host;
use crate::exec::caught::millis;
use crate::exec::scope::{TaskAt, lock};
use crate::exec::{Attempt, Hosting};
use crate::hub::Hub;
use crate::journal::{Place, TaskJournal};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_store::Claim;
use weftwork_types::caller::GraphCaller;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallContext, Clock, Emit, Journal, NoJournal};
use weftwork_types::{InterruptId, Principal};

#[derive(Debug)]
pub(super) struct Calls {
    pub(super) host: Arc<Host>,
    pub(super) hub: Arc<Hub>,
    pub(super) who: Principal,
    pub(super) claim: Claim,
    pub(super) caller: GraphCaller,
    /// Who answered which question of the thread.
    pub(super) answers: BTreeMap<InterruptId, Answer>,
}

impl Hosting for Calls {
    fn calls(&self, at: &TaskAt, attempt: Attempt<'_>) -> CallContext {
        let host = &self.host;
        let journal: Arc<dyn Journal> = if host.journal {
            Arc::new(TaskJournal {
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
                seen: Mutex::default(),
            })
        } else {
            Arc::new(NoJournal)
        };
        let (to, beat) = (Arc::clone(&self.hub), Arc::clone(attempt.beat));
        let emit = Arc::new(Pulse { to, clock: Arc::clone(&host.clock), beat });
        CallContext {
            principal: self.who.clone(),
            caller: self.caller.clone(),
            thread: self.claim.at.thread.clone(),
            journal,
            budget: Arc::clone(&host.budget),
            ledger: Arc::clone(&host.ledger),
            clock: Arc::clone(&host.clock),
            emit,
            deadline: None,
        }
    }

    fn tell(&self, event: AiEvent) {
        self.hub.emit(event);
    }

    fn stops(&self) -> bool {
        self.host.closing.drains()
    }

    fn answer(&self, id: InterruptId) -> Option<Answer> {
        self.answers.get(&id).cloned()
    }
}

/// Passes events on and takes each as a sign of life.
#[derive(Debug)]
struct Pulse {
    to: Arc<Hub>,
    clock: Arc<dyn Clock>,
    beat: Arc<AtomicU64>,
}

impl Emit for Pulse {
    fn emit(&self, event: AiEvent) {
        self.beat.store(millis(self.clock.elapsed()), Ordering::Relaxed);
        self.to.emit(event);
    }
}
