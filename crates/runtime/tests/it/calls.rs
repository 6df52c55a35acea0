//! When calls come on record, and what is known of those that did not.

use crate::faulty::{Faulty, Moment, name};
use crate::support::{
    Bench, check_stream, completed, interrupted, on_each_store, options, store, thread,
    writes_behind,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Once, Retry, START, State,
    SubgraphState,
};
use weftwork_runtime::Runtime;
use weftwork_store::{Store, WriteUsage as _};
use weftwork_types::canonical::hash;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{
    Attempts, CallKind, CallRecord, CallResult, CallState, GraphExecutor, Intent, Opened,
};
use weftwork_types::run::{Durability, RunInput, RunOptions, RunOutcome, RunRef, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, Principal, Timestamp};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// Data that nodes share with their test.
#[derive(Debug, Clone)]
struct Outside {
    made: Arc<watch::Sender<u32>>,
    /// A call that waits for this is not over before the test says so.
    gate: Arc<Semaphore>,
}

impl Outside {
    fn new() -> Self {
        Self { made: Arc::new(watch::Sender::new(0)), gate: Arc::new(Semaphore::new(0)) }
    }

    fn made(&self) -> u32 {
        *self.made.borrow()
    }

    /// Makes a call; returns how many were made by now.
    fn make(&self) -> u32 {
        let mut made = 0;
        self.made.send_modify(|all| {
            *all += 1;
            made = *all;
        });
        made
    }

    /// Waits until so many calls were made.
    async fn until_made(&self, calls: u32) {
        let mut made = self.made.subscribe();
        made.wait_for(|made| *made >= calls).await.expect("we have the sender");
    }

    async fn pass(&self) {
        self.gate.acquire().await.expect("is never closed").forget();
    }
}

async fn call(ctx: &Ctx, name: &str, effect: Effect, outside: &Outside) -> NodeResult<String> {
    let attempts = if effect == Effect::ReadOnly { Attempts::Each } else { Attempts::Shared };
    let input = hash(&json!(name));
    let name = name.to_owned();
    let intent = Intent { kind: CallKind::Tool, name, input, call_id: None, effect, attempts };
    match ctx.calls().journal.open(intent).await? {
        Opened::New { key } => {
            let made = outside.make();
            ctx.calls().journal.settle(key, CallResult { value: json!(made) }).await?;
            Ok(format!("made {made}"))
        }
        Opened::Settled { result, .. } => Ok(format!("known {}", result.value)),
        Opened::Unknown { .. } => Ok("unknown".to_owned()),
    }
}

async fn reads(ctx: Ctx, outside: Deps<Outside>) -> NodeResult<LogUpdate> {
    Ok(LogUpdate::new().log([call(&ctx, "read", Effect::ReadOnly, &outside).await?]))
}

async fn records(store: &dyn Store) -> Vec<CallRecord> {
    store.calls(&Principal::local(), &thread()).await.expect("reads")
}

/// Returns, for each call, how often it was made, possibly paid besides, and reused.
fn counts(records: &[CallRecord]) -> Vec<(u32, u32, u32)> {
    records.iter().map(|call| (call.made, call.possibly_paid, call.reused)).collect()
}

/// The kinds of all commits, in order.
fn watched(store: &Arc<Faulty>) -> Arc<Mutex<Vec<&'static str>>> {
    let commits = Arc::<Mutex<Vec<_>>>::default();
    let told = Arc::clone(&commits);
    store.interfere(move |point, moment, commit| {
        if moment == Moment::After && commit.is_some() {
            told.lock().expect("not poisoned").push(name(point, commit));
        }
        Ok(Duration::ZERO)
    });
    commits
}

/// The commits so far. Who writes behind may commit a result before its step, when the write of the
/// one before is over: such commits are left out.
fn of_steps(commits: &Mutex<Vec<&'static str>>) -> Vec<&'static str> {
    let mut told = commits.lock().expect("not poisoned").clone();
    told.retain(|commit| !(writes_behind() && *commit == "commit of a result"));
    told
}

fn chain(outside: &Outside) -> CompiledGraph {
    let graph = Graph::<Log>::new("chain").with(outside.clone());
    let graph = graph.node("a", reads).node("b", reads).node("c", reads);
    graph.edge(START, "a").edge("a", "b").edge("b", "c").build().expect("sound")
}

#[tokio::test]
async fn reads_come_on_record_with_their_steps() {
    let store = Faulty::new(store());
    let outside = Outside::new();
    let commits = watched(&store);
    let bench = Bench::on(store.clone(), chain(&outside)).await;
    let (events, outcome) = bench.run(Bench::request(RunInput::Start { input: json!({}) })).await;
    check_stream(&events);
    assert_eq!(completed(outcome)["log"], json!(["made 1", "made 2", "made 3"]));
    let found = records(&*store).await;
    assert_eq!(counts(&found), [(1, 0, 0); 3]);
    assert!(found.iter().all(|call| call.state == CallState::Settled));
    assert_eq!(
        of_steps(&commits),
        ["commit of a step", "commit of a step", "commit of a step", "commit of the end"]
    );
}

#[tokio::test]
async fn an_effect_waits_for_its_intent_and_its_result() {
    let store = Faulty::new(store());
    let outside = Outside::new();
    let commits = watched(&store);
    let graph = Graph::<Log>::new("effect")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            call(&ctx, "read", Effect::ReadOnly, &outside).await?;
            let pays = call(&ctx, "pay", Effect::ExternalSideEffect, &outside);
            let (pays, posts) =
                futures_util::future::join(pays, call(&ctx, "post", Effect::StateChange, &outside))
                    .await;
            Ok(LogUpdate::new().log([pays?, posts?]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store.clone(), graph).await;
    let output = completed(bench.start(json!({})).await);
    assert_eq!(output["log"].as_array().map(Vec::len), Some(2));
    assert_eq!(counts(&records(&*store).await), [(1, 0, 0); 3]);
    let mut told = commits.lock().expect("not poisoned").clone();
    let effects = ["commit of an intent", "commit of a result", "commit of the end"];
    if writes_behind() {
        // Who waits for a write of the step before has commits of its own.
        told.dedup();
        assert!(told.ends_with(&effects), "{told:?}");
    } else {
        // What waits at the same time shares a commit.
        assert_eq!((told[0], &told[1..]), ("commit of a step", &effects[..]));
    }
}

#[tokio::test]
async fn a_result_is_on_disk_while_its_node_waits_for_something_else() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("waits")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let said = call(&ctx, "read", Effect::ReadOnly, &outside).await?;
            outside.pass().await;
            Ok(LogUpdate::new().log([said]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph).await;
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let handle = bench.runtime.execute(request).await.expect("accepted");
    while records(&*bench.store).await.is_empty() {
        tokio::task::yield_now().await;
    }
    outside.gate.add_permits(1);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["made 1"]));
    assert_eq!(counts(&records(&*bench.store).await), [(1, 0, 0)]);
}

/// The moment in which a process dies: once so many more calls were made, and so many supersteps are
/// on record.
struct Crash<'a> {
    outside: &'a Outside,
    calls: u32,
    steps: usize,
}

/// Runs in a process of its own, as it were, which dies once so many more calls were made; returns
/// the run.
async fn dies_in_a_call(
    store: &Arc<dyn Store>,
    graph: &CompiledGraph,
    outside: &Outside,
    calls: u32,
) -> RunRef {
    let begun = store.runs(&Principal::local(), &thread()).await.is_ok();
    let request = (!begun).then(|| Bench::request(RunInput::Start { input: json!({}) }));
    dies_with(request, store, graph, Crash { outside, calls, steps: 0 }).await
}

/// The same with a request, or with the run that another process left.
async fn dies_with(
    request: Option<RunRequest>,
    store: &Arc<dyn Store>,
    graph: &CompiledGraph,
    crash: Crash<'_>,
) -> RunRef {
    let Crash { outside, calls, steps } = crash;
    let before = outside.made();
    let mut process = tokio::runtime::Builder::new_multi_thread();
    let process = process.worker_threads(1).enable_all().build().expect("a runtime");
    let ours = Arc::clone(store);
    let graph = graph.clone();
    let who = Principal::local();
    let began = process.spawn(async move {
        let builder = Runtime::builder(Arc::clone(&ours)).graph("test:graph", graph);
        let runtime = builder.open().await.expect("opens");
        let handle = match request {
            Some(request) => runtime.execute(request).await.expect("accepted"),
            None => {
                let runs = ours.runs(&who, &thread()).await.expect("reads");
                runtime.take_over(&who, &runs[0].new.at).await.expect("nobody has it")
            }
        };
        (handle.run, runtime.worker().clone())
    });
    let (at, worker) = began.await.expect("begins");
    outside.until_made(before + calls).await;
    while steps_of(&**store, &at).await < steps {
        tokio::task::yield_now().await;
    }
    let ended = move || process.shutdown_timeout(Duration::from_secs(5));
    tokio::task::spawn_blocking(ended).await.expect("ends");
    store.retire(&worker).await.expect("it is dead");
    at
}

/// The request of a model call.
fn question(name: &str) -> Intent {
    Intent {
        kind: CallKind::Model,
        name: name.to_owned(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    }
}

/// Asks a model, whose answer comes when the test lets it. It must not be on record.
async fn ask_and_wait(ctx: &Ctx, name: &str, outside: &Outside) -> NodeResult<()> {
    let Opened::New { key } = ctx.calls().journal.open(question(name)).await? else {
        return Err(NodeError::message("was recorded"));
    };
    outside.make();
    outside.pass().await;
    ctx.calls().journal.settle(key, CallResult { value: json!(0) }).await?;
    Ok(())
}

/// Returns the number of supersteps in the log of a run.
async fn steps_of(store: &dyn Store, at: &RunRef) -> usize {
    let told = store.events(&Principal::local(), at, 0, 99).await.expect("reads");
    told.iter().filter(|told| told.event.is_step()).count()
}

#[tokio::test]
async fn who_died_a_superstep_ahead_is_counted_once_the_one_before_is_committed() {
    let outside = Outside::new();
    let waits = async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
        ask_and_wait(&ctx, "asks", &outside).await?;
        Ok(LogUpdate::new())
    };
    let graph = Graph::<Log>::new("ahead").with(outside.clone());
    let graph = graph.node("before", async |_: Ctx| LogUpdate::new().log(["before"]));
    let graph = graph.node("waits", waits).edge(START, "before").edge("before", "waits");
    let graph = graph.build().expect("sound");
    let faulty = Faulty::new(store());
    let store: Arc<dyn Store> = faulty.clone();
    // The first process dies before this superstep gets to the store.
    faulty.interfere(|_, _, commit| {
        let ran = |told: &AiEvent| told.step_nodes() == ["before"];
        let held = commit.is_some_and(|commit| commit.events.iter().any(ran));
        Ok(if held { Duration::from_secs(3_600) } else { Duration::ZERO })
    });
    let options = RunOptions { durability: Durability::Async, ..options() };
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let request = RunRequest { options, ..request };
    dies_with(Some(request), &store, &graph, Crash { outside: &outside, calls: 1, steps: 0 }).await;
    faulty.interfere(|_, _, _| Ok(Duration::ZERO));
    let at = dies_with(None, &store, &graph, Crash { outside: &outside, calls: 1, steps: 1 }).await;
    outside.gate.add_permits(1);
    let bench = Bench::on(store, graph).await;
    let handle = bench.runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    completed(handle.outcome.await);
    assert_eq!(outside.made(), 3);
    assert_eq!(counts(&records(&*bench.store).await), [(1, 2, 0)]);
}

#[tokio::test]
async fn what_processes_died_in_is_possibly_paid() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("dies")
        .with(outside.clone())
        .node("before", reads)
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let first = call(&ctx, "first", Effect::ReadOnly, &outside).await?;
            let effect = call(&ctx, "pay", Effect::StateChange, &outside).await?;
            ask_and_wait(&ctx, "second", &outside).await?;
            Ok(LogUpdate::new().log([first, effect]))
        })
        .node("after", reads)
        .edge(START, "before")
        .edge("before", "a")
        .edge("a", "after")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph.clone()).await;
    dies_in_a_call(&bench.store, &graph, &outside, 4).await;
    let at = dies_in_a_call(&bench.store, &graph, &outside, 1).await;
    outside.gate.add_permits(1);
    let handle = bench.runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    completed(handle.outcome.await);
    let found = records(&*bench.store).await;
    let of = |name: &str| found.iter().find(|call| call.name == name).expect("on record");
    assert!(of("first").reused >= 1 && of("pay").reused >= 1, "{found:#?}");
    assert_eq!((of("first").possibly_paid, of("pay").possibly_paid), (0, 0), "{found:#?}");
    let second = of("second");
    assert_eq!((second.made, second.possibly_paid, second.reused), (1, 2, 0));
    assert_eq!(outside.made(), 7, "two of them by processes that died in them");
    let reads: Vec<_> = found.iter().filter(|call| call.name == "read").cloned().collect();
    // Other steps have nothing to do with it, unless those that died may have been ahead.
    let ahead = if options().durability == Durability::Sync { 0 } else { 2 };
    let made: Vec<_> = reads.iter().map(|call| (call.made, call.possibly_paid)).collect();
    assert_eq!(made, [(1, 0), (1, ahead)]);
}

#[tokio::test]
async fn a_person_is_asked_anew_about_what_was_begun_because_of_an_answer() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("once")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let charge = Once::new("charge").with(json!({"cents": 42}));
            let charged: u32 = ctx
                .once(charge, async |_| {
                    let nth = outside.make();
                    outside.pass().await;
                    Ok(nth)
                })
                .await?;
            let after = ctx.interrupt(json!("ship?"))?;
            Ok(LogUpdate::new().log([format!("{charged} {after}")]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph.clone()).await;
    let asked = async |at: &RunRef| {
        let handle = bench.runtime.take_over(&Principal::local(), at).await.expect("nobody has it");
        let open = interrupted(handle.outcome.await);
        assert_eq!(open.len(), 1);
        open[0]
    };
    let again = |open| BTreeMap::from([(open, json!({"answer": "call_again"}))]);
    let first = asked(&dies_in_a_call(&bench.store, &graph, &outside, 1).await).await;
    let resume = RunInput::answers(again(first));
    let at = dies_with(
        Some(Bench::request(resume)),
        &bench.store,
        &graph,
        Crash { outside: &outside, calls: 1, steps: 0 },
    )
    .await;
    let second = asked(&at).await;
    assert_ne!(first, second, "the answer was about the first time");
    assert_eq!(outside.made(), 2, "nothing is done before somebody said so");
    outside.gate.add_permits(1);
    let shipping = interrupted(bench.resume(again(second)).await);
    let ended = bench.resume(BTreeMap::from([(shipping[0], json!("yes"))])).await;
    assert_eq!(completed(ended)["log"], json!(["3 \"yes\""]));
    let found = records(&*bench.store).await;
    assert_eq!((found.len(), found[0].made), (1, 3));
}

#[tokio::test]
async fn calls_that_were_cut_off_in_order_are_on_record_as_begun() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("cut")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let name = "slow".to_owned();
            let effect = Effect::ReadOnly;
            let input = hash(&json!(name));
            let attempts = Attempts::Each;
            let kind = CallKind::Model;
            let intent = Intent { kind, name, input, call_id: None, effect, attempts };
            let Opened::New { key } = ctx.calls().journal.open(intent).await? else {
                return Err(NodeError::message("was recorded"));
            };
            outside.make();
            outside.pass().await;
            ctx.calls().journal.settle(key, CallResult { value: json!(0) }).await?;
            Ok(LogUpdate::new().log(["done"]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph).await;
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let handle = bench.runtime.execute(request).await.expect("accepted");
    outside.until_made(1).await;
    bench.runtime.cancel(&Principal::local(), &handle.run).await.expect("is heard");
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
    let begun = records(&*bench.store).await;
    assert_eq!((begun[0].state, counts(&begun)), (CallState::Intent, vec![(1, 1, 0)]));
    outside.gate.add_permits(1);
    assert_eq!(completed(bench.proceed().await)["log"], json!(["done"]));
    let ended = records(&*bench.store).await;
    assert_eq!((ended[0].state, counts(&ended)), (CallState::Settled, vec![(2, 1, 0)]));
}

#[tokio::test]
async fn a_read_that_was_withdrawn_is_not_on_record_as_begun() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("withdrawn")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            for name in ["never", "once"] {
                let Opened::New { key } = ctx.calls().journal.open(question(name)).await? else {
                    return Err(NodeError::message("was recorded"));
                };
                if name == "never" || outside.made() > 0 {
                    ctx.calls().journal.withdraw(key);
                } else {
                    outside.make();
                }
            }
            Err(NodeError::message("stopped"))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph).await;
    for outcome in [bench.start(json!({})).await, bench.proceed().await] {
        assert!(matches!(outcome, RunOutcome::Failed { .. }), "{outcome:?}");
        let found = records(&*bench.store).await;
        assert_eq!((&*found[0].name, counts(&found)), ("once", vec![(1, 1, 0)]));
    }
}

#[tokio::test]
async fn another_attempt_finds_effects_and_makes_reads_again() {
    let outside = Outside::new();
    let graph = Graph::<Log>::new("retry")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let read = call(&ctx, "read", Effect::ReadOnly, &outside).await?;
            let pay = call(&ctx, "pay", Effect::StateChange, &outside).await?;
            if ctx.attempt() == 1 {
                return Err(NodeError::message("once more").retriable());
            }
            Ok(LogUpdate::new().log([read, pay]))
        })
        .retry("a", Retry::new(2))
        .edge(START, "a")
        .build()
        .expect("sound");
    let clock = Arc::new(weftwork_testkit::ManualClock::moved_by_sleeps());
    let bench = Bench::with_clock(store(), graph, clock).await;
    assert_eq!(completed(bench.start(json!({})).await)["log"], json!(["made 3", "known 2"]));
    assert_eq!(counts(&records(&*bench.store).await), [(1, 0, 0), (1, 0, 1), (1, 0, 0)]);
}

#[tokio::test]
async fn calls_in_graphs_that_a_node_calls_are_told_apart_and_found_again() {
    let outside = Outside::new();
    let inner = Graph::<Log>::new("inner")
        .with(outside.clone())
        .node("reads", reads)
        .node("pays", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let said = call(&ctx, "pay", Effect::StateChange, &outside).await?;
            Ok(LogUpdate::new().log([said]))
        })
        .edge(START, "reads")
        .edge("reads", "pays")
        .build()
        .expect("sound");
    let graph = Graph::<Log>::new("outer")
        .with(inner)
        .node("a", async |ctx: Ctx, inner: Deps<CompiledGraph>| -> NodeResult<LogUpdate> {
            for _ in 0..2 {
                ctx.call(&inner, SubgraphState::Stateless, json!({"log": []})).await?;
            }
            let said = ctx.interrupt(json!("go on?"))?;
            Ok(LogUpdate::new().log([said.to_string()]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store(), graph).await;
    let open = crate::support::interrupted(bench.start(json!({})).await);
    assert_eq!(outside.made(), 4, "equal calls of two graphs are two calls");
    completed(bench.resume([(open[0], json!("yes"))].into()).await);
    assert_eq!(outside.made(), 4, "all are found again");
    assert_eq!(counts(&records(&*bench.store).await), [(1, 0, 1); 4]);
}

fn fact(n: i64) -> UsageFact {
    UsageFact {
        invocation_id: InvocationId::new(format!("i{n}")).expect("an id"),
        attempt: 1,
        provider: "local".to_owned(),
        model: "small".to_owned(),
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::reported(7, 3),
        cost_micro_usd: None,
        provider_call_id: None,
        prompt_hash: hash(&json!("prompt")),
        started_at: Timestamp(n),
        latency_ms: 5,
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd: None,
        first_token_ms: None,
    }
}

#[tokio::test]
async fn bills_come_with_the_answers_they_are_for() {
    let store = Faulty::new(store());
    let outside = Outside::new();
    let commits = watched(&store);
    let graph = Graph::<Log>::new("bills")
        .with(outside.clone())
        .node("a", async |ctx: Ctx, outside: Deps<Outside>| -> NodeResult<LogUpdate> {
            let said = call(&ctx, "model", Effect::ReadOnly, &outside).await?;
            let calls = ctx.calls();
            for n in [1, 2, 1] {
                calls.ledger.record(&fact(n));
            }
            Ok(LogUpdate::new().log([said]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::on(store.clone(), graph).await;
    completed(bench.start(json!({})).await);
    let usage = bench.store.usage_of_thread(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(usage.iter().map(|row| row.fact.clone()).collect::<Vec<_>>(), [fact(1), fact(2)]);
    assert_eq!(of_steps(&commits), ["commit of a step", "commit of the end"]);
    // The same facts once more, from elsewhere.
    store.record_usage(&Principal::local(), usage[0].clone()).await.expect("records");
    let again = bench.store.usage_of_thread(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(again, usage);
}

on_each_store![
    a_result_is_on_disk_while_its_node_waits_for_something_else,
    what_processes_died_in_is_possibly_paid,
    a_person_is_asked_anew_about_what_was_begun_because_of_an_answer,
    calls_that_were_cut_off_in_order_are_on_record_as_begun,
    a_read_that_was_withdrawn_is_not_on_record_as_begun,
    another_attempt_finds_effects_and_makes_reads_again,
    calls_in_graphs_that_a_node_calls_are_told_apart_and_found_again;
    each_step:
    reads_come_on_record_with_their_steps,
    an_effect_waits_for_its_intent_and_its_result,
    bills_come_with_the_answers_they_are_for,
];
