//! Budgets of runs: one for each run, reserved before calls.

use crate::recovery::{created, dies};
use crate::support::{completed, failed, on_each_store, store, thread};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, START, State};
use weftwork_runtime::{Runtime, RuntimeBuilder};
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{
    Budget, BudgetError, BudgetExceeded, BudgetScope, Budgets, Demand, LimitedBudget, Limits,
};
use weftwork_types::run::{RunOptions, RunOutcome};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, ErrorCode, Principal, ToolCallId};

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
        let (tool_name, args) = ("t".to_owned(), json!({}));
        ctx.calls().emit.emit(AiEvent::ToolCallStart { tool_call_id, tool_name, args });
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
    let handle = second.resume(&who, &id).await.expect("resumed");
    let run = handle.run.clone();
    assert_eq!(failed(handle.outcome.await).0, "W0601");
    assert_eq!(second.used(&who, &run).await.expect("a log"), Usage::default());
    let handle = second.resume_with(&who, &id, budget(5)).await.expect("resumed");
    let run = handle.run.clone();
    assert_eq!(completed(handle.outcome.await)["log"], json!([3]));
    assert_eq!(second.used(&who, &run).await.expect("a log").tool_calls, 3);
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
    let exceeded = BudgetExceeded { unit: "tokens", used: 3, limit: 3 };
    assert_eq!(BudgetError::from(exceeded).fault().code, "W0601");
}

on_each_store![
    two_runs_of_one_process_have_separate_budgets,
    concurrent_calls_cannot_both_take_the_last_unit,
    three_tasks_at_once_make_as_many_calls_as_one_budget_allows,
    a_run_that_continues_another_has_what_it_left_of_the_budget,
    a_takeover_counts_what_the_log_reports,
];
