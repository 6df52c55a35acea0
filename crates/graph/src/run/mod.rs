//! The one run loop.
//!
//! A run is loaded, begun, and then goes superstep by superstep: plan the tasks, start them,
//! settle each as it ends, close the step, commit, tell. Everything that happens to a run happens
//! here; streaming, resuming and going on after a crash are the same loop from another start.

mod attempt;
mod commit;
mod load;
mod step;
pub(crate) use step::choose;

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::hub::Hub;
use crate::state::Seen;
pub(crate) use attempt::millis;
pub(crate) use commit::Unrecorded;
use futures_util::FutureExt;
use load::{Finished, Loaded};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use step::StepEnd;
use tokio::sync::watch;
use weftwork_engine::{Goto, Machine, NodeIdx, TaskOutput};
use weftwork_store::{Claim, RunRow, Source, Store};
use weftwork_types::caller::GraphCaller;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::port::{Budget, Clock, Emit, Ledger};
use weftwork_types::run::{RunFinal, RunInput};
use weftwork_types::{CheckpointId, InterruptId, Principal, TaskId};

/// What all runs of a process share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) budget: Arc<dyn Budget>,
    pub(crate) journal: bool,
}

/// One run on its way.
pub(crate) struct Run {
    pub(crate) host: Arc<Host>,
    pub(crate) graph: CompiledGraph,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) row: RunRow,
    pub(crate) hub: Arc<Hub>,
    pub(crate) cancel: watch::Sender<bool>,
}

/// A run with its thread's state.
struct Going {
    run: Run,
    machine: Machine,
    caller: GraphCaller,
    /// Outputs of tasks of the open superstep that finished before this process had the run.
    pending: BTreeMap<TaskId, Finished>,
    answers: Arc<BTreeMap<InterruptId, Answer>>,
    /// Tasks that wait for answers nobody gave; they are not run again.
    waiting: BTreeMap<TaskId, Vec<Interrupt>>,
    /// Whether the next checkpoint begins a branch of the thread.
    branches: bool,
    /// The thread's newest checkpoint, on whatever branch.
    newest: Option<CheckpointId>,
}

/// What is left to do after the beginning.
enum Begun {
    Runs,
    IsDone,
}

impl Run {
    /// Takes the run to its end; says so when the store did not take the end.
    pub(crate) async fn drive(self) -> (RunFinal, Option<Unrecorded>) {
        let (host, hub) = (Arc::clone(&self.host), Arc::clone(&self.hub));
        let (who, claim) = (self.who.clone(), self.claim.clone());
        // Types of users are written, read and dropped outside of nodes too, and may panic there.
        let went = AssertUnwindSafe(self.go()).catch_unwind().await;
        let ended = match went.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))) {
            Ok(outcome) => return (outcome, None),
            Err(error) => error,
        };
        let outcome = RunFinal::Failed { fault: ended.fault() };
        tracing::warn!(run = %claim.at.run, thread = %claim.at.thread, error = %ended, "run failed");
        let finish = commit::Finish { host: &host, hub: &hub, who: &who, claim: &claim };
        let Err(error) = finish.failed(outcome.clone()).await else { return (outcome, None) };
        tracing::warn!(%error, run = %claim.at.run, "cannot record the end of the run");
        hub.give_up(AiEvent::Done { outcome: outcome.status() });
        let again = error.is_retriable();
        let unrecorded = Unrecorded { host, who, claim, outcome: outcome.clone() };
        (outcome, again.then_some(unrecorded))
    }

    async fn go(self) -> Result<RunFinal, RuntimeError> {
        let loaded = self.load().await?;
        let caller = GraphCaller {
            caller: self.row.new.caller.clone(),
            run: self.claim.at.run.clone(),
            graph: self.row.new.graph.clone(),
            graph_version: self.graph.version().to_owned(),
        };
        let Loaded { machine, pending, answers, waiting, begun, branches, newest } = loaded;
        let answers = Arc::new(answers);
        let mut going =
            Going { run: self, machine, caller, pending, answers, waiting, branches, newest };
        match going.begin(begun).await? {
            Begun::Runs => going.supersteps().await,
            Begun::IsDone => {
                let output = going.output()?;
                going.finish(RunFinal::Completed { output }).await
            }
        }
    }
}

impl Going {
    /// Does what the run starts with, unless a process before this one did.
    async fn begin(&mut self, begun: bool) -> Result<Begun, RuntimeError> {
        let input = self.run.row.new.input.clone();
        if begun {
            let only_update = matches!(input, RunInput::Update { .. });
            let updated = self.machine.head().is_some() && only_update;
            return Ok(if updated { Begun::IsDone } else { Begun::Runs });
        }
        let graph = self.run.row.new.graph.clone();
        self.run.hub.emit(AiEvent::RunStarted { graph });
        match input {
            RunInput::Start { input } => self.take_input(input).await?,
            RunInput::Update { writes, as_node } => {
                self.update(writes, as_node.as_deref()).await?;
                return Ok(Begun::IsDone);
            }
            RunInput::Resume { .. } | RunInput::Continue if self.machine.head().is_none() => {
                let thread = self.run.claim.at.thread.to_string();
                return Err(RuntimeError::NothingToContinue { thread });
            }
            // What was due at an older checkpoint is done again, with nothing taken over.
            RunInput::Resume { .. } | RunInput::Continue
                if self.branches && !self.machine.is_done() =>
            {
                self.pending.clear();
                self.waiting.clear();
                let closed = self.machine.fork();
                self.commit_step(&closed, Source::Fork).await?;
            }
            RunInput::Resume { .. } | RunInput::Continue => {}
        }
        Ok(Begun::Runs)
    }

    async fn take_input(&mut self, input: serde_json::Value) -> Result<(), RuntimeError> {
        let writes = self.machine.plan().input_writes(input)?;
        let output = TaskOutput { writes, ..TaskOutput::default() };
        let routes = self.start_routes(&output)?;
        let closed = self.machine.input(output.writes, routes)?;
        self.pending.clear();
        self.waiting.clear();
        self.commit_step(&closed, Source::Input).await
    }

    /// A change from outside, in the name of a node.
    async fn update(
        &mut self,
        writes: serde_json::Value,
        as_node: Option<&str>,
    ) -> Result<(), RuntimeError> {
        let plan = Arc::clone(self.machine.plan());
        let node = match as_node {
            Some(name) => plan
                .node_idx(name)
                .ok_or_else(|| RuntimeError::unknown_node("the update", name, &plan))?,
            None => self.machine.ran_last().ok_or(RuntimeError::AmbiguousUpdate)?,
        };
        let writes = plan.input_writes(writes)?;
        let mut output = TaskOutput { writes, ..TaskOutput::default() };
        output.goto = self.routes_of(node, &output)?;
        let closed = self.machine.update(node, output)?;
        self.commit_step(&closed, Source::Update).await
    }

    fn start_routes(&self, input: &TaskOutput) -> Result<Vec<Goto>, RuntimeError> {
        let mut goto = Vec::new();
        for route in self.run.graph.routes(NodeIdx::START) {
            let slots = self.machine.preview("the input", input)?;
            let plan = self.machine.plan();
            let seen = Seen { slots, plan, node: NodeIdx::START, returned: None };
            let chosen = step::choose(route, seen).map_err(RuntimeError::Node)?;
            goto.extend(chosen);
        }
        Ok(goto)
    }

    async fn supersteps(&mut self) -> Result<RunFinal, RuntimeError> {
        let limit = self.run.row.new.options.step_limit.unwrap_or(self.run.graph.step_limit());
        let mut taken = 0;
        loop {
            // A run whose nodes never wait must not keep its thread from everybody else.
            tokio::task::consume_budget().await;
            if self.machine.is_done() {
                return self.finish(RunFinal::Completed { output: self.output()? }).await;
            }
            if *self.run.cancel.borrow() {
                return self.finish(RunFinal::Cancelled).await;
            }
            if taken == limit {
                return self.finish(RunFinal::LimitReached { step_limit: limit }).await;
            }
            match self.superstep().await? {
                StepEnd::Closed(closed) => {
                    self.commit_step(&closed, Source::Loop).await?;
                    taken += 1;
                }
                StepEnd::Stopped(outcome, interrupts) => {
                    return self.stop(outcome, interrupts).await;
                }
            }
        }
    }

    fn output(&self) -> Result<serde_json::Value, RuntimeError> {
        Ok(self.machine.plan().to_json(self.machine.slots())?)
    }
}

/// A fault of a node that panicked, or of its error handler.
pub(crate) fn node_panicked(name: &str, panic: &(dyn std::any::Any + Send)) -> Fault {
    match name.strip_prefix("__error_handler__") {
        Some(node) => panicked(&format!("the error handler of node `{node}`"), panic),
        None => panicked(&format!("node `{name}`"), panic),
    }
}

/// A fault of code that panicked.
pub(crate) fn panicked(what: &str, panic: &(dyn std::any::Any + Send)) -> Fault {
    let text = text_of(panic);
    Fault::new(crate::error::NODE_PANICKED, format!("{what} panicked: {text}"))
}

/// A panic of the run's types where no node runs: a value that is written, read or dropped.
pub(crate) fn out_of_node(panic: &(dyn std::any::Any + Send)) -> RuntimeError {
    let text = format!("a type of the graph panicked between its nodes: {}", text_of(panic));
    RuntimeError::Node(Fault::new(crate::error::NODE_PANICKED, text))
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
