//! Questions, answers, cancelling, and going on in another process.

use crate::support::{Bench, check_stream, completed, interrupted, on_each_store};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{Ctx, Deps, Graph, List, NodeResult, START, State};
use weftwork_types::Principal;
use weftwork_types::event::AiEvent;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOutcome};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

async fn ask(ctx: Ctx, runs: Deps<Count>) -> NodeResult<LogUpdate> {
    runs.fetch_add(1, Ordering::SeqCst);
    let name = ctx.interrupt(json!("name?"))?;
    let age = ctx.interrupt(json!("age?"))?;
    Ok(LogUpdate::new().log([format!("{name} is {age}")]))
}

async fn beside(runs: Deps<Count>) -> LogUpdate {
    runs.fetch_add(100, Ordering::SeqCst);
    LogUpdate::new().log(["beside"])
}

fn graph(runs: &Count) -> weftwork_graph::CompiledGraph {
    Graph::<Log>::new("ask")
        .with(Arc::clone(runs))
        .node("ask", ask)
        .node("beside", beside)
        .edge(START, "ask")
        .edge(START, "beside")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_question_survives_its_process_and_only_its_own_node_runs_again() {
    let store = crate::support::store();
    let runs = Count::default();
    let first = Bench::on(store.clone(), graph(&runs)).await;
    let input = RunInput::Start { input: json!({}) };
    let (events, outcome) = first.run(Bench::request(input)).await;
    check_stream(&events);
    assert!(events.iter().any(|e| matches!(e.event, AiEvent::HumanInputRequired { .. })));
    let name = interrupted(outcome);
    drop(first);

    let second = Bench::on(store.clone(), graph(&runs)).await;
    assert_eq!(interrupted(second.proceed().await), name, "nobody answered: it still waits");
    let answers = BTreeMap::from([(name[0], json!("Ada"))]);
    let age = interrupted(second.resume(answers.clone()).await);
    assert_ne!(age, name, "each question has an id of its own");
    let refused = second
        .runtime
        .execute(Bench::request(RunInput::answers(answers)))
        .await
        .expect_err("answered before");
    assert_eq!(refused.fault.code, "W0204");
    let output = completed(second.resume(BTreeMap::from([(age[0], json!(36))])).await);
    assert_eq!(output["log"], json!(["\"Ada\" is 36", "beside"]));
    assert_eq!(runs.load(Ordering::SeqCst), 103, "three times the asker, once its sibling");
}

#[tokio::test]
async fn new_input_leaves_the_open_question_behind() {
    let runs = Count::default();
    let bench = Bench::new(graph(&runs)).await;
    let old = interrupted(bench.start(json!({})).await);
    let new = interrupted(bench.start(json!({"log": ["again"]})).await);
    assert_ne!(old, new);
    let answers = BTreeMap::from([(old[0], json!("late"))]);
    let refused = bench.runtime.execute(Bench::request(RunInput::answers(answers))).await;
    let fault = refused.expect_err("void").fault;
    assert_eq!(fault.code, "W0138");
    assert!(fault.message.contains(&new[0].to_string()), "{fault}");
}

#[tokio::test]
async fn cancelling_cuts_a_node_at_its_await_and_keeps_what_was_committed() {
    let graph = Graph::<Log>::new("hang")
        .node("first", async |_: State<Log>| LogUpdate::new().log(["first"]))
        .node("hang", async |ctx: Ctx| {
            ctx.emit(json!("hanging"));
            std::future::pending::<LogUpdate>().await
        })
        .edge(START, "first")
        .edge("first", "hang")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let input = RunInput::Start { input: json!({}) };
    let mut handle = bench.runtime.execute(Bench::request(input)).await.expect("accepted");
    let mut seen = Vec::new();
    while let Some(event) = futures_util::StreamExt::next(&mut handle.events).await {
        if matches!(&event.event, AiEvent::Custom { value, .. } if value == "hanging") {
            let who = Principal::local();
            bench.runtime.cancel(&who, &handle.run).await.expect("it goes");
        }
        seen.push(event);
    }
    check_stream(&seen);
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
    assert_eq!(bench.checkpoints().await.len(), 3, "input, the start and the first step");
}

#[tokio::test]
async fn a_busy_thread_refuses_a_second_run() {
    let graph = Graph::<Log>::new("busy")
        .node("hang", async |_: State<Log>| std::future::pending::<LogUpdate>().await)
        .edge(START, "hang")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let input = RunInput::Start { input: json!({}) };
    let first = bench.runtime.execute(Bench::request(input.clone())).await.expect("accepted");
    let second = bench.runtime.execute(Bench::request(input)).await.expect_err("busy");
    assert_eq!(second.fault.code, "W0202");
    bench.runtime.cancel(&Principal::local(), &first.run).await.expect("it goes");
    assert_eq!(first.outcome.await, RunOutcome::cancelled());
}

on_each_store![
    a_question_survives_its_process_and_only_its_own_node_runs_again,
    new_input_leaves_the_open_question_behind,
    cancelling_cuts_a_node_at_its_await_and_keeps_what_was_committed,
    a_busy_thread_refuses_a_second_run,
];
