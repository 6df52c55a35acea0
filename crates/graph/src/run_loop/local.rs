//! The environment of runs within a program: no log and no billing, and calls are recorded in the
//! records of tasks when the checkpoints of the run are stored.

use crate::clock::SystemClock;
use crate::run_loop::call_book::CallBook;
use crate::run_loop::context::{
    EventSource, Given, Host, RunAccount, RunEnvironment, TaskContext, TaskReports,
};
use std::sync::Arc;
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask};
use weftwork_types::port::{Clock, NoLedger, Unlimited};
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, Principal, RunId, ThreadId};

/// Environment of runs within a program.
#[derive(Debug)]
struct LocalEnvironment;

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// A host that stores no checkpoints, in the environment of this program.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Arc::new(SystemClock::new()), Arc::new(LocalEnvironment))
    }
}

impl RunEnvironment for LocalEnvironment {
    fn account(&self, first: &TaskContext) -> RunAccount {
        let outermost = first.loop_context.outermost_graph();
        let run = RunId::from_uuid(uuid::Uuid::from_u128(first.id().0));
        RunAccount {
            principal: Principal::local(),
            origin: CallOrigin::Run(Arc::new(GraphCaller {
                caller: Caller::in_process(&run),
                run,
                graph: outermost.name().to_owned(),
                graph_version: outermost.version().unwrap_or("local").to_owned(),
            })),
            thread: ThreadId::new(&first.loop_context.run.options.thread).ok(),
            budget: Arc::new(Unlimited),
            ledger: Arc::new(NoLedger),
        }
    }

    fn book(&self, at: &TaskContext) -> Option<Box<dyn CallBook>> {
        Some(Box::new(at.recorder()?))
    }

    fn emit(&self, _: EventSource, _: AiEvent) {}

    fn resumes(&self, _: AiEvent) {}

    fn task_reports(&self) -> TaskReports {
        TaskReports::Omitted
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

    fn answer(&self, _: InterruptId) -> Option<Answer> {
        None
    }

    fn takes(&self, _: InterruptId, _: &Ask, _: Given<'_>) {}

    fn branch_root(&self, clock: &dyn Clock) -> CheckpointId {
        // Drawn: it is stored with the first checkpoint, and no call is recorded before that.
        CheckpointId(clock.unique())
    }
}
