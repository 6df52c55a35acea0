use super::journal::{CallKey, CallResult, Intent, Journal, JournalError, Opened};
use super::{Budget, Clock, Dependencies, Ledger, Limits, NoLedger, Unlimited};
use crate::caller::{CallOrigin, Caller};
use crate::event::AiEvent;
use crate::item::ItemStore;
use crate::secret::HiddenValues;
use crate::{BoxFuture, MessageId, Principal, ThreadId, Timestamp, canonical};
use serde_json::{Map, Value};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Sink for the events of a running task. It never blocks and never fails; slow or absent readers
/// do not affect the task.
pub trait Emit: Send + Sync + std::fmt::Debug {
    /// Emits one event.
    fn emit(&self, event: AiEvent);

    /// Emits an event about a message that a model is producing: partial text, or the reset that
    /// voids it. Receivers that do not tell messages apart get the event alone.
    fn emit_of(&self, _message: &MessageId, event: AiEvent) {
        self.emit(event);
    }
}

/// Everything that a model or tool call needs from its caller. A node receives it in its context and
/// passes it to models and tools; a program makes one with [`of_program`](Self::of_program).
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Principal of the caller.
    pub principal: Principal,
    /// Billing account of the call, and its run and graph, if it is made in one.
    pub origin: CallOrigin,
    /// The thread; outside of runs, a name within which keys of calls are unique.
    pub thread: ThreadId,
    /// Journal, bound to the task that makes the calls.
    pub journal: Arc<dyn Journal>,
    /// Remaining budget.
    pub budget: Arc<dyn Budget>,
    /// Ledger for usage facts.
    pub ledger: Arc<dyn Ledger>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Sink for events.
    pub emit: Arc<dyn Emit>,
    /// Time at which the caller stops waiting, if any.
    pub deadline: Option<Timestamp>,
    /// Named settings given to the run.
    pub configurable: Arc<Map<String, Value>>,
    /// Values of the run, which tools take before those of their tool box.
    pub dependencies: Dependencies,
    /// Long-term store of the host, if it has one.
    pub items: Option<Arc<dyn ItemStore>>,
    /// Secret arguments and hidden results that the run has seen: they are in no text that leaves it.
    pub hidden: Arc<HiddenValues>,
}

impl CallContext {
    /// Returns what is left of the budget now; see [`Budget::remaining`].
    #[must_use]
    pub fn budget_left(&self) -> Limits {
        self.budget.remaining(self.clock.now())
    }

    /// Context of calls outside of graphs, on the user's own machine: nothing is recorded, limited or
    /// billed.
    #[must_use]
    pub fn of_program(caller: Caller, clock: Arc<dyn Clock>) -> Self {
        Self {
            principal: Principal::local(),
            thread: ThreadId::from_uuid(uuid::Uuid::from_u128(clock.unique())),
            origin: CallOrigin::Program(Arc::new(caller)),
            journal: Arc::new(NoJournal),
            budget: Arc::new(Unlimited),
            ledger: Arc::new(NoLedger),
            clock,
            emit: Arc::new(Silent),
            deadline: None,
            configurable: Arc::default(),
            dependencies: Dependencies::new(),
            items: None,
            hidden: Arc::default(),
        }
    }
}

/// A sink that discards every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Emit for Silent {
    fn emit(&self, _event: AiEvent) {}
}

/// A journal that records nothing, so that every call is new. For calls outside of runs, and for
/// tests that show the effect of the journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        // Repeated calls cannot be recognised here, so each call gets a random key: each
        // `RandomState` hashes differently.
        let drawn = [0, 1].map(|half| RandomState::new().hash_one(half));
        let text = format!("{:?}/{}/{}/{drawn:?}", intent.kind, intent.name, intent.input);
        let key = CallKey(canonical::hash_bytes(text.as_bytes()));
        Box::pin(async move { Ok(Opened::New { key }) })
    }

    fn look(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        self.open(intent)
    }

    fn begin_again(&self, _key: CallKey) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }

    fn withdraw(&self, _key: CallKey) {}

    fn settle(
        &self,
        _key: CallKey,
        _result: CallResult,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }
}
