//! Hosted runs of a spec, through the threads of a runtime.

use super::follow::{Followed, FollowedRun, Followers, lasting};
use super::{Request, drained, out_of_steps, raised};
use crate::Mode;
use crate::class;
use crate::play::{Played, Target};
use crate::python::Raised;
use crate::setting::Home;
use crate::trace;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::run_loop::{CheckpointRef, StateQuery, StateUpdate};
use weftwork_graph::{CompiledGraph, Modes, RuntimeError};
use weftwork_runtime::{EndedRun, Runtime, Thread, ThreadView};
use weftwork_store::{ItemStore, RunRow, Store, StoreError};
use weftwork_types::event::Position;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome};
use weftwork_types::{Principal, ThreadId};

/// Name of the hosted graph.
pub(super) const GRAPH: &str = "spec";
/// Reason for which nodes of specs ask their run to stop.
const DRAINED: &str = "test";

/// A runtime with the graph of a spec.
pub(crate) struct Hosted {
    runtime: Runtime,
    who: Principal,
    /// `true` if runs go on where the thread stands; else each has a thread of its own.
    checkpoints: bool,
    threads: AtomicU64,
    /// Followers of the runs, in a mode that has them.
    followers: Option<Followers>,
}

impl Hosted {
    pub(crate) async fn open(
        graph: CompiledGraph,
        home: &Home,
        items: Arc<dyn ItemStore>,
        checkpoints: bool,
        mode: Mode,
    ) -> Result<Self, RuntimeError> {
        let followed = mode == Mode::Followed;
        let followers = followed.then(|| Followers::new(graph.clone(), home, items.clone()));
        let rebuilding = mode == Mode::RebuildEachStep;
        let builder = Runtime::builder(Arc::clone(&home.store)).graph(GRAPH, graph).items(items);
        let builder = if rebuilding { builder.rebuilding() } else { builder };
        let runtime = builder.open().await?;
        Ok(Self {
            runtime,
            who: home.who.clone(),
            checkpoints,
            threads: AtomicU64::new(0),
            followers,
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn thread(&self, name: &str) -> Result<Thread, RuntimeError> {
        let thread = self.runtime.thread(GRAPH, thread_id(name)?.as_str())?;
        Ok(thread.with_principal(self.who.clone()))
    }

    pub(super) fn view(&self, at: &StateQuery, within: bool) -> Result<ThreadView, RuntimeError> {
        let mut view = self.thread(&at.thread)?.view().within(&at.ns);
        if let Some(checkpoint) = at.checkpoint {
            view = view.at(checkpoint);
        }
        Ok(if within { view.with_subgraphs() } else { view })
    }

    /// Makes changes, each a superstep and a run of its own. Others are not applicable.
    pub(super) async fn change(
        &self,
        target: &Target,
        steps: Vec<Vec<StateUpdate>>,
    ) -> Played<CheckpointRef> {
        let mut config = Err(raised(&RuntimeError::NoUpdates));
        let mut target = target.clone();
        for update in steps.into_iter().flatten() {
            let changed = self.change_once(&target, update).await?;
            target.config = changed.clone();
            config = Ok(changed);
        }
        config
    }

    async fn change_once(&self, target: &Target, update: StateUpdate) -> Played<CheckpointRef> {
        let writes = update.values.map(|members| Json::Object(Map::from_iter(members)));
        let as_node = update.as_node.name().map(str::to_owned);
        let input = RunInput::Update { writes: writes.unwrap_or_default(), as_node };
        let changed = async {
            let thread = self.thread(&target.thread)?;
            thread.start(input).from(&target.config).await
        };
        ended(changed.await.map_err(|error| raised(&error))?.outcome())?;
        self.newest(&target.thread, &target.config.ns).await
    }

    /// The newest checkpoint of a graph of a thread.
    pub(crate) async fn newest(&self, thread: &str, ns: &str) -> Played<CheckpointRef> {
        let state = async { self.thread(thread)?.view().within(ns).state().await };
        let state = state.await.map_err(|error| raised(&error))?;
        Ok(state.config.unwrap_or_default())
    }

    pub(super) async fn run(&self, request: Request, events: &mut Vec<Json>) -> Played<()> {
        let (end, followed) =
            self.streamed(request, events).await.map_err(|error| raised(&error))?;
        if let Some((followers, followed)) = self.followers.as_ref().zip(followed) {
            followers.check(end.run(), followed).await?;
        }
        ended(end.outcome())
    }

    async fn streamed(
        &self,
        request: Request,
        events: &mut Vec<Json>,
    ) -> Result<(EndedRun, Option<Followed>), RuntimeError> {
        let modes = request.modes;
        let options = RunOptions {
            step_limit: Some(request.limit),
            durability: request.durability,
            interrupt_before: request.interrupt_before,
            interrupt_after: request.interrupt_after,
            context: request.context,
            ..RunOptions::default()
        };
        let mut name = request.target.thread;
        if !self.checkpoints {
            let number = self.threads.fetch_add(1, Ordering::Relaxed);
            name.push_str(&format!("-{number}"));
        }
        let run =
            self.thread(&name)?.start(request.input).options(options).from(&request.target.config);
        let projected = self.followers.is_some();
        let (sender, mut items) = unbounded_channel();
        let run = run.report_to(if projected { Modes::NONE } else { modes }, sender);
        let started = run.begin().await?;
        let mut followed = None;
        if projected {
            let run = FollowedRun {
                runtime: self.runtime.clone(),
                who: self.who.clone(),
                run: started.run().clone(),
                modes,
            };
            let reconnecting = run.clone();
            let again = tokio::spawn(async move { reconnecting.frames_one_by_one().await });
            let live = run.frames(Position::START, usize::MAX).await?;
            // Whether a follower is in time for partial text depends on the store.
            let whole = lasting(live.clone());
            events.extend(whole.iter().filter_map(|frame| trace::event(frame.item()?)));
            let again = again.await.unwrap_or_default();
            followed = Some(Followed { modes, live, again });
        }
        while let Some(item) = items.recv().await {
            events.extend(trace::event(&item));
        }
        Ok((started.await, followed))
    }

    /// Resumes the run that another process left behind.
    pub(crate) async fn resume(&self, thread: &str) -> Played<()> {
        let resumed = async { Ok(self.thread(thread)?.resume().await?.await) };
        ended(resumed.await.map_err(|error: RuntimeError| raised(&error))?.outcome())
    }
}

/// The runs of a thread in a store.
pub(crate) async fn runs(
    store: &Arc<dyn Store>,
    who: &Principal,
    thread: &str,
) -> Result<Vec<RunRow>, RuntimeError> {
    match store.runs(who, &thread_id(thread)?).await {
        Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
        runs => Ok(runs?),
    }
}

/// The end of a run as an entry of a script shows it. Only nodes cancel runs here.
pub(crate) fn ended(outcome: &RunOutcome) -> Played<()> {
    match outcome {
        RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. } => Ok(()),
        RunOutcome::LimitReached { step_limit } => Err(out_of_steps(*step_limit)),
        RunOutcome::Cancelled { .. } => Err(drained(DRAINED)),
        RunOutcome::Failed { fault } => {
            Err(Raised { class: class::of(fault), message: fault.message.clone() })
        }
    }
}

/// The id of a thread. Names that are no ids are written in hexadecimal digits.
fn thread_id(name: &str) -> Result<ThreadId, RuntimeError> {
    let hex = || name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(ThreadId::new(name).or_else(|_| ThreadId::new(format!("x{}", hex())))?)
}
