//! The ways to run the graph of a spec: within the program, or as hosted runs of a runtime.

mod follow;
mod hosted;

pub(crate) use hosted::{Hosted, ended, runs};

use crate::class;
use crate::play::{Played, Target};
use crate::python::Raised;
use crate::trace;
use serde_json::Value as Json;
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::run_loop::{CheckpointRef, Snapshot, Stops};
use weftwork_graph::run_loop::{
    Continued, HistoryFilter, Host, Run, Start, StateQuery, StateUpdate,
};
use weftwork_graph::{CompiledGraph, Durability, Modes, RunOutcome, RuntimeError};
use weftwork_types::run::RunInput;

/// A way to run the graph of a spec.
pub(crate) enum Front {
    /// Runs of this program.
    Local(Local),
    /// Hosted runs, each under a claim.
    Hosted(Hosted),
}

/// A graph, and the resources of its runs.
pub(crate) struct Local {
    pub(crate) graph: CompiledGraph,
    pub(crate) host: Host,
    /// `true` if runs are executed apart from the reader of their events.
    pub(crate) streamed: bool,
}

/// A run to be executed.
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) input: RunInput,
    pub(crate) limit: u32,
    /// Progress of an earlier process, on the way to the limit.
    pub(crate) continued: Option<Continued>,
    pub(crate) modes: Modes,
    pub(crate) context: Json,
    pub(crate) durability: Durability,
    pub(crate) interrupt_before: Option<Stops>,
    pub(crate) interrupt_after: Option<Stops>,
}

impl Front {
    pub(crate) async fn state(
        &self,
        at: &StateQuery,
        within: bool,
    ) -> Result<Snapshot, RuntimeError> {
        match self {
            Self::Local(Local { graph, host, .. }) => graph.state(host, at, within).await,
            Self::Hosted(hosted) => hosted.view(at, within)?.state().await,
        }
    }

    pub(crate) async fn history(&self, at: &StateQuery) -> Result<Vec<Snapshot>, RuntimeError> {
        match self {
            Self::Local(Local { graph, host, .. }) => graph.history(host, at).await,
            Self::Hosted(hosted) => {
                hosted.view(at, false)?.history(&HistoryFilter::default()).await
            }
        }
    }

    /// Changes the state, one superstep for each list.
    pub(crate) async fn change(
        &self,
        target: &Target,
        steps: Vec<Vec<StateUpdate>>,
    ) -> Played<CheckpointRef> {
        match self {
            Self::Local(Local { graph, host, .. }) => {
                let changed = graph.update(host, &target.at(), steps).await;
                changed.map_err(|error| raised(&error))
            }
            Self::Hosted(hosted) => Box::pin(hosted.change(target, steps)).await,
        }
    }

    /// Executes a run. Its events are converted as they come.
    pub(crate) async fn run(&self, request: Request, events: &mut Vec<Json>) -> Played<()> {
        match self {
            Self::Local(local) => Box::pin(local.run(request, events)).await,
            Self::Hosted(hosted) => Box::pin(hosted.run(request, events)).await,
        }
    }
}

impl Local {
    async fn run(&self, request: Request, events: &mut Vec<Json>) -> Played<()> {
        let modes = request.modes;
        let run = self.prepared(request);
        let outcome = if self.streamed {
            let (sender, mut items) = unbounded_channel();
            // On its own task: it continues while events are converted, and ends when none is read.
            let run = tokio::spawn(run.report_to(modes, sender).outcome());
            while let Some(item) = items.recv().await {
                events.extend(trace::event(&item));
            }
            let ended = run.await;
            ended.map_err(|error| Raised::new("Exception", error.to_string()))?
        } else {
            let mut stream = run.modes(modes).stream();
            while let Some(item) = stream.next().await {
                events.extend(trace::event(&item));
            }
            return match stream.outcome() {
                Some(outcome) => ended_here(outcome.as_ref()),
                None => Err(Raised::new("Exception", "the run has no outcome")),
            };
        };
        ended_here(outcome.as_ref())
    }

    fn prepared(&self, request: Request) -> Run {
        let start = match request.input {
            RunInput::Start { input } => Start::Input(input),
            RunInput::Command(command) => Start::Command(command.into()),
            // Changes are made without a run here.
            RunInput::Continue | RunInput::Update { .. } => Start::Continue,
        };
        let target = request.target;
        let mut run = self.graph.run(&self.host, start).thread(target.thread.as_str());
        run = run.step_limit(request.limit).context(request.context);
        run = run.durability(request.durability);
        if target.config.id.is_some() || !target.config.ns.is_empty() {
            run = run.from(&target.config);
        }
        if let Some(earlier) = request.continued {
            run = run.continued(earlier);
        }
        if let Some(stops) = request.interrupt_before {
            run = run.interrupt_before(stops);
        }
        if let Some(stops) = request.interrupt_after {
            run = run.interrupt_after(stops);
        }
        run
    }
}

fn ended_here(outcome: Result<&RunOutcome, &RuntimeError>) -> Played<()> {
    match outcome.map_err(raised)? {
        RunOutcome::LimitReached { step_limit } => Err(out_of_steps(*step_limit)),
        RunOutcome::Cancelled { reason } => Err(drained(reason.as_deref().unwrap_or_default())),
        RunOutcome::Failed { fault } => {
            Err(Raised { class: class::of(fault), message: fault.message.clone() })
        }
        RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. } => Ok(()),
    }
}

fn out_of_steps(limit: u32) -> Raised {
    let message = format!("the run reached its limit of {limit} supersteps");
    Raised::new("GraphRecursionError", message)
}

fn drained(reason: &str) -> Raised {
    Raised::new("GraphDrained", format!("Graph drained: {reason}"))
}

pub(crate) fn raised(error: &RuntimeError) -> Raised {
    let fault = error.fault();
    let class = match error {
        RuntimeError::NoUpdates => "ValueError".to_owned(),
        // The reference takes only an answer for a mistake of another class.
        RuntimeError::NoCheckpointer { what } if *what != "an answer" => "ValueError".to_owned(),
        _ => class::of(&fault),
    };
    Raised { class, message: fault.message }
}
