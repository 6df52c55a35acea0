//! Runs that failed and are put back.

use crate::recovery::{chain, created, dies};
use crate::support::{Bench, completed, failed, on_each_store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, RuntimeError, START, State,
};
use weftwork_store::StoreError;
use weftwork_types::Principal;
use weftwork_types::event::AiEvent;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunRef};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

/// Fails the first time.
async fn fails(count: Deps<Count>) -> NodeResult<LogUpdate> {
    match count.fetch_add(1, Ordering::SeqCst) % 100 {
        0 => Err(NodeError::message("not yet")),
        n => Ok(LogUpdate::new().log([format!("try {n}")])),
    }
}

async fn beside(count: Deps<Count>) -> LogUpdate {
    count.fetch_add(100, Ordering::SeqCst);
    LogUpdate::new().log(["beside"])
}

fn once(count: &Count) -> CompiledGraph {
    Graph::<Log>::new("once")
        .with(Arc::clone(count))
        .node("first", async |_: State<Log>| LogUpdate::new().log(["first"]))
        .node("fails", fails)
        .node("beside", beside)
        .edge(START, "first")
        .edge("first", "fails")
        .edge("first", "beside")
        .build()
        .expect("sound")
}

async fn only_run(bench: &Bench) -> RunRef {
    let runs = bench.store.runs(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(runs.len(), 1);
    runs[0].new.at.clone()
}

#[tokio::test]
async fn a_failed_run_that_is_requeued_goes_on_where_it_stood() {
    let count = Count::default();
    let bench = Bench::new(once(&count)).await;
    failed(bench.start(json!({})).await);
    let who = Principal::local();
    let at = only_run(&bench).await;
    let handle = bench.runtime.requeue(&who, &at).await.expect("it failed").into_handle();
    assert_eq!(handle.run, at);
    let events: Vec<_> = handle.events.collect().await;
    assert!(matches!(events.last().expect("events").event, AiEvent::Done { .. }));
    let log = completed(handle.outcome.await)["log"].clone();
    assert_eq!(log, json!(["first", "beside", "try 1"]));
    assert_eq!(count.load(Ordering::SeqCst), 102, "what finished beside it did not run again");
    let again = bench.runtime.requeue(&who, &at).await.expect_err("it completed");
    let refused = RuntimeError::Store(StoreError::NotRequeued {
        run: at.run.to_string(),
        thread: "t".to_owned(),
        why: "completed",
    });
    assert_eq!(again, refused);
}

#[tokio::test]
async fn a_crash_loop_that_is_requeued_has_its_attempts_counted_anew() {
    let bench = Bench::new(chain()).await;
    let at = created(&bench.store).await;
    dies(&bench.store, &at, 3, None).await;
    let handle = bench.runtime.recover().await.expect("nobody has it").remove(0);
    assert_eq!(failed(handle.outcome.await).0, "W0130");
    let who = Principal::local();
    // It ends two more processes; the third goes on all the same.
    bench.store.requeue(&who, &at, weftwork_types::Timestamp(5)).await.expect("it failed");
    dies(&bench.store, &at, 2, None).await;
    let handle = bench.runtime.recover().await.expect("nobody has it").remove(0);
    assert_eq!(completed(handle.outcome.await)["log"], json!(["a"]), "its input is taken");
}

#[tokio::test]
async fn input_that_was_refused_is_refused_again_and_not_forgotten() {
    let bench = Bench::new(once(&Count::default())).await;
    let (code, message) = failed(bench.start(json!({"lgo": []})).await);
    let who = Principal::local();
    let at = only_run(&bench).await;
    let handle = bench.runtime.requeue(&who, &at).await.expect("it failed").into_handle();
    assert_eq!(failed(handle.outcome.await), (code, message));
    // On a thread that stands, too.
    let handle = bench.runtime.requeue(&who, &at).await.expect("it failed").into_handle();
    failed(handle.outcome.await);
}

#[tokio::test]
async fn whoever_follows_a_requeued_run_sees_both_ends() {
    let bench = Bench::new(once(&Count::default())).await;
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.idempotency_key = Some("once".to_owned());
    failed(bench.run(request.clone()).await.1);
    let at = only_run(&bench).await;
    let handle =
        bench.runtime.requeue(&Principal::local(), &at).await.expect("it failed").into_handle();
    completed(handle.outcome.await);
    // The same request once more is the same run, whose log is read from its beginning.
    let handle = bench.runtime.execute(request).await.expect("the run is accepted");
    let told: Vec<_> = handle.events.collect().await;
    let seqs: Vec<_> = told.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let done = |event: &AiEvent| matches!(event, AiEvent::Done { .. });
    let first = told.iter().position(|event| done(&event.event)).expect("it failed first");
    let by = Principal::local().subject;
    assert_eq!(told[first + 1].event, AiEvent::Requeued { by });
    assert!(done(&told.last().expect("events").event));
    completed(handle.outcome.await);
}

#[tokio::test]
async fn a_run_that_goes_or_that_nobody_knows_is_not_requeued() {
    let asks = Graph::<Log>::new("asks")
        .node("a", async |ctx: Ctx| {
            let answer = ctx.interrupt(json!("?"))?;
            NodeResult::Ok(LogUpdate::new().log([answer.to_string()]))
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::new(asks).await;
    let at = created(&bench.store).await;
    let who = Principal::local();
    let code = async |at: &RunRef| {
        bench.runtime.requeue(&who, at).await.expect_err("is refused").fault().code
    };
    assert_eq!(code(&at).await, "W0202", "it was not begun");
    let handle = bench.runtime.take_over(&who, &at).await.expect("nobody has it");
    crate::support::interrupted(handle.outcome.await);
    assert_eq!(code(&at).await, "W0217");
    let nobody = RunRef { run: weftwork_types::RunId::new("x").expect("valid id"), ..at };
    assert_eq!(code(&nobody).await, "W0201");
}

on_each_store![
    a_failed_run_that_is_requeued_goes_on_where_it_stood,
    a_crash_loop_that_is_requeued_has_its_attempts_counted_anew,
    input_that_was_refused_is_refused_again_and_not_forgotten,
    whoever_follows_a_requeued_run_sees_both_ends,
    a_run_that_goes_or_that_nobody_knows_is_not_requeued,
];
