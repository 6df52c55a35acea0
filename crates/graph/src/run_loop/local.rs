//! The environment of runs within a program: no log and no billing, and calls are journaled in the
//! records of tasks when the checkpoints of the run are stored.

use crate::clock::{SystemClock, millis};
use crate::journal::TaskJournal;
use crate::run_loop::context::{
    Attempt, AttemptSignals, EventSource, Given, Host, LocalCalls, RunEnvironment, TaskContext,
};
use crate::run_loop::event::Modes;
use std::sync::Arc;
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::{CallContext, Clock, Emit, Journal, NoJournal, NoLedger, Unlimited};
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, MessageId, Principal, RunId, ThreadId};

/// Environment of runs within a program.
#[derive(Debug, Clone)]
pub(crate) struct LocalEnvironment {
    clock: Arc<dyn Clock>,
}

impl LocalEnvironment {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// A host that stores no checkpoints.
    #[must_use]
    pub fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self::over(Arc::clone(&clock), Arc::new(LocalEnvironment::new(clock)))
    }

    /// Takes time from another clock than that of the system.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let local = Arc::new(LocalEnvironment::new(Arc::clone(&clock)));
        self.on(clock, local)
    }
}

impl RunEnvironment for LocalEnvironment {
    fn calls(&self, at: &TaskContext, attempt: Attempt<'_>) -> CallContext {
        let signals = Arc::clone(attempt.signals);
        let journal: Arc<dyn Journal> = match at.recorder() {
            Some(recorder) => Arc::new(TaskJournal::new(Box::new(recorder), at, attempt)),
            None => Arc::new(NoJournal),
        };
        let shared = at.loop_context.run.in_process.get_or_init(|| LocalCalls::new(at));
        let own = || ThreadId::from_uuid(uuid::Uuid::from_u128(at.id().0));
        CallContext {
            principal: shared.principal.clone(),
            origin: shared.origin.clone(),
            thread: shared.thread.clone().unwrap_or_else(own),
            journal,
            budget: Arc::clone(&shared.budget),
            ledger: Arc::clone(&shared.ledger),
            clock: Arc::clone(&self.clock),
            emit: Arc::new(LocalEvents { at: at.clone(), signals }),
            deadline: at.loop_context.run.deadline,
            configurable: Arc::clone(&at.loop_context.run.configurable),
            dependencies: at.dependencies().clone(),
            hidden: Arc::clone(at.hidden_values()),
        }
    }

    fn emit(&self, _: EventSource, _: AiEvent) {}

    fn resumes(&self, _: AiEvent) {}

    fn has_log(&self) -> bool {
        false
    }

    fn shuts_down(&self) -> bool {
        false
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn reserve(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn unreserve(&self) {}

    fn repeats(&self) -> bool {
        false
    }

    fn answer(&self, _: InterruptId) -> Option<Answer> {
        None
    }

    fn takes(&self, _: InterruptId, _: &Ask, _: Given<'_>) {}

    fn branch_root(&self) -> CheckpointId {
        CheckpointId(self.clock.unique())
    }
}

/// Emits the events of a node's calls.
#[derive(Debug)]
struct LocalEvents {
    at: TaskContext,
    signals: Arc<AttemptSignals>,
}

impl LocalEvents {
    /// Records a heartbeat; `false` if the attempt was cut off.
    fn beat(&self) -> bool {
        self.signals.beat(millis(self.at.loop_context.run.host.clock().elapsed()));
        !self.signals.is_cut_off()
    }
}

impl Emit for LocalEvents {
    fn emit_of(&self, message: &MessageId, event: AiEvent) {
        if !self.beat() {
            return;
        }
        if let AiEvent::TextDelta { delta } = event {
            return self.at.emit_chunk(message, &delta);
        }
        if let AiEvent::AttemptReset(_) = event {
            self.at.reset_chunks_of(message);
        }
        self.emit(event);
    }

    fn emit(&self, event: AiEvent) {
        if !self.beat() {
            return;
        }
        match event {
            AiEvent::Custom { value, .. } => self.at.emit(value),
            AiEvent::ToolCallDelta { .. } => {}
            _ if !self.at.loop_context.run.wants(Modes::CUSTOM) => {}
            other => {
                if let Ok(value) = serde_json::to_value(&other) {
                    self.at.emit(value);
                }
            }
        }
    }
}

impl LocalCalls {
    /// For the run whose first call this task makes.
    fn new(first: &TaskContext) -> Self {
        let outermost = first.loop_context.outermost_graph();
        let run = RunId::from_uuid(uuid::Uuid::from_u128(first.id().0));
        Self {
            principal: Principal::local(),
            origin: CallOrigin::Run(Arc::new(GraphCaller {
                caller: Caller::in_process(&run),
                run,
                graph: outermost.name().to_owned(),
                graph_version: outermost.version().to_owned(),
            })),
            thread: ThreadId::new(&first.loop_context.run.thread).ok(),
            budget: Arc::new(Unlimited),
            ledger: Arc::new(NoLedger),
        }
    }
}
