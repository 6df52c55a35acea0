//! The work as graphs.

pub(crate) mod apart;
pub(crate) mod cores;
pub(crate) mod filed;
pub(crate) mod followers;
pub(crate) mod growth;
pub(crate) mod history;
pub(crate) mod hosted;
pub(crate) mod journaled;
pub(crate) mod parked;
pub(crate) mod resumed;
pub(crate) mod threads;
mod wide;

use crate::inline::{self, DONE, Work};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Graph, List, Next, Routes, RunOutcome, START, SendTo, State,
};

/// Calls of the tool before the agent answers.
pub(crate) const TURNS: usize = 50;
const BRANCHES: u64 = 100;
/// A message of the scripted conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Said {
    role: String,
    content: String,
}

#[derive(State)]
struct Bench {
    #[channel(default)]
    n: u64,
    #[channel(append)]
    items: List<u64>,
    #[channel(append)]
    messages: List<Said>,
}

#[derive(Routes)]
enum Turn {
    Tool,
    End,
}

fn chain() -> CompiledGraph {
    let mut graph = Graph::<Bench>::new("chain").edge(START, "n0");
    for i in 0..10 {
        graph = graph
            .node(format!("n{i}"), async |state: State<Bench>| BenchUpdate::new().n(state.n() + 1));
        if i > 0 {
            graph = graph.edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    graph.build().expect("sound")
}

/// A graph with a single node.
fn one() -> CompiledGraph {
    let node = async |state: State<Bench>| BenchUpdate::new().n(state.n() + 1);
    Graph::<Bench>::new("one").node("n0", node).edge(START, "n0").build().expect("sound")
}

fn fan() -> CompiledGraph {
    Graph::<Bench>::new("fan")
        .node("start", async |_: State<Bench>| BenchUpdate::new().n(1))
        .node("work", async |Arg(i): Arg<u64>| BenchUpdate::new().items([i]))
        .node("join", async |state: State<Bench>| BenchUpdate::new().n(state.items().len() as u64))
        .edge(START, "start")
        .route_to("start", ["work"], |_: State<Bench>| {
            (0..BRANCHES).map(|i| Next::from(SendTo::to("work", i))).collect::<Vec<_>>()
        })
        .edge("work", "join")
        .build()
        .expect("sound")
}

/// Returns the message that follows `len` others in a conversation of this many turns.
fn said(len: usize, turns: usize) -> Said {
    if turns == TURNS {
        let (role, content) = inline::message(len);
        return Said { role: role.to_owned(), content };
    }
    let (role, content) = if len >= 2 * turns {
        ("assistant", DONE.to_owned())
    } else if len.is_multiple_of(2) {
        ("assistant", format!("call {len}"))
    } else {
        ("tool", format!("result {len}"))
    };
    Said { role: role.to_owned(), content }
}

fn react(turns: usize) -> CompiledGraph {
    let speak = move |state: State<Bench>| async move {
        BenchUpdate::new().messages([said(state.messages().len(), turns)])
    };
    Graph::<Bench>::new("react")
        .node("agent", speak)
        .node("tool", speak)
        .edge(START, "agent")
        .route("agent", |state: State<Bench>| {
            let done = state.messages().last().is_some_and(|said| said.content == DONE);
            if done { Turn::End } else { Turn::Tool }
        })
        .edge("tool", "agent")
        .build()
        .expect("sound")
}

/// The input of a run, and the thread of its own on which it runs.
pub(crate) struct ThreadInput {
    pub(crate) start: Start,
    pub(crate) thread: Arc<str>,
}

/// A kind of work as a graph.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) tasks: u32,
    graph: CompiledGraph,
    start: Box<dyn Fn() -> Start>,
    check: fn(&serde_json::Value) -> bool,
    host: Host,
    threads: AtomicU64,
}

pub(crate) fn kept() -> (Host, Arc<InMemoryCheckpointer>) {
    let saver = InMemoryCheckpointer::new();
    (Host::new().with_checkpointer(Arc::clone(&saver) as _), saver)
}

impl Case {
    pub(crate) fn new(work: Work) -> Self {
        let fresh = || Start::typed(BenchUpdate::new()).expect("an update");
        let (name, graph, check): (_, _, fn(&serde_json::Value) -> bool) = match work {
            Work::Seq10 => ("seq10", chain(), |out| out["n"] == 10),
            Work::Fan100 => ("fan100", fan(), |out| out["n"] == 100),
            Work::React50 => ("react50", react(TURNS), |out| {
                out["messages"].as_array().expect("a list").len() == 101
            }),
            Work::Wide100 => ("wide100", wide::chain(), |out| out["n"] == 10),
        };
        let start: Box<dyn Fn() -> Start> = match work {
            Work::Wide100 => wide::start(),
            _ => Box::new(fresh),
        };
        Self::over(name, work, work.tasks(), graph, start, check)
    }

    /// The agent's loop with so many turns.
    pub(crate) fn react(turns: usize) -> Self {
        let tasks = u32::try_from(turns * 2 + 1).expect("a few");
        let fresh = || Start::typed(BenchUpdate::new()).expect("an update");
        Self::over("react", Work::React50, tasks, react(turns), Box::new(fresh), |_| true)
    }

    /// The agent's loop with its calls journaled.
    pub(crate) fn calls() -> Self {
        let fresh = || Start::typed(BenchUpdate::new()).expect("an update");
        let work = Work::React50;
        let graph = journaled::graph();
        let check: fn(&serde_json::Value) -> bool =
            |out| out["messages"].as_array().expect("a list").len() == 101;
        Self::over("react50-calls", work, work.tasks(), graph, Box::new(fresh), check)
    }

    fn over(
        name: &'static str,
        work: Work,
        tasks: u32,
        graph: CompiledGraph,
        start: Box<dyn Fn() -> Start>,
        check: fn(&serde_json::Value) -> bool,
    ) -> Self {
        let host = Host::new();
        let threads = AtomicU64::new(0);
        Self { name, work, tasks, graph, start, check, host, threads }
    }

    /// Returns `true` if each task makes a call.
    pub(crate) fn journals(&self) -> bool {
        self.name == "react50-calls"
    }

    pub(crate) fn input(&self) -> Start {
        (self.start)()
    }

    /// Runs the graph without a checkpointer.
    pub(crate) async fn run(&self, input: Start) {
        let run = self.graph.run(&self.host, input);
        let ended = run.finish().await.expect("it runs");
        assert!(ended.is_completed(), "it ran to its end");
    }

    /// The input of a run on a thread of its own.
    pub(crate) fn thread_input(&self) -> ThreadInput {
        let number = self.threads.fetch_add(1, Ordering::Relaxed);
        ThreadInput { start: (self.start)(), thread: format!("t{number}").into() }
    }

    /// Returns the number of checkpoints of a run: the input and the hidden first superstep leave
    /// one each.
    pub(crate) fn checkpoints(&self) -> usize {
        2 + if self.work == Work::Fan100 { 3 } else { self.tasks as usize }
    }

    /// Runs on a thread whose checkpoints are stored.
    pub(crate) async fn run_kept(&self, host: &Host, input: ThreadInput) {
        let ThreadInput { start, thread } = input;
        let ended = self.graph.run(host, start).thread(thread).finish().await.expect("it runs");
        assert!(ended.is_completed(), "it ran to its end");
    }

    /// Returns the number of calls on record on a thread.
    pub(crate) async fn calls_on(&self, host: &Host, thread: &str) -> usize {
        self.graph.calls(host, &StateQuery::thread(thread)).await.expect("it is kept").len()
    }

    /// The result is right, and every superstep left a checkpoint that can be read back.
    pub(crate) async fn verify(&self) {
        let outcome = self.graph.run(&self.host, (self.start)()).outcome().await.expect("it runs");
        let output = match outcome {
            RunOutcome::Completed { output } => output,
            other => panic!("{}: {other:?}", self.name),
        };
        assert!((self.check)(&output), "{}: {output}", self.name);
        let (host, saver) = kept();
        let run = self.graph.run(&host, (self.start)()).thread("check");
        run.outcome().await.expect("it runs");
        let history =
            self.graph.history(&host, &StateQuery::thread("check")).await.expect("it is kept");
        assert_eq!(history.len(), saver.len());
        assert_eq!(history.len(), self.checkpoints(), "{}", self.name);
        assert_eq!(history[0].values, output, "{}", self.name);
    }
}

/// A chain of ten on a thread whose list has so many items; each node appends one.
pub(crate) struct Listed {
    graph: CompiledGraph,
    host: Host,
}

#[derive(State)]
struct Listing {
    #[channel(append)]
    items: List<u64>,
}

/// The thread has its list from the start; each run goes on from it and adds its checkpoints.
pub(crate) async fn with_list(items: u64) -> Listed {
    let mut graph = Graph::<Listing>::new("listing").edge(START, "n0");
    for i in 0..10 {
        graph = graph.node(format!("n{i}"), async |state: State<Listing>| {
            ListingUpdate::new().items([state.items().len() as u64])
        });
        if i > 0 {
            graph = graph.edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    let listed = Listed { graph: graph.build().expect("sound"), host: kept().0 };
    listed.turn((0..items).collect()).await;
    listed
}

impl Listed {
    pub(crate) async fn run(&self) {
        self.turn(Vec::new()).await;
    }

    async fn turn(&self, items: Vec<u64>) {
        let start = Start::typed(ListingUpdate::new().items(items)).expect("an update");
        let ended = self.graph.run(&self.host, start).thread("list").finish().await;
        assert!(ended.expect("it runs").is_completed(), "it ran to its end");
    }
}

/// Ten thousand tasks of one superstep that wait for 100 ms each, a thousand at a time.
pub(crate) struct Waits {
    graph: CompiledGraph,
    host: Host,
}

impl Waits {
    pub(crate) fn new() -> Self {
        let graph = Graph::<Bench>::new("waits")
            .node("start", async |_: State<Bench>| BenchUpdate::new().n(1))
            .node("work", async |Arg(i): Arg<u64>, ctx: Ctx| {
                ctx.clock().sleep(std::time::Duration::from_millis(100)).await;
                BenchUpdate::new().items([i])
            })
            .edge(START, "start")
            .route_to("start", ["work"], |_: State<Bench>| {
                (0..10_000u64).map(|i| Next::from(SendTo::to("work", i))).collect::<Vec<_>>()
            })
            .build()
            .expect("sound");
        Self { graph, host: Host::new() }
    }

    pub(crate) async fn run(&self) {
        let start = Start::typed(BenchUpdate::new()).expect("an update");
        let ended = self.graph.run(&self.host, start).finish().await.expect("it runs");
        assert!(ended.is_completed(), "it ran to its end");
    }
}
