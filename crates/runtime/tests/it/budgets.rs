//! Budgets of runs: one for each run, reserved before calls.

use crate::faulty::{Faulty, Moment};
use crate::recovery::{created, dies};
use crate::support::{Bench, completed, failed, interrupted, on_each_store, store, thread};
use futures_util::FutureExt as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State};
use weftwork_runtime::{Runtime, RuntimeBuilder};
use weftwork_store::StoreError;
use weftwork_testkit::ManualClock;
use weftwork_types::canonical::hash;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{
    Attempts, Budget, BudgetError, BudgetExceeded, BudgetScope, Budgets, CallKind, CallResult,
    Demand, GraphExecutor, Intent, LimitedBudget, Limits, Opened, RunHandle,
};
use weftwork_types::run::{Answers, RunInput, RunOptions, RunOutcome};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, Usage, UsageFact, UsageStatus};
use weftwork_types::{BoxFuture, ErrorCode, InvocationId, Principal, Timestamp, ToolCallId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<u64>,
}

fn demand() -> Demand {
    Demand::ToolCall { tool: "t".to_owned() }
}

/// Reserves until nothing is left, and records the number of reservations.
async fn spend(ctx: Ctx) -> NodeResult<LogUpdate> {
    let mut made: u64 = 0;
    while let Ok(reservation) = ctx.calls().budget.reserve(&demand()).await {
        reservation.settle(Usage::tool_call()).await;
        made += 1;
    }
    Ok(LogUpdate::new().log([made]))
}

/// Holds a reservation while the sibling reserves, and drops it.
async fn hold(ctx: Ctx) -> NodeResult<LogUpdate> {
    let held = ctx.calls().budget.reserve(&demand()).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    Ok(LogUpdate::new().log([u64::from(held.is_ok())]))
}

fn spender() -> CompiledGraph {
    Graph::<Log>::new("spender").node("spend", spend).edge(START, "spend").build().expect("sound")
}

fn limits(tool_calls: u64) -> Limits {
    Limits { tool_calls: Some(tool_calls), ..Limits::default() }
}

async fn open(builder: RuntimeBuilder) -> Runtime {
    builder.graph("test:graph", spender()).open().await.expect("opens")
}

async fn spent(runtime: &Runtime, thread: &str) -> serde_json::Value {
    let thread = runtime.thread("test:graph", thread).expect("valid names");
    let ended = thread.start(json!({})).await.expect("accepted");
    ended.output().expect("completed")["log"].clone()
}

#[tokio::test]
async fn two_runs_of_one_process_have_separate_budgets() {
    let runtime = open(Runtime::builder(store()).budgets(limits(2))).await;
    let (first, second) = tokio::join!(spent(&runtime, "t"), spent(&runtime, "u"));
    assert_eq!((first, second), (json!([2]), json!([2])));
    assert_eq!(spent(&runtime, "t").await, json!([2, 2]), "the next run of a thread too");
}

/// Calls as long as the budget allows, with a pause within each call.
async fn crowd(ctx: Ctx) -> NodeResult<LogUpdate> {
    let mut made: u64 = 0;
    while let Ok(reservation) = ctx.calls().budget.reserve(&demand()).await {
        tokio::task::yield_now().await;
        reservation.settle(Usage::tool_call()).await;
        made += 1;
    }
    Ok(LogUpdate::new().log([made]))
}

#[tokio::test]
async fn three_tasks_at_once_make_as_many_calls_as_one_budget_allows() {
    let graph = Graph::<Log>::new("three")
        .node("a", crowd)
        .node("b", crowd)
        .node("c", crowd)
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c");
    let builder = Runtime::builder(store()).budgets(limits(10));
    let builder = builder.graph("test:graph", graph.build().expect("sound"));
    let runtime = builder.open().await.expect("opens");
    let made = spent(&runtime, "t").await;
    let made: Vec<u64> = serde_json::from_value(made).expect("numbers");
    assert_eq!(made.iter().sum::<u64>(), 10, "{made:?}");
    assert!(made.iter().all(|made| *made > 0), "they ran at once: {made:?}");
}

/// Makes three calls, and fails if the budget does not allow them.
async fn three(ctx: Ctx) -> NodeResult<LogUpdate> {
    for call in 0..3 {
        let reservation = ctx.calls().budget.reserve(&demand()).await;
        let reservation = reservation.map_err(|error| error.fault())?;
        let tool_call_id = ToolCallId::new(format!("c{call}")).expect("an id");
        let tool_name = "t".to_owned();
        let args = json!({});
        ctx.calls().emit.emit(AiEvent::ToolCallStart {
            tool_call_id,
            tool_name,
            args,
            charged: true,
            task: None,
            ns: String::new(),
        });
        reservation.settle(Usage::tool_call()).await;
    }
    Ok(LogUpdate::new().log([3u64]))
}

#[tokio::test]
async fn a_run_that_continues_another_has_what_it_left_of_the_budget() {
    let store = store();
    let runtime = || async {
        let graph = Graph::<Log>::new("three").node("three", three).edge(START, "three");
        let builder = Runtime::builder(Arc::clone(&store));
        let builder = builder.graph("test:graph", graph.build().expect("sound"));
        builder.open().await.expect("opens")
    };
    let who = Principal::local();
    let budget =
        |tool_calls| RunOptions { budget: Some(limits(tool_calls)), ..RunOptions::default() };
    let first = runtime().await;
    let thread = first.thread("test:graph", "t").expect("valid names");
    let ended = thread.start(json!({})).options(budget(2)).await.expect("accepted");
    assert_eq!(failed(ended.outcome().clone()).0, "W0601");
    assert_eq!(first.used(&who, ended.run()).await.expect("a log").tool_calls, 2);
    let id = ended.run().thread.clone();
    drop((ended, thread));
    first.shutdown(Duration::ZERO).await.expect("ends");

    // Another runtime over the store makes no further call, until the limit is raised.
    let second = runtime().await;
    let handle = second.resume(&who, &id).await.expect("resumed").into_handle();
    let run = handle.run.clone();
    assert_eq!(failed(handle.outcome.await).0, "W0601");
    assert_eq!(second.used(&who, &run).await.expect("a log"), Usage::default());
    let handle = second.resume_with(&who, &id, budget(5)).await.expect("resumed").into_handle();
    let run = handle.run.clone();
    assert_eq!(completed(handle.outcome.await)["log"], json!([3]));
    assert_eq!(second.used(&who, &run).await.expect("a log").tool_calls, 3);
}

/// Reports that it began, waits until it may go on, and asks.
async fn slow(ctx: Ctx, at: Deps<Arc<Gate>>) -> NodeResult<LogUpdate> {
    at.began.notify_one();
    at.goes_on.notified().await;
    ctx.interrupt(json!("go on?"))?;
    at.began.notify_one();
    at.goes_on.notified().await;
    Ok(LogUpdate::new().log([1u64]))
}

#[derive(Debug, Default)]
struct Gate {
    began: Notify,
    goes_on: Notify,
}

#[tokio::test]
async fn wall_time_is_limited_for_a_run_with_its_continuations_without_waits() {
    let store = store();
    let gate = Arc::new(Gate::default());
    let clock = ManualClock::new();
    let runtime = async || {
        let graph = Graph::<Log>::new("slow").with(Arc::clone(&gate)).node("slow", slow);
        let graph = graph.edge(START, "slow").build().expect("sound");
        let builder = Runtime::builder(Arc::clone(&store)).clock(Arc::new(clock.clone()));
        builder.graph("test:graph", graph).open().await.expect("opens")
    };
    let seconds = |limit| RunOptions {
        budget: Some(Limits::wall_time(Duration::from_secs(limit))),
        ..RunOptions::default()
    };
    let first = runtime().await;
    let thread = first.thread("test:graph", "t").expect("valid names");
    let run =
        thread.start(json!({})).options(seconds(60)).begin().await.expect("accepted").into_handle();
    gate.began.notified().await;
    clock.advance(Duration::from_secs(40));
    gate.goes_on.notify_one();
    interrupted(run.outcome.await);
    // A person takes an hour.
    clock.advance(Duration::from_secs(3_600));
    let run =
        thread.answer(Answers::One(json!("yes"))).begin().await.expect("accepted").into_handle();
    gate.began.notified().await;
    gate.goes_on.notify_one();
    gate.began.notified().await;
    clock.advance(Duration::from_secs(20));
    let (code, message) = failed(run.outcome.await);
    assert_eq!(code, "W0601");
    assert!(message.contains("60000 of 60000 ms of wall time"), "{message}");
    let who = Principal::local();
    let id = run.run.thread.clone();
    drop(thread);
    first.shutdown(Duration::ZERO).await.expect("ends");

    // Nothing is executed in another process either, until the limit is raised.
    let second = runtime().await;
    let run = second.resume(&who, &id).await.expect("resumed").into_handle();
    assert_eq!(failed(run.outcome.await).0, "W0601");
    let run = second.resume_with(&who, &id, seconds(61)).await.expect("resumed").into_handle();
    for _ in 0..2 {
        gate.began.notified().await;
        gate.goes_on.notify_one();
    }
    assert_eq!(completed(run.outcome.await)["log"], json!([1]));
}

/// Lets time pass until a run ends.
async fn ended(run: RunHandle, clock: &ManualClock) -> RunOutcome {
    let mut outcome = run.outcome;
    loop {
        tokio::select! {
            biased;
            ended = &mut outcome => return ended,
            () = tokio::task::yield_now() => clock.advance(Duration::from_secs(1)),
        }
    }
}

#[tokio::test]
async fn a_run_that_is_cut_at_its_wall_time_leaves_nothing_of_it() {
    let gate = Arc::new(Gate::default());
    let clock = ManualClock::new();
    let store = Faulty::new(store());
    let passing = clock.clone();
    let refused = AtomicBool::new(false);
    // Time passes before the first commit, with which the log begins.
    store.interfere(move |_, moment, commit| {
        if moment == Moment::After || commit.is_none() || refused.swap(true, Ordering::SeqCst) {
            return Ok(Duration::ZERO);
        }
        passing.advance(Duration::from_secs(10));
        let location = "the store".to_owned();
        Err(StoreError::Unavailable { location, reason: "it starts".to_owned(), retriable: true })
    });
    let graph = Graph::<Log>::new("slow").with(Arc::clone(&gate)).node("slow", slow);
    let graph = graph.edge(START, "slow").build().expect("sound");
    let builder = Runtime::builder(store).clock(Arc::new(clock.clone()));
    let runtime = builder.graph("test:graph", graph).open().await.expect("opens");
    let thread = runtime.thread("test:graph", "t").expect("valid names");
    let minute = Limits::wall_time(Duration::from_secs(60));
    let run = thread.start(json!({})).budget(minute).begin().await.expect("accepted").into_handle();
    let at = run.run.clone();
    assert_eq!(failed(ended(run, &clock).await).0, "W0601");
    gate.began.notified().await;
    let again =
        runtime.resume(&Principal::local(), &at.thread).await.expect("resumed").into_handle();
    assert_eq!(failed(ended(again, &clock).await).0, "W0601");
    assert!(gate.began.notified().now_or_never().is_none(), "no node was executed again");
}

#[tokio::test]
async fn the_runs_of_a_thread_share_its_budget_in_every_process() {
    let store = store();
    let runtime = || async {
        let graph = Graph::<Log>::new("three").node("three", three).edge(START, "three");
        let builder = Runtime::builder(Arc::clone(&store)).thread_budget(limits(7));
        let builder = builder.budgets(limits(5));
        builder.graph("test:graph", graph.build().expect("sound")).open().await.expect("opens")
    };
    let started = async |runtime: &Runtime, thread: &str| {
        let thread = runtime.thread("test:graph", thread).expect("valid names");
        thread.start(json!({})).await.expect("accepted").outcome().clone()
    };
    let first = runtime().await;
    assert_eq!(completed(started(&first, "t").await)["log"], json!([3]));
    first.shutdown(Duration::ZERO).await.expect("ends");
    let second = runtime().await;
    assert_eq!(completed(started(&second, "t").await)["log"], json!([3, 3]));
    let (code, message) = failed(started(&second, "t").await);
    assert_eq!(code, "W0601");
    assert!(message.contains("7 of 7 tool calls"), "one call was left: {message}");
    assert_eq!(completed(started(&second, "u").await)["log"], json!([3]), "another thread");
}

/// Makes a recorded call of a tool and one of a model.
async fn once(ctx: Ctx) -> NodeResult<LogUpdate> {
    let calls = ctx.calls();
    let reservation = calls.budget.reserve(&demand()).await.map_err(|error| error.fault())?;
    let tool_call_id = ToolCallId::new("c").expect("an id");
    calls.emit.emit(AiEvent::ToolCallStart {
        tool_call_id,
        tool_name: "t".to_owned(),
        args: json!({}),
        charged: true,
        task: None,
        ns: String::new(),
    });
    let intent = Intent {
        kind: CallKind::Tool,
        name: "t".to_owned(),
        input: hash(&json!("t")),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    if let Opened::New { key } = calls.journal.open(intent).await? {
        calls.journal.settle(key, CallResult { value: json!(1) }).await?;
    }
    reservation.settle(Usage::tool_call()).await;
    let fact = UsageFact {
        invocation_id: InvocationId::from_uuid(uuid::Uuid::from_u128(1)),
        attempt: 1,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::reported(7, 3),
        cost_micro_usd: Some(5),
        provider_call_id: None,
        prompt_hash: hash(&json!("prompt")),
        started_at: Timestamp(1),
        latency_ms: 5,
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd: None,
        first_token_ms: None,
    };
    calls.ledger.record(&fact);
    calls.emit.emit(AiEvent::UsageReport { fact, message: None, finish: None, task: None });
    Ok(LogUpdate::new().log([1_u64]))
}

/// Calls, asks a person, and calls as often as the budget allows.
fn asking() -> CompiledGraph {
    let ask = async |ctx: Ctx, _: State<Log>| {
        ctx.interrupt(json!("?"))?;
        NodeResult::Ok(LogUpdate::new())
    };
    let graph = Graph::<Log>::new("asking")
        .node("once", once)
        .node("ask", ask)
        .node("spend", spend)
        .edge(START, "once")
        .edge("once", "ask")
        .edge("ask", "spend");
    graph.build().expect("sound")
}

#[tokio::test]
async fn an_answer_continues_the_budget_of_the_run_that_asked() {
    let who = Principal::local();
    for events in [true, false] {
        let clock = ManualClock::new();
        let bench = Bench::with_clock(store(), asking(), Arc::new(clock.clone())).await;
        let mut request = Bench::request(RunInput::Start { input: json!({}) });
        request.options.budget = Some(limits(3));
        let open = interrupted(bench.run(request).await.1);
        let asking = bench.store.runs(&who, &thread()).await.expect("reads").remove(0);
        let before = bench.runtime.used(&who, &asking.new.at).await.expect("reads");
        assert_eq!((before.model_calls, before.tool_calls), (1, 1));
        clock.advance(Duration::from_secs(60));
        if !events {
            let dropped = bench.runtime.drop_events(&who, Duration::from_secs(1)).await;
            assert_eq!(dropped, Ok(1));
            assert_eq!(bench.runtime.used(&who, &asking.new.at).await, Ok(before));
        }
        let mut answer =
            Bench::request(RunInput::answers(BTreeMap::from([(open[0], json!(true))])));
        answer.options.idempotency_key = Some("answer".to_owned());
        let output = completed(bench.run(answer.clone()).await.1);
        assert_eq!(output["log"], json!([1, 2]), "two of three calls are left");
        let repeated = bench.runtime.execute(answer).await.expect("the same request");
        assert_eq!(completed(repeated.outcome.await), output);
        let runs = bench.store.runs(&who, &thread()).await.expect("reads");
        assert_eq!((runs.len(), runs[1].new.options.spent), (2, Some(before)));
    }
}

#[tokio::test]
async fn new_input_and_the_questions_of_another_run_have_budgets_of_their_own() {
    let bench = Bench::new(asking()).await;
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.budget = Some(limits(2));
    interrupted(bench.run(request).await.1);
    // A run with new input has no budget, and neither has its answer.
    let open = interrupted(bench.start(json!({})).await);
    let mut request = Bench::request(RunInput::answers(BTreeMap::from([(open[0], json!(true))])));
    request.options.budget = Some(limits(5));
    let output = completed(bench.run(request).await.1);
    assert_eq!(output["log"], json!([1, 1, 4]), "its own usage is one call");
}

/// A source that gives all runs of a subject the same budget.
#[derive(Debug)]
struct Shared(LimitedBudget);

impl Budgets for Shared {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        assert_eq!((scope.principal.subject.as_str(), scope.used), ("local", Usage::default()));
        assert_eq!(scope.caller.graph, "test:graph");
        Box::pin(std::future::ready(Ok(Arc::new(self.0.clone()) as Arc<dyn Budget>)))
    }
}

#[tokio::test]
async fn runs_share_a_budget_if_their_source_says_so() {
    let budget = LimitedBudget::new(limits(3), Usage::default());
    let runtime = open(Runtime::builder(store()).budgets(Shared(budget.clone()))).await;
    assert_eq!(spent(&runtime, "t").await, json!([3]));
    assert_eq!(spent(&runtime, "u").await, json!([0]));
    assert_eq!(budget.used().tool_calls, 3);
}

#[tokio::test]
async fn concurrent_calls_cannot_both_take_the_last_unit() {
    let graph = Graph::<Log>::new("two")
        .node("a", hold)
        .node("b", hold)
        .node("after", spend)
        .edge(START, "a")
        .edge(START, "b")
        .join(["a", "b"], "after");
    let builder = Runtime::builder(store()).budgets(limits(1));
    let builder = builder.graph("test:graph", graph.build().expect("sound"));
    let runtime = builder.open().await.expect("opens");
    assert_eq!(spent(&runtime, "t").await, json!([1, 0, 1]), "a dropped reservation comes back");
}

#[tokio::test]
async fn a_takeover_counts_what_the_log_reports() {
    let store = store();
    let at = created(&store).await;
    let call = || AiEvent::ToolCallStart {
        tool_call_id: ToolCallId::new("c").expect("an id"),
        tool_name: "t".to_owned(),
        args: json!({}),
        charged: true,
        task: None,
        ns: String::new(),
    };
    dies(&store, &at, 2, Some(call())).await;
    let reused = AiEvent::CallReused { kind: "tool".to_owned(), name: "t".to_owned() };
    dies(&store, &at, 1, Some(reused)).await;
    let runtime = open(Runtime::builder(store).budgets(limits(5))).await;
    let handle = runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    assert_eq!(completed(handle.outcome.await)["log"], json!([4]), "one of two was reused");
}

/// A source that cannot be read.
#[derive(Debug)]
struct Offline;

impl Budgets for Offline {
    fn open<'a>(
        &'a self,
        _: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        let source = Fault::new(ErrorCode("W0204"), "it is offline").retriable(true);
        Box::pin(std::future::ready(Err(BudgetError::Unavailable { source })))
    }
}

#[tokio::test]
async fn a_run_without_a_budget_fails() {
    let runtime = open(Runtime::builder(store()).budgets(Offline)).await;
    let run = runtime.thread("test:graph", thread().as_str()).expect("valid names");
    let ended = run.start(json!({})).await.expect("accepted");
    let error = ended.output().expect_err("failed");
    let RunOutcome::Failed { fault } = ended.outcome() else { panic!("failed: {error}") };
    assert!(fault.retriable);
    let (code, message) = failed(ended.outcome().clone());
    assert_eq!(code, "W0603");
    assert_eq!(message, "the budget of the run cannot be checked: it is offline");
    let exceeded =
        BudgetExceeded { budget: "budget", unit: "tokens", used: 3, needed: 1, limit: 3 };
    assert_eq!(BudgetError::from(exceeded).fault().code, "W0601");
}

on_each_store![
    two_runs_of_one_process_have_separate_budgets,
    concurrent_calls_cannot_both_take_the_last_unit,
    three_tasks_at_once_make_as_many_calls_as_one_budget_allows,
    a_run_that_continues_another_has_what_it_left_of_the_budget,
    an_answer_continues_the_budget_of_the_run_that_asked,
    a_takeover_counts_what_the_log_reports,
    wall_time_is_limited_for_a_run_with_its_continuations_without_waits,
];
