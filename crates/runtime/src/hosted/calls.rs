//! Environment of nodes in hosted runs: models and tools with journal, budget and ledger, and the
//! watchers of the run.

use super::claimed::{ClaimedRun, RunScope};
use super::journal::{RunBook, RunJournal};
use super::log::CallLog;
use super::writer::Writer;
use crate::context::WorkerContext;
use crate::event_bus::EventBus;
use crate::ledger::StoreLedger;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use weftwork_graph::run_loop::{
    Attempt, AttemptSignals, EventSource, Given, RunEnvironment, TaskContext, TaskJournal, millis,
};
use weftwork_store::UsageRow;
use weftwork_types::caller::{CallOrigin, GraphCaller};
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::{CallContext, Clock, Emit, Journal, Ledger};
use weftwork_types::usage::UsageFact;
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, MessageId, Principal, Timestamp};

#[derive(Debug)]
pub(super) struct Calls {
    pub(super) context: Arc<WorkerContext>,
    pub(super) bus: Arc<EventBus>,
    /// Answers of the thread, by question, each with its author.
    pub(super) answers: BTreeMap<InterruptId, Answer>,
    pub(super) journal: Arc<RunJournal>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) writer: Arc<Writer>,
    scope: RunScope,
    /// Time at which the run is cut off.
    deadline: Option<Timestamp>,
    configurable: Arc<Map<String, Value>>,
    cancelled: watch::Receiver<bool>,
}

impl Calls {
    pub(super) fn new(
        run: &ClaimedRun,
        writer: &Arc<Writer>,
        scope: &RunScope,
        journal: RunJournal,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> Self {
        let context = &run.context;
        let options = &run.row.new.options;
        let log = Arc::clone(&journal.log);
        let late = context.ledger.clone();
        Self {
            context: Arc::clone(context),
            bus: Arc::clone(writer.bus()),
            answers,
            scope: scope.clone(),
            journal: Arc::new(journal),
            ledger: Arc::new(RunLedger {
                log,
                late,
                who: run.who.clone(),
                caller: Arc::clone(&scope.caller),
            }),
            writer: Arc::clone(writer),
            deadline: options.deadline,
            configurable: Arc::new(options.configurable.clone()),
            cancelled: run.cancel.subscribe(),
        }
    }
}

impl RunEnvironment for Calls {
    fn calls(&self, at: &TaskContext, attempt: Attempt<'_>) -> CallContext {
        let context = &self.context;
        let since = at.run_base().filter(|_| !self.writer.holds);
        let book = Box::new(RunBook { journal: Arc::clone(&self.journal), since });
        let journal: Arc<dyn Journal> = Arc::new(TaskJournal::new(book, at, attempt));
        let ledger: Arc<dyn Ledger> = Arc::clone(&self.ledger);
        let to = Arc::clone(&self.bus);
        let signals = Arc::clone(attempt.signals);
        let hidden = Arc::clone(at.hidden_values());
        let at = at.clone();
        let by = OnceLock::new();
        let clock = Arc::clone(&context.clock);
        let emit = Arc::new(Pulse { to, at, by, clock, signals });
        CallContext {
            principal: self.journal.who.clone(),
            origin: CallOrigin::Run(Arc::clone(&self.scope.caller)),
            thread: self.journal.claim.at.thread.clone(),
            journal,
            budget: Arc::clone(&self.scope.budget),
            ledger,
            clock: Arc::clone(&context.clock),
            emit,
            deadline: self.deadline,
            configurable: Arc::clone(&self.configurable),
            dependencies: self.scope.dependencies.clone(),
            hidden,
        }
    }

    fn emit(&self, by: EventSource, event: AiEvent) {
        self.bus.emit(&by, event);
    }

    fn resumes(&self, started: AiEvent) {
        self.writer.resumes(started);
    }

    fn has_log(&self) -> bool {
        true
    }

    fn shuts_down(&self) -> bool {
        self.context.shutdown.drains()
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

    fn repeats(&self) -> bool {
        self.writer.holds
    }

    fn answer(&self, id: InterruptId) -> Option<Answer> {
        self.answers.get(&id).cloned()
    }

    fn takes(&self, question: InterruptId, ask: &Ask, given: Given<'_>) {
        let known = self.answers.get(&question);
        let now = self.context.clock.now();
        self.writer.decisions.taken(question, ask, given, known, now);
    }

    fn branch_root(&self) -> CheckpointId {
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
        let row = UsageRow { caller: GraphCaller::clone(&self.caller), fact: fact.clone() };
        if let Err(row) = self.log.bill(Arc::new(row)) {
            self.late.record(&self.who, Arc::unwrap_or_clone(row));
        }
    }
}

/// Forwards events and counts each as a sign of life. Sets the task in attempt resets, because a
/// model has only its own name.
#[derive(Debug)]
struct Pulse {
    to: Arc<EventBus>,
    at: TaskContext,
    /// Event source of the task, once it has emitted an event.
    by: OnceLock<EventSource>,
    clock: Arc<dyn Clock>,
    signals: Arc<AttemptSignals>,
}

impl Emit for Pulse {
    fn emit_of(&self, message: &MessageId, event: AiEvent) {
        if self.signals.is_cut_off() {
            return;
        }
        match &event {
            AiEvent::TextDelta { delta } => self.at.emit_chunk(message, delta),
            AiEvent::AttemptReset(_) => self.at.reset_chunks_of(message),
            _ => {}
        }
        let by = self.by().clone();
        self.emit_by(&EventSource { message: Some(message.clone()), ..by }, event);
    }

    fn emit(&self, event: AiEvent) {
        self.emit_by(self.by(), event);
    }
}

impl Pulse {
    fn by(&self) -> &EventSource {
        self.by.get_or_init(|| self.at.event_source())
    }

    fn emit_by(&self, by: &EventSource, mut event: AiEvent) {
        // An attempt that is cut off reports what it used, which counts against the budget.
        let is_bill = matches!(event, AiEvent::UsageReport { .. });
        if self.signals.is_cut_off() && !is_bill {
            return;
        }
        match &mut event {
            AiEvent::AttemptReset(reset) => *reset = by.reset(),
            AiEvent::Custom { ns, node, .. } if node.is_empty() => {
                (*ns, *node) = (by.ns.to_string(), by.node.to_string());
            }
            AiEvent::ToolCallStart { task, ns, .. } => {
                (*task, *ns) = (Some(by.task), by.ns.to_string());
            }
            AiEvent::ToolCallResult { task, .. } => *task = Some(by.task),
            _ => {}
        }
        self.signals.beat(millis(self.clock.elapsed()));
        self.to.emit(by, event);
    }
}
