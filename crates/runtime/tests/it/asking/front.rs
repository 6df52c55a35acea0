//! The ways to run a drawn graph: within the program, or hosted by a process that may die.

use super::build::Witness;
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::run_loop::{
    CheckpointRef, Checkpointer, Host, Run, RunStream, Start, StateQuery, StateUpdate,
};
use weftwork_graph::{
    CompiledGraph, HistoryFilter, Modes, NODE_FAILED, RunOutcome, RuntimeError, Snapshot,
    StreamEvent,
};
use weftwork_runtime::{EndedRun, Runtime, StoreCheckpointer, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_store::{Store, asking_threads};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{RunCommand, RunInput};
use weftwork_types::{CheckpointId, InterruptId, Principal};

const GRAPH: &str = "test:asking";
const THREAD: &str = "t";
/// Note of a change of a subgraph.
pub(super) const WITHIN: u64 = 3;

/// A request on the thread.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Start,
    Continue,
    /// New values of a channel that no node reads.
    Note,
    Answer(BTreeMap<InterruptId, Value>),
    /// A change of a graph of the thread, in the name of this node.
    Update {
        ns: String,
        as_node: Option<String>,
    },
}

impl Request {
    fn input(&self) -> RunInput {
        match self {
            Self::Start => RunInput::Start { input: json!({"log": [], "note": []}) },
            Self::Continue => RunInput::Continue,
            Self::Note => RunInput::Command(RunCommand {
                update: vec![("note".to_owned(), json!([1]))],
                ..RunCommand::default()
            }),
            Self::Answer(answers) => RunInput::answers(answers.clone()),
            Self::Update { ns, as_node } => {
                let note = if ns.is_empty() { 2 } else { WITHIN };
                RunInput::Update { writes: json!({"note": [note]}), as_node: as_node.clone() }
            }
        }
    }
}

/// End of a request.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    Completed(Vec<String>),
    /// Open questions.
    Waits(Vec<Interrupt>),
    /// A node failed.
    Failed,
    /// Anything else ended the run, or it was not accepted.
    Refused(Fault),
    /// The process died, and nothing resumes the run.
    Died,
}

/// A request that ended, and the questions in its stream.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) ended: Ended,
    pub(super) streamed: Vec<Interrupt>,
}

/// Open questions, as the places that list them have them.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) state: Vec<Interrupt>,
    /// Questions of the thread and of the inbox; none for runs of the program.
    pub(super) stored: Option<Stored>,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) thread: Vec<Interrupt>,
    pub(super) inbox: Vec<Interrupt>,
}

/// A way to run a graph.
pub(super) enum Front {
    Local(Local),
    Hosted(Box<Hosted>),
}

pub(super) struct Local {
    graph: CompiledGraph,
    host: Host,
}

pub(super) struct Hosted {
    graph: CompiledGraph,
    store: Arc<dyn Store>,
    who: Principal,
    rebuilds: bool,
    process: Process,
}

/// A process: all that it does ends with it.
struct Process {
    tokio: tokio::runtime::Runtime,
    runtime: Runtime,
}

fn tokio() -> tokio::runtime::Runtime {
    let builder = tokio::runtime::Builder::new_current_thread().enable_all().build();
    builder.expect("a runtime")
}

impl Front {
    /// Runs within the program; `rebuilds`: the state of a run is read back after each superstep.
    pub(super) fn local(graph: CompiledGraph, rebuilds: bool) -> Self {
        let saver: Arc<dyn Checkpointer> =
            StoreCheckpointer::new(Arc::new(MemoryStore::new()), Principal::local());
        let host = Host::new().with_checkpointer(saver);
        let host = if rebuilds { host.rebuilding() } else { host };
        Self::Local(Local { graph, host })
    }

    pub(super) fn hosted(
        graph: CompiledGraph,
        store: Arc<dyn Store>,
        who: Principal,
        rebuilds: bool,
    ) -> Self {
        let process = Process::open(&graph, &store, rebuilds);
        Self::Hosted(Box::new(Hosted { graph, store, who, rebuilds, process }))
    }

    /// Runs in another process from now on, if runs are hosted.
    pub(super) fn restart(&mut self) {
        if let Self::Hosted(hosted) = self {
            hosted.restart();
        }
    }

    pub(super) fn request(
        &mut self,
        request: &Request,
        at: Option<CheckpointId>,
        witness: &Witness,
    ) -> Told {
        match self {
            Self::Local(local) => local.request(request, at, witness),
            Self::Hosted(hosted) => hosted.request(request, at, witness),
        }
    }

    pub(super) fn listed(&self) -> Listed {
        let state = self.state("").map(|state| state.interrupts).unwrap_or_default();
        let stored = match self {
            Self::Local(_) => None,
            Self::Hosted(hosted) => Some(hosted.stored()),
        };
        Listed { state, stored }
    }

    /// The state of a graph of the thread.
    pub(super) fn state(&self, ns: &str) -> Result<Snapshot, RuntimeError> {
        match self {
            Self::Local(Local { graph, host }) => {
                let at = StateQuery::thread(THREAD).within(ns);
                tokio().block_on(graph.state(host, &at, false))
            }
            Self::Hosted(hosted) => {
                let view = hosted.thread(None).view().within(ns);
                hosted.process.tokio.block_on(view.state())
            }
        }
    }

    pub(super) fn history(&self) -> Vec<Snapshot> {
        let history = match self {
            Self::Local(Local { graph, host }) => {
                tokio().block_on(graph.history(host, &StateQuery::thread(THREAD)))
            }
            Self::Hosted(hosted) => {
                let all = HistoryFilter::default();
                let thread = hosted.thread(None);
                hosted.process.tokio.block_on(thread.history(&all))
            }
        };
        history.expect("reads")
    }
}

impl Local {
    fn request(&self, request: &Request, at: Option<CheckpointId>, witness: &Witness) -> Told {
        let going = async {
            tokio::select! {
                biased;
                () = witness.death() => Told { ended: Ended::Died, streamed: Vec::new() },
                told = self.go(request, at) => told,
            }
        };
        tokio().block_on(going)
    }

    async fn go(&self, request: &Request, at: Option<CheckpointId>) -> Told {
        let start = match request.input() {
            RunInput::Start { input } => Start::Input(input),
            RunInput::Command(command) => Start::Command(command.into()),
            RunInput::Continue => Start::Continue,
            RunInput::Update { writes, as_node } => {
                let ended = self.update(request, writes, as_node).await;
                return Told { ended, streamed: Vec::new() };
            }
        };
        let mut run = self.graph.run(&self.host, start).thread(THREAD);
        if let Some(at) = at {
            run = run.at(at);
        }
        let (outcome, streamed) = streamed(run).await;
        let ended = match outcome {
            Ok(outcome) => of_outcome(outcome),
            Err(error) => of_fault(error.fault()),
        };
        Told { ended, streamed }
    }

    async fn update(&self, request: &Request, writes: Value, as_node: Option<String>) -> Ended {
        let Request::Update { ns, .. } = request else { return Ended::Completed(Vec::new()) };
        let at = StateQuery::thread(THREAD).within(ns.as_str());
        let update = StateUpdate::read(writes, as_node.into());
        let updated = async { self.graph.update(&self.host, &at, vec![vec![update?]]).await };
        match updated.await {
            Ok(_) => Ended::Completed(Vec::new()),
            Err(error) => of_fault(error.fault()),
        }
    }
}

async fn streamed(run: Run) -> (Result<RunOutcome, RuntimeError>, Vec<Interrupt>) {
    let mut stream: RunStream = run.modes(Modes::UPDATES).stream();
    let mut asked = Vec::new();
    while let Some(item) = stream.next().await {
        if let (StreamEvent::Interrupts(questions), true) = (item.event, item.ns.is_empty()) {
            asked.extend(questions);
        }
    }
    (stream.outcome().cloned().expect("the stream has ended"), asked)
}

fn of_outcome(outcome: RunOutcome) -> Ended {
    match outcome {
        RunOutcome::Completed { output } => {
            let log = output["log"].as_array().cloned().unwrap_or_default();
            let text = |item: Value| item.as_str().map(str::to_owned).unwrap_or_default();
            Ended::Completed(log.into_iter().map(text).collect())
        }
        RunOutcome::Interrupted { questions, .. } => Ended::Waits(questions),
        RunOutcome::Failed { fault } => of_fault(fault),
        other => Ended::Refused(Fault::new(NODE_FAILED, format!("{other:?}"))),
    }
}

fn of_fault(fault: Fault) -> Ended {
    if fault.code == NODE_FAILED.0 { Ended::Failed } else { Ended::Refused(fault) }
}

impl Process {
    fn open(graph: &CompiledGraph, store: &Arc<dyn Store>, rebuilds: bool) -> Self {
        let tokio = tokio();
        let builder = Runtime::builder(Arc::clone(store)).graph(GRAPH, graph.clone());
        let builder = if rebuilds { builder.rebuilding() } else { builder };
        let runtime = tokio.block_on(builder.open()).expect("opens");
        Self { tokio, runtime }
    }
}

impl Hosted {
    fn thread(&self, at: Option<CheckpointId>) -> Thread {
        let thread = self.process.runtime.thread(GRAPH, THREAD).expect("an id");
        let thread = thread.with_principal(self.who.clone());
        match at {
            Some(at) => thread.at(at),
            None => thread,
        }
    }

    /// The process ends, with its lease, and another one begins.
    fn restart(&mut self) {
        let worker = self.process.runtime.worker().clone();
        let next = Process::open(&self.graph, &self.store, self.rebuilds);
        self.process = next;
        self.process.tokio.block_on(self.store.retire(&worker)).expect("retires");
    }

    fn request(&mut self, request: &Request, at: Option<CheckpointId>, witness: &Witness) -> Told {
        let thread = self.thread(at);
        let going = async {
            tokio::select! {
                biased;
                () = witness.death() => None,
                told = go(&thread, request) => Some(told),
            }
        };
        if let Some(told) = self.process.tokio.block_on(going) {
            return told;
        }
        drop(thread);
        self.restart();
        witness.dies_after(None);
        let thread = self.thread(None);
        let resumed = self.process.tokio.block_on(async { Ok(thread.resume().await?.await) });
        let ended = match resumed {
            Ok(ended) => of_outcome(ended.outcome().clone()),
            Err(error) => Ended::Refused(RuntimeError::fault(&error)),
        };
        let streamed = match &ended {
            Ended::Waits(questions) => questions.clone(),
            _ => Vec::new(),
        };
        Told { ended, streamed }
    }

    fn stored(&self) -> Stored {
        let thread = self.thread(None);
        let read = async {
            let asking = asking_threads(self.store.as_ref(), &self.who).await.expect("searches");
            let open = asking.into_iter().flat_map(|thread| thread.open);
            let inbox = open.map(|row| row.interrupt).collect();
            Stored { thread: thread.questions().await.unwrap_or_default(), inbox }
        };
        self.process.tokio.block_on(read)
    }
}

async fn go(thread: &Thread, request: &Request) -> Told {
    let run = thread.start(request.input());
    let run = match request {
        Request::Update { ns, .. } if !ns.is_empty() => {
            run.from(&CheckpointRef { ns: ns.clone(), ..CheckpointRef::default() })
        }
        _ => run,
    };
    let going = async {
        let (sender, mut items) = unbounded_channel();
        let started = run.report_to(Modes::UPDATES, sender).begin().await?;
        let mut asked = Vec::new();
        while let Some(item) = items.recv().await {
            if let (StreamEvent::Interrupts(questions), true) = (item.event, item.ns.is_empty()) {
                asked.extend(questions);
            }
        }
        let ended: EndedRun = started.await;
        Ok::<_, RuntimeError>((ended.outcome().clone(), asked))
    };
    match going.boxed().await {
        Ok((outcome, streamed)) => Told { ended: of_outcome(outcome), streamed },
        Err(error) => Told { ended: of_fault(error.fault()), streamed: Vec::new() },
    }
}
