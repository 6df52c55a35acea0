//! Runs and tasks that compute at the same time, on other threads than that of their run.

use crate::support::failed;
use serde_json::json;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Durability, Finish, Flow, Graph, HistoryFilter, List, NodeError,
    NodeResult, Retry, RunOutcome, START, State, TaskDef, Timeout,
};
use weftwork_runtime::Runtime;
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKind, CallResult, Intent, Opened};
use weftwork_types::tool::Effect;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Occupies its thread until another node is here too.
async fn meet(both: Deps<Arc<Barrier>>) -> LogUpdate {
    both.wait();
    LogUpdate::new().log(["met"])
}

fn barrier() -> Arc<Barrier> {
    Arc::new(Barrier::new(2))
}

async fn open(graph: CompiledGraph) -> Runtime {
    Runtime::in_memory().graph("test:graph", graph).open().await.expect("opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_runs_compute_on_two_threads() {
    let graph = Graph::<Log>::new("meet").with(barrier()).node("meet", meet);
    let runtime = open(graph.edge(START, "meet").build().expect("sound")).await;
    let run = |thread| runtime.thread("test:graph", thread).expect("hosted").start(json!({}));
    let (one, two) = tokio::join!(run("a").into_future(), run("b").into_future());
    assert_eq!(one.expect("runs").output().expect("completes")["log"], json!(["met"]));
    assert_eq!(two.expect("runs").output().expect("completes")["log"], json!(["met"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn parallel_and_blocking_tasks_of_a_superstep_compute_on_two_threads() {
    for blocking in [false, true] {
        let graph = Graph::<Log>::new("meet").with(barrier()).node("one", meet).node("two", meet);
        let graph = graph.edge(START, "one").edge(START, "two");
        let graph = match blocking {
            false => graph.parallel("one").parallel("two"),
            true => graph.blocking("one").blocking("two"),
        };
        let runtime = open(graph.build().expect("sound")).await;
        let ended = runtime.thread("test:graph", "t").expect("hosted").start(json!({})).await;
        let ended = ended.expect("runs");
        assert_eq!(ended.output().expect("completes")["log"], json!(["met", "met"]));
    }
}

/// Where the nodes of a test run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    TheRun,
    Parallel,
    Blocking,
}

impl On {
    fn set(self, graph: Graph<Log>, node: &str) -> Graph<Log> {
        match self {
            Self::TheRun => graph,
            Self::Parallel => graph.parallel(node),
            Self::Blocking => graph.blocking(node),
        }
    }
}

/// Makes a call with an effect, unless it is on record.
async fn call(ctx: &Ctx, name: &str) -> NodeResult<()> {
    let intent = Intent {
        kind: CallKind::Tool,
        name: name.to_owned(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ExternalSideEffect,
        attempts: Attempts::Shared,
    };
    let journal = &ctx.calls().journal;
    if let Opened::New { key } = journal.open(intent).await? {
        journal.settle(key, CallResult { value: json!(name) }).await?;
    }
    Ok(())
}

/// Eight tasks of one superstep that call, emit and end in any order; each third one fails first.
fn eight(on: On) -> CompiledGraph {
    let mut graph = Graph::<Log>::new("eight")
        .node("join", async |state: State<Log>| said(format!("{} of 8", state.log().len())));
    let names: Vec<_> = (0..8).map(|n| format!("n{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let node = move |ctx: Ctx| async move {
            call(&ctx, &format!("pay {n}")).await?;
            ctx.emit(json!(n));
            if n % 3 == 0 && ctx.attempt() == 1 {
                return Err(NodeError::message("once").retriable());
            }
            NodeResult::Ok(said(format!("{n} of {}", ctx.node())))
        };
        let retry = Retry::new(2).backoff(Duration::ZERO, 1.0).without_jitter();
        graph = on.set(graph.node(name, node).retry(name, retry).edge(START, name), name);
    }
    graph.join(names, "join").build().expect("sound")
}

fn said(text: String) -> LogUpdate {
    LogUpdate::new().log([text])
}

/// The checkpoints of a thread with their tasks, and the names of the calls on record.
async fn trace(on: On, durability: Durability) -> (Vec<String>, Vec<String>) {
    let runtime = open(eight(on)).await;
    let thread = runtime.thread("test:graph", "t").expect("hosted");
    let ended = thread.start(json!({})).durability(durability).await.expect("runs");
    assert!(matches!(ended.outcome(), RunOutcome::Completed { .. }), "{:?}", ended.outcome());
    let history = thread.history(&HistoryFilter::default()).await.expect("reads");
    let told = history.iter().map(|state| {
        let tasks = state.tasks.iter().map(|task| (&task.name, &task.result, &task.error));
        let step = state.metadata.as_ref().map(|metadata| (metadata.source, metadata.step));
        format!("{step:?} {} {:?} {:?}", state.values, state.next, tasks.collect::<Vec<_>>())
    });
    let calls = runtime.store().calls(&Principal::local(), thread.id()).await.expect("reads");
    let mut calls: Vec<_> =
        calls.into_iter().map(|call| format!("{} {}", call.name, call.made)).collect();
    calls.sort();
    (told.collect(), calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_on_other_threads_leave_the_same_trace() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let expected = trace(On::TheRun, durability).await;
        assert_eq!(expected.1.len(), 8);
        for on in [On::Parallel, On::Blocking] {
            assert_eq!(trace(on, durability).await, expected, "{on:?}, {durability:?}");
        }
    }
}

/// Code that blocks in its first attempt, and what it may do once it was cut off.
struct Stuck {
    reached: UnboundedSender<u32>,
    wait: Mutex<mpsc::Receiver<()>>,
    late: UnboundedSender<Vec<String>>,
}

impl Stuck {
    /// Blocks its thread until the test says so, or is over.
    fn wait(&self) {
        let wait = self.wait.lock().expect("not poisoned");
        wait.recv().unwrap_or_default();
    }
}

async fn stuck(ctx: Ctx, stuck: Deps<Arc<Stuck>>) -> NodeResult<LogUpdate> {
    stuck.reached.send(ctx.attempt()).map_err(NodeError::from)?;
    if ctx.attempt() == 1 {
        stuck.wait();
        ctx.emit(json!("too late"));
        let asked = ctx.interrupt(json!("too late?")).map(drop);
        let called = call(&ctx, "too late").await;
        let told = [asked, called].map(|done| match done {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{error:?}"),
        });
        stuck.late.send(told.into()).map_err(NodeError::from)?;
    }
    call(&ctx, "in time").await?;
    Ok(said(format!("attempt {}", ctx.attempt())))
}

/// A node that blocks in its first attempt; the sender lets it go on.
struct Scene {
    clock: ManualClock,
    runtime: Runtime,
    reached: tokio::sync::mpsc::UnboundedReceiver<u32>,
    late: tokio::sync::mpsc::UnboundedReceiver<Vec<String>>,
    go_on: mpsc::Sender<()>,
}

const LIMIT: Duration = Duration::from_secs(5);

impl Scene {
    async fn new(on: On) -> Self {
        let clock = ManualClock::new();
        let (reached_by, reached) = tokio::sync::mpsc::unbounded_channel();
        let (late_by, late) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, wait) = mpsc::channel();
        let node = Stuck { reached: reached_by, wait: Mutex::new(wait), late: late_by };
        let graph = Graph::<Log>::new("stuck").with(Arc::new(node)).node("a", stuck);
        let retry = Retry::new(2).backoff(Duration::ZERO, 1.0).without_jitter();
        let graph = graph.timeout("a", Timeout::run(LIMIT)).retry("a", retry).edge(START, "a");
        let graph = on.set(graph, "a").build().expect("sound");
        let builder = Runtime::in_memory().graph("test:graph", graph);
        let runtime = builder.clock(Arc::new(clock.clone())).open().await.expect("opens");
        Self { clock, runtime, reached, late, go_on }
    }

    /// Lets the first attempt go on, and checks that nothing of what it does counts.
    async fn goes_on_in_vain(&mut self, calls: &[&str]) {
        self.go_on.send(()).expect("it waits");
        let late = self.late.recv().await.expect("it says what it could do");
        assert_eq!(late.len(), 2);
        for done in late {
            assert!(done.contains("node `a` was cut off"), "{done}");
        }
        let thread = self.runtime.thread("test:graph", "t").expect("hosted");
        let on_record = self.runtime.store().calls(&Principal::local(), thread.id()).await;
        let names: Vec<_> = on_record.expect("reads").into_iter().map(|call| call.name).collect();
        assert_eq!(names, calls);
        assert!(thread.questions().await.expect("reads").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_attempt_that_times_out_on_another_thread_is_abandoned() {
    for on in [On::Parallel, On::Blocking] {
        let mut scene = Scene::new(on).await;
        let thread = scene.runtime.thread("test:graph", "t").expect("hosted");
        let run = tokio::spawn(thread.start(json!({})).into_future());
        assert_eq!(scene.reached.recv().await, Some(1));
        while !scene.clock.sleeps().contains(&LIMIT) {
            tokio::task::yield_now().await;
        }
        scene.clock.advance(LIMIT);
        let ended = run.await.expect("no panic").expect("runs");
        assert_eq!(ended.output().expect("completes")["log"], json!(["attempt 2"]), "{on:?}");
        scene.goes_on_in_vain(&["in time"]).await;
        let state = thread.state().await.expect("reads");
        assert_eq!(state.values["log"], json!(["attempt 2"]), "{on:?}");
        assert!(state.next.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cancelled_run_does_not_wait_for_code_on_another_thread() {
    for on in [On::Parallel, On::Blocking] {
        let mut scene = Scene::new(on).await;
        let thread = scene.runtime.thread("test:graph", "t").expect("hosted");
        let handle = thread.start(json!({})).begin().await.expect("accepted").into_handle();
        assert_eq!(scene.reached.recv().await, Some(1));
        thread.cancel().await.expect("cancels");
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunOutcome::Cancelled { .. }), "{outcome:?}");
        scene.goes_on_in_vain(&[]).await;
        let state = thread.state().await.expect("reads");
        assert_eq!((&state.values["log"], state.next), (&json!([]), vec!["a".to_owned()]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_panic_on_another_thread_fails_its_run_alone() {
    for on in [On::Parallel, On::Blocking] {
        let panics = async |_: State<Log>| -> LogUpdate { panic!("boom") };
        let graph = Graph::<Log>::new("panics").node("a", panics).edge(START, "a");
        let runtime = open(on.set(graph, "a").build().expect("sound")).await;
        for thread in ["one", "two"] {
            let run = runtime.thread("test:graph", thread).expect("hosted").start(json!({}));
            let (_, message) = failed(run.await.expect("runs").outcome().clone());
            assert!(message.contains("boom"), "{on:?}: {message}");
        }
    }
}

#[test]
fn blocking_nodes_wait_for_a_thread_of_the_pool() {
    let mut built = tokio::runtime::Builder::new_multi_thread();
    let built = built.max_blocking_threads(1).enable_all().build();
    let ended = built.expect("a runtime").block_on(async {
        let runtime = open(eight(On::Blocking)).await;
        runtime.thread("test:graph", "t").expect("hosted").start(json!({})).await.expect("runs")
    });
    assert_eq!(ended.output().expect("completes")["log"][8], "8 of 8");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_of_a_flow_compute_on_two_threads() {
    for blocking in [false, true] {
        let both = barrier();
        let meet = TaskDef::new("meet", move |_: Ctx| {
            let both = Arc::clone(&both);
            async move {
                both.wait();
                Finish::value(json!("met"))
            }
        });
        let meet = if blocking { meet.blocking() } else { meet.parallel() };
        let flow = Flow::new("main", move |ctx: Ctx| {
            let meet = meet.clone();
            async move {
                let (one, two) = tokio::join!(ctx.task(&meet, json!(1)), ctx.task(&meet, json!(2)));
                NodeResult::Ok(Finish::value(json!([one?, two?])))
            }
        });
        let runtime = open(flow.build().expect("sound")).await;
        let ended = runtime.thread("test:graph", "t").expect("hosted").start(json!({})).await;
        assert_eq!(ended.expect("runs").output().expect("completes"), &json!(["met", "met"]));
    }
}
