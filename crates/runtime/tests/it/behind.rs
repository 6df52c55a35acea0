//! Hosted runs that write checkpoints behind their supersteps: in which order things happen, and
//! what is left when their process dies at any of its commits.

use crate::death::{self, DeathAt};
use crate::faulty::{Faulty, Moment, name};
use crate::support::{Bench, check_stream, completed, moving, options, store, thread};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_graph::run_loop::StateQuery;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State, SubgraphState,
};
use weftwork_runtime::{Runtime, StoreCheckpointer};
use weftwork_store::{CheckpointStore, Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::canonical::hash;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{Durability, RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::Effect;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// The events so far, in order.
#[derive(Debug, Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("not poisoned").push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }

    /// Returns the number of times that each effect was made.
    fn made(&self) -> BTreeMap<String, usize> {
        let mut made = BTreeMap::new();
        for what in self.all().into_iter().filter(|what| what.starts_with("makes")) {
            *made.entry(what).or_default() += 1;
        }
        made
    }
}

/// Makes an effect, unless it was made before or may have been.
async fn effect(ctx: &Ctx, world: &World) -> NodeResult<()> {
    let name = format!("call of {} in step {}", ctx.node(), ctx.step());
    let intent = Intent {
        kind: CallKind::Once,
        name: name.clone(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ExternalSideEffect,
        attempts: Attempts::Shared,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        world.note(format!("makes {name}"));
        ctx.calls().journal.settle(key, CallResult { value: json!(1) }).await?;
    }
    Ok(())
}

async fn works(ctx: Ctx, world: Deps<World>) -> NodeResult<LogUpdate> {
    world.note(format!("runs {}", ctx.node()));
    ctx.emit(json!(format!("{} begins", ctx.node())));
    effect(&ctx, &world).await?;
    ctx.emit(json!(format!("{} ends", ctx.node())));
    Ok(LogUpdate::new().log([ctx.node()]))
}

async fn notes(ctx: Ctx, world: Deps<World>) -> LogUpdate {
    world.note(format!("runs {}", ctx.node()));
    LogUpdate::new().log([ctx.node()])
}

fn noting(world: &World) -> CompiledGraph {
    let graph = Graph::<Log>::new("notes").with(world.clone());
    let graph = graph.node("a", notes).node("b", notes).node("c", notes);
    graph.edge(START, "a").edge("a", "b").edge("b", "c").build().expect("sound")
}

/// Effects in a chain, beside each other and in a graph within.
fn working(world: &World) -> CompiledGraph {
    let inner = Graph::<Log>::new("inner").with(world.clone()).node("x", works).node("y", works);
    let inner = inner.edge(START, "x").edge("x", "y").build().expect("sound");
    let graph = Graph::<Log>::new("works").with(world.clone());
    let graph = graph.node("a", works).node("b", works).node("beside", works);
    let graph = graph.subgraph("within", inner, SubgraphState::PerTask).node("c", works);
    let graph = graph.edge(START, "a").edge("a", "b").edge("a", "beside");
    graph.join(["b", "beside"], "within").edge("within", "c").build().expect("sound")
}

fn request(durability: Durability) -> RunRequest {
    let options = RunOptions { durability, ..options() };
    RunRequest { options, ..Bench::request(RunInput::Start { input: json!({}) }) }
}

/// Notes when commits begin and end.
fn watch_commits(store: &Faulty, world: &World) {
    let world = world.clone();
    store.interfere(move |point, moment, commit| {
        if commit.is_some() {
            let when = if moment == Moment::Before { "begins" } else { "ends" };
            world.note(format!("{when} {}", name(point, commit)));
        }
        Ok(Duration::ZERO)
    });
}

#[tokio::test]
async fn the_next_superstep_runs_while_one_is_committed() {
    let step = ["begins commit of a step", "ends commit of a step"];
    let end = ["begins commit of the end", "ends commit of the end"];
    for durability in [Durability::Sync, Durability::Async] {
        let store = Faulty::new(store());
        let world = World::default();
        watch_commits(&store, &world);
        let bench = Bench::on(store, noting(&world)).await;
        let (events, outcome) = bench.run(request(durability)).await;
        check_stream(&events);
        completed(outcome);
        let mut expected = Vec::new();
        for node in ["runs a", "runs b", "runs c"] {
            match durability {
                Durability::Async => expected.extend([node, step[0], step[1]]),
                _ => expected.extend([step[0], step[1], node]),
            }
        }
        expected.extend(end);
        assert_eq!(world.all(), expected, "{durability:?}");
    }
}

#[tokio::test]
async fn an_effect_is_made_only_when_all_before_it_is_stored() {
    let store = Faulty::new(store());
    let world = World::default();
    watch_commits(&store, &world);
    let bench = Bench::on(store, working(&world)).await;
    completed(bench.run(request(Durability::Async)).await.1);
    let all = world.all();
    for (at, what) in all.iter().enumerate().filter(|(_, what)| what.starts_with("makes")) {
        let before = &all[..at];
        let (begun, ended): (Vec<_>, Vec<_>) = before
            .iter()
            .filter(|what| what.contains("commit of a step"))
            .partition(|what| what.starts_with("begins"));
        assert_eq!(begun.len(), ended.len(), "{what}: {all:#?}");
        let intents = before.iter().filter(|what| *what == "ends commit of an intent").count();
        assert!(intents > 0, "{what}: {all:#?}");
    }
    assert_eq!(world.made().into_values().collect::<Vec<_>>(), [1; 6]);
}

fn custom_and_steps(events: impl Iterator<Item = AiEvent>) -> Vec<Value> {
    let told = events.filter_map(|event| match event {
        AiEvent::Custom { value, .. } => Some(value),
        AiEvent::RunStarted { .. } => Some(json!("run started")),
        event => event.step().map(|step| json!({ "step": step, "nodes": event.step_nodes() })),
    });
    told.collect()
}

/// Three nodes that tell three things each.
fn emitting() -> CompiledGraph {
    let emits = async |ctx: Ctx| {
        for part in ["begins", "goes on", "ends"] {
            ctx.emit(json!(format!("{} {part}", ctx.node())));
            // Its event may be on its way to the log when the superstep ends.
            tokio::task::yield_now().await;
        }
        LogUpdate::new()
    };
    let graph = Graph::<Log>::new("emits").node("a", emits).node("b", emits).node("c", emits);
    graph.edge(START, "a").edge("a", "b").edge("b", "c").build().expect("sound")
}

/// Returns the events expected of them.
fn expected(durability: Durability) -> Vec<Value> {
    let started = json!("run started");
    let step = |(step, node): (i64, &str)| json!({ "step": step, "nodes": [node] });
    let parts = |node: &str| {
        ["begins", "goes on", "ends"].map(|part| json!(format!("{node} {part}"))).into_iter()
    };
    let steps = (1..).zip(["a", "b", "c"]);
    let nodes = ["a", "b", "c"].into_iter();
    match durability {
        // Supersteps are committed with the end, and with them that the run began.
        Durability::Exit => nodes.flat_map(parts).chain([started]).chain(steps.map(step)).collect(),
        _ => {
            let all = steps.flat_map(|at| parts(at.1).chain([step(at)]));
            std::iter::once(started).chain(all).collect()
        }
    }
}

/// Runs it, and checks what is told live and what the log says.
async fn check_events(bench: &Bench, clock: &ManualClock, durability: Durability) {
    let expected = expected(durability);
    let handle = bench.runtime.execute(request(durability)).await.expect("accepted");
    let events: Vec<RunEvent> = moving(clock, handle.events.collect()).await;
    completed(handle.outcome.await);
    check_stream(&events);
    assert_eq!(
        custom_and_steps(events.into_iter().map(|told| told.event)),
        expected,
        "{durability:?}"
    );
    let log = bench.store.events(&Principal::local(), &handle.run, 0, 100).await;
    let log = log.expect("reads").into_iter().map(|told| told.event);
    assert_eq!(custom_and_steps(log), expected, "{durability:?}");
}

#[tokio::test]
async fn events_have_the_order_of_the_supersteps() {
    let graph = emitting();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let clock = Arc::new(ManualClock::new());
        let bench = Bench::with_clock(Faulty::new(store()), graph.clone(), clock.clone()).await;
        check_events(&bench, &clock, durability).await;
    }
}

#[tokio::test]
async fn events_keep_their_order_when_a_commit_is_tried_again() {
    let graph = emitting();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for (refused, times) in (1..14).flat_map(|commit| [(commit, 1), (commit, 2)]) {
            let store = Faulty::new(store());
            let clock = Arc::new(ManualClock::new());
            let commits = AtomicUsize::new(0);
            store.interfere(move |point, moment, commit| {
                if commit.is_none() || moment == Moment::After {
                    return Ok(Duration::ZERO);
                }
                let at = commits.fetch_add(1, Ordering::SeqCst) + 1;
                if (refused..refused + times).contains(&at) {
                    let location = name(point, commit).to_owned();
                    let reason = "busy".to_owned();
                    return Err(StoreError::Unavailable { location, reason, retriable: true });
                }
                Ok(Duration::ZERO)
            });
            let bench = Bench::with_clock(store, graph.clone(), clock.clone()).await;
            check_events(&bench, &clock, durability).await;
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_refused_for_good_is_the_last() {
    for durability in [Durability::Sync, Durability::Async] {
        for refused in 0..3 {
            let store = Faulty::new(store());
            let world = World::default();
            let ours = world.clone();
            let steps = AtomicUsize::new(0);
            store.interfere(move |point, moment, commit| {
                if commit.is_none() || moment == Moment::After {
                    return Ok(Duration::ZERO);
                }
                ours.note(name(point, commit));
                let is_step = name(point, commit) == "commit of a step";
                if is_step && steps.fetch_add(1, Ordering::SeqCst) == refused {
                    return Err(StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 1 });
                }
                Ok(Duration::ZERO)
            });
            let bench = Bench::on(store, noting(&world)).await;
            let _handle = bench.runtime.execute(request(durability)).await.expect("accepted");
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            let all = world.all();
            let ran = all.iter().filter(|what| what.starts_with("runs")).count();
            let ahead = usize::from(durability == Durability::Async);
            assert_eq!(ran, refused + ahead, "{durability:?}: {all:?}");
            let commits = all.iter().filter(|what| what.starts_with("commit")).count();
            assert_eq!(commits, refused + 1, "{durability:?}: {all:?}");
        }
    }
}

/// Plays the run of the thread in a process that dies at a commit.
async fn dies_at(
    inner: &Arc<dyn Store>,
    graph: &CompiledGraph,
    durability: Durability,
    death: DeathAt,
) -> bool {
    let graph = graph.clone();
    death::dies_at(inner, death, async move |store| {
        let builder = Runtime::builder(store).graph("test:graph", graph);
        let runtime = builder.open().await.expect("opens");
        let handle = runtime.execute(request(durability)).await.expect("accepted");
        (handle, runtime)
    })
    .await
}

/// The supersteps on record, oldest first.
async fn steps(store: &Arc<dyn Store>, graph: &CompiledGraph) -> Vec<i64> {
    let saver =
        StoreCheckpointer::new(Arc::clone(store) as Arc<dyn CheckpointStore>, Principal::local());
    let host = weftwork_graph::run_loop::Host::new().with_checkpointer(saver);
    let history = graph.history(&host, &StateQuery::thread("t")).await.expect("reads");
    let steps = history.iter().filter_map(|at| at.metadata.as_ref().map(|meta| meta.step));
    let mut steps: Vec<_> = steps.collect();
    steps.reverse();
    steps
}

async fn crash_at_each_commit(durability: Durability) {
    let mut crashes = 0;
    for moment in [Moment::Before, Moment::After] {
        for write in 1.. {
            let store = store();
            let world = World::default();
            let graph = working(&world);
            let at = format!("{durability:?}, {moment:?} commit {write}");
            if !dies_at(&store, &graph, durability, DeathAt { commit: write, moment }).await {
                break;
            }
            crashes += 1;
            let kept = steps(&store, &graph).await;
            let prefix: Vec<i64> = (-1..).take(kept.len()).collect();
            assert_eq!(kept, prefix, "{at}: a history without gaps");
            if durability == Durability::Exit {
                let all = kept.is_empty() || kept.len() == 6;
                assert!(all, "{at}: nothing is kept before the end: {kept:?}");
            }
            let bench = Bench::on(store, graph.clone()).await;
            let runs = bench.store.runs(&Principal::local(), &thread()).await.expect("reads");
            let run = &runs.first().expect("it is on record").new.at;
            if !runs[0].status.is_final() {
                let handle = bench.runtime.take_over(&Principal::local(), run).await;
                let output = completed(handle.expect("nobody has it").outcome.await);
                let expected = json!(["a", "b", "beside", "a", "b", "beside", "x", "y", "c"]);
                assert_eq!(output["log"], expected, "{at}");
            }
            assert_eq!(steps(&bench.store, &graph).await, [-1, 0, 1, 2, 3, 4], "{at}");
            let made = world.made();
            assert!(made.values().all(|times| *times == 1), "{at}: {made:#?}");
            assert!(made.len() >= 4, "{at}: all but those that may have been: {made:#?}");
        }
    }
    let least = if durability == Durability::Exit { 18 } else { 28 };
    assert!(crashes >= least, "{durability:?}: {crashes} crashes");
}

#[tokio::test]
async fn a_crash_at_any_commit_leaves_a_prefix_and_makes_no_effect_twice() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        crash_at_each_commit(durability).await;
    }
}

/// Makes an effect before each of two questions.
async fn asks(ctx: Ctx, world: Deps<World>) -> NodeResult<LogUpdate> {
    effect(&ctx, &world).await?;
    let first = ctx.interrupt(json!("first?"))?;
    let second = ctx.interrupt(json!("second?"))?;
    Ok(LogUpdate::new().log([format!("{first} {second}")]))
}

#[tokio::test]
async fn runs_that_answer_find_effects_whenever_checkpoints_were_stored() {
    let modes = [Durability::Sync, Durability::Async, Durability::Exit];
    for (begins, answers) in modes.iter().flat_map(|one| modes.map(|other| (*one, other))) {
        let world = World::default();
        let graph = Graph::<Log>::new("asks").with(world.clone());
        let graph = graph.node("a", works).node("b", works).node("asks", asks);
        let graph = graph.edge(START, "a").edge("a", "b").edge("b", "asks").build();
        let graph = graph.expect("sound");
        let store = store();
        let mut open = None;
        for mode in [begins, answers, answers] {
            // A process of its own each time.
            let bench = Bench::on(Arc::clone(&store), graph.clone()).await;
            let input = match open {
                None => RunInput::Start { input: json!({}) },
                Some(id) => RunInput::answers(BTreeMap::from([(id, json!("yes"))])),
            };
            let asked = RunRequest { input, ..request(mode) };
            open = match bench.run(asked).await.1 {
                RunOutcome::Interrupted { interrupts, .. } => interrupts.first().copied(),
                ended => {
                    completed(ended);
                    None
                }
            };
        }
        assert_eq!(open, None, "it has ended");
        let made: Vec<_> = world.made().into_values().collect();
        assert_eq!(made, [1; 3], "{begins:?}, then {answers:?}: {:#?}", world.all());
    }
}

mod sqlite_full {
    use crate::support::{Durability, Place, within};

    #[test]
    fn a_crash_at_any_commit_leaves_a_prefix_and_makes_no_effect_twice() {
        let test = super::a_crash_at_any_commit_leaves_a_prefix_and_makes_no_effect_twice;
        within(Place::Sqlite(Durability::Full), test);
    }

    #[test]
    fn runs_that_answer_find_effects_whenever_checkpoints_were_stored() {
        let test = super::runs_that_answer_find_effects_whenever_checkpoints_were_stored;
        within(Place::Sqlite(Durability::Full), test);
    }

    #[test]
    fn events_have_the_order_of_the_supersteps() {
        within(Place::Sqlite(Durability::Full), super::events_have_the_order_of_the_supersteps);
    }
}
