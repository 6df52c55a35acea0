//! One task: its attempts, their limits, and what handles their failure.

use super::{Host, node_panicked};
use crate::compiled::NodeFn;
use crate::context::{Ctx, Hosted, RunOf, TaskContext};
use crate::error::{NODE_TIMED_OUT, NodeError, Stop};
use crate::extract::{DepMap, TaskInput};
use crate::hub::Hub;
use crate::journal::{Place, TaskJournal};
use crate::node::NodeResult;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_engine::task::{Arg, TaskPath};
use weftwork_engine::{NodeIdx, Plan, Slots, TaskOutput};
use weftwork_store::Claim;
use weftwork_types::caller::GraphCaller;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::port::{CallContext, Emit, Journal, NoJournal};
use weftwork_types::{BoxFuture, CheckpointId, InterruptId, Principal, TaskId};

/// How a task ended.
pub(super) enum TaskEnd {
    /// The node finished.
    Done(TaskOutput),
    /// The node failed, and its error handler finished.
    Handled(TaskOutput),
    /// Questions are open.
    Waiting(Vec<Interrupt>),
    /// The node failed.
    Failed(Fault),
}

impl TaskEnd {
    /// The same with channels found for writes by name, or the failure to find one.
    pub(super) fn resolved(mut self, plan: &Plan, node: NodeIdx) -> Self {
        let found = match &mut self {
            Self::Done(output) | Self::Handled(output) => {
                plan.resolve(output, plan.node_name(node))
            }
            Self::Waiting(_) | Self::Failed(_) => Ok(()),
        };
        found.map_or_else(|error| Self::Failed(error.fault()), |()| self)
    }
}

/// Everything a task needs, so that it can be tried as often as its policy says.
pub(super) struct Attempts {
    pub(super) host: Arc<Host>,
    pub(super) hub: Arc<Hub>,
    pub(super) who: Principal,
    pub(super) claim: Claim,
    pub(super) caller: GraphCaller,
    pub(super) answers: Arc<BTreeMap<InterruptId, Answer>>,
    pub(super) deps: Arc<DepMap>,
    pub(super) node: NodeFn,
    pub(super) name: String,
    pub(super) task: TaskId,
    pub(super) path: TaskPath,
    pub(super) step: i64,
    pub(super) branch: Option<CheckpointId>,
    pub(super) slots: Slots,
    pub(super) plan: Arc<Plan>,
    pub(super) arg: Option<Arg>,
    pub(super) index: NodeIdx,
}

/// Why an attempt failed. A graph within a graph is not run here.
fn fault_of(stop: Stop) -> Fault {
    match stop {
        Stop::Failed(fault) => fault,
        Stop::Interrupted | Stop::Parent(_) | Stop::Own(_) | Stop::Drained(_) => {
            crate::error::RuntimeError::NoParent.fault()
        }
    }
}

impl Attempts {
    /// Tries until an attempt finishes, asks a question, or policy gives up.
    pub(super) async fn run(self) -> TaskEnd {
        let mut attempt = 1;
        loop {
            let ctx = self.context(attempt, None);
            let fault = match self.once(&self.node, &ctx).await {
                Ok(output) => return TaskEnd::Done(output),
                Err(Stop::Interrupted) => return TaskEnd::Waiting(ctx.take_open()),
                Err(other) => fault_of(other),
            };
            let random = self.host.clock.unique();
            let retry = self.node.options.retry.as_ref();
            let Some(wait) = retry.and_then(|retry| retry.wait(attempt, &fault, random)) else {
                return self.handle(fault).await;
            };
            tracing::debug!(node = %self.name, attempt, %fault, "trying again");
            self.hub.emit(AiEvent::AttemptReset { node: self.name.clone() });
            self.host.clock.sleep(wait).await;
            attempt += 1;
        }
    }

    /// Lets the node's error handler take over, when it has one.
    async fn handle(&self, fault: Fault) -> TaskEnd {
        let Some(handler) = &self.node.options.on_error else { return TaskEnd::Failed(fault) };
        let ctx = self.context(1, Some(fault));
        match self.once(handler, &ctx).await {
            Ok(output) => TaskEnd::Handled(output),
            Err(Stop::Interrupted) => TaskEnd::Waiting(ctx.take_open()),
            Err(other) => TaskEnd::Failed(fault_of(other)),
        }
    }

    fn call(&self, node: &NodeFn, ctx: &Ctx) -> BoxFuture<'static, NodeResult<TaskOutput>> {
        let cell = std::cell::OnceCell::new();
        node.call(&TaskInput {
            slots: &self.slots,
            plan: &self.plan,
            node: self.index,
            arg: self.arg.as_ref(),
            ctx: &cell,
            make: &|| ctx.clone(),
        })
    }

    async fn once(&self, node: &NodeFn, ctx: &Ctx) -> Result<TaskOutput, Stop> {
        // The call itself may panic too, before there is a future.
        let future = AssertUnwindSafe(async { self.call(node, ctx).await }).catch_unwind();
        let limits = node.options.timeout;
        let ended = if limits.run.is_none() && limits.idle.is_none() {
            future.await
        } else {
            let cut = std::pin::pin!(self.time_out(ctx, limits.run, limits.idle));
            match select(std::pin::pin!(future), cut).await {
                Either::Left((ended, _)) => ended,
                Either::Right((fault, _)) => return Err(Stop::Failed(fault)),
            }
        };
        match ended {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(NodeError(stop))) => Err(stop),
            Err(panic) => Err(Stop::Failed(node_panicked(&self.name, panic.as_ref()))),
        }
    }

    /// Ends when a limit is reached.
    async fn time_out(&self, ctx: &Ctx, run: Option<Duration>, idle: Option<Duration>) -> Fault {
        let clock = &self.host.clock;
        let began = clock.elapsed();
        loop {
            let now = clock.elapsed();
            let run_left = run.map(|limit| began.saturating_add(limit).saturating_sub(now));
            let idle_left =
                idle.map(|limit| ctx.last_beat().saturating_add(limit).saturating_sub(now));
            let (left, kind, limit) = match (run_left, idle_left) {
                (Some(r), Some(i)) if i < r => (i, "a sign of life for", idle),
                (Some(r), _) => (r, "an end for", run),
                (None, i) => (i.unwrap_or(Duration::MAX), "a sign of life for", idle),
            };
            if left.is_zero() {
                let ms = limit.unwrap_or_default().as_millis();
                let text = format!("node `{}` was without {kind} {ms} ms, its limit", self.name);
                return Fault::new(NODE_TIMED_OUT, text).retriable(true);
            }
            clock.sleep(left).await;
        }
    }

    fn context(&self, attempt: u32, failure: Option<Fault>) -> Ctx {
        let host = &self.host;
        let journal: Arc<dyn Journal> = if host.journal {
            Arc::new(TaskJournal {
                store: Arc::clone(&host.store),
                clock: Arc::clone(&host.clock),
                who: self.who.clone(),
                claim: self.claim.clone(),
                place: Place {
                    branch: self.branch,
                    node: self.name.clone(),
                    path: self.path.to_string(),
                    step: self.step,
                    attempt,
                    handler: failure.is_some(),
                },
                seen: Mutex::default(),
            })
        } else {
            Arc::new(NoJournal)
        };
        let beat = Arc::new(AtomicU64::new(millis(host.clock.elapsed())));
        let hub: Arc<dyn Emit> = self.hub.clone();
        let emit: Arc<dyn Emit> = match self.node.options.timeout.idle {
            Some(_) => {
                Arc::new(Pulse { to: hub, clock: Arc::clone(&host.clock), beat: Arc::clone(&beat) })
            }
            None => hub,
        };
        Ctx(Arc::new(TaskContext {
            node: self.name.as_str().into(),
            step: self.step,
            attempt,
            messages: Ctx::first_index(failure.as_ref()),
            beat,
            deps: Arc::clone(&self.deps),
            open: Mutex::default(),
            run: RunOf::Hosted(Hosted {
                task: self.task,
                asked: Ctx::first_index(failure.as_ref()),
                answers: Arc::clone(&self.answers),
                calls: CallContext {
                    principal: self.who.clone(),
                    caller: self.caller.clone(),
                    thread: self.claim.at.thread.clone(),
                    journal,
                    budget: Arc::clone(&host.budget),
                    ledger: Arc::clone(&host.ledger),
                    clock: Arc::clone(&host.clock),
                    emit,
                    deadline: None,
                },
            }),
            failure,
        }))
    }
}

/// Passes events on and takes each as a sign of life.
#[derive(Debug)]
struct Pulse {
    to: Arc<dyn Emit>,
    clock: Arc<dyn weftwork_types::port::Clock>,
    beat: Arc<AtomicU64>,
}

impl Emit for Pulse {
    fn emit(&self, event: AiEvent) {
        self.beat.store(millis(self.clock.elapsed()), Ordering::Relaxed);
        self.to.emit(event);
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
