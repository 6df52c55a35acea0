//! Records that nodes write are committed with the results of their tasks, or not at all.

use crate::death::{DeathAt, dies_at};
use crate::faulty::Moment;
use crate::support::{Bench, completed, on_each_store, store};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Retry, START, State,
    SubgraphState,
};
use weftwork_store::Store;
use weftwork_store::sequence::{Content, Sequence, SequenceQuery, SequenceWrite};
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, Timestamp};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

fn documents() -> Sequence {
    Sequence::new("test:document", "one")
}

fn version(text: &str) -> SequenceWrite {
    SequenceWrite::append(documents(), Content::json(1, &json!(text)).expect("JSON"))
}

/// The texts of the document, oldest first.
async fn texts(store: &dyn Store) -> Vec<String> {
    let query = SequenceQuery::of(documents(), 0);
    let rows = store.sequence_rows(&Principal::local(), query).await.expect("reads");
    rows.iter().map(|row| row.json().expect("a text")).collect()
}

/// Makes a paid call once, and returns its number.
async fn call(ctx: &Ctx, made: &Count) -> NodeResult<u64> {
    let intent = Intent {
        kind: CallKind::Model,
        name: "model".to_owned(),
        input: hash(&json!(ctx.step())),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    match ctx.calls().journal.open(intent).await? {
        Opened::New { key } => {
            let number = made.fetch_add(1, Ordering::SeqCst) + 1;
            ctx.calls().journal.settle(key, CallResult { value: json!(number) }).await?;
            Ok(number.into())
        }
        Opened::Settled { result, .. } => Ok(result.value.as_u64().unwrap_or_default()),
        Opened::Unknown { .. } => Err(NodeError::message("an unknown outcome")),
    }
}

/// Writes a version of the document that is made of an answer.
async fn build(ctx: Ctx, made: Deps<Count>) -> NodeResult<LogUpdate> {
    let answer = call(&ctx, &made).await?;
    ctx.write_record(version(&format!("answer {answer}")));
    Ok(LogUpdate::new().log([format!("built {answer}")]))
}

fn builder(made: &Count) -> CompiledGraph {
    let graph = Graph::<Log>::new("builder").with(Arc::clone(made));
    let graph = graph.node("a", build).node("b", build);
    graph.edge(START, "a").edge("a", "b").build().expect("sound")
}

#[tokio::test]
async fn each_result_has_its_record() {
    let made = Count::default();
    let bench = Bench::new(builder(&made)).await;
    completed(bench.start(json!({})).await);
    assert_eq!(texts(&*bench.store).await, ["answer 1", "answer 2"]);
}

async fn fails_once(ctx: Ctx) -> NodeResult<LogUpdate> {
    ctx.write_record(version(&format!("attempt {}", ctx.attempt())));
    match ctx.attempt() {
        1 => Err(NodeError::message("not yet").retriable()),
        _ => Ok(LogUpdate::new()),
    }
}

#[tokio::test]
async fn an_attempt_that_fails_writes_nothing() {
    let graph = Graph::<Log>::new("retries").node("n", fails_once);
    let graph = graph.retry("n", Retry::new(2)).edge(START, "n").build().expect("sound");
    let bench = Bench::new(graph).await;
    completed(bench.start(json!({})).await);
    assert_eq!(texts(&*bench.store).await, ["attempt 2"]);
}

async fn asks(ctx: Ctx) -> NodeResult<LogUpdate> {
    ctx.write_record(version("written"));
    let answer = ctx.interrupt(json!("Write it?"))?;
    Ok(LogUpdate::new().log([answer.to_string()]))
}

#[tokio::test]
async fn a_node_that_asks_writes_once_it_is_answered() {
    let graph = Graph::<Log>::new("asks").node("n", asks).edge(START, "n").build().expect("sound");
    let bench = Bench::new(graph).await;
    let RunOutcome::Interrupted { interrupts, .. } = bench.start(json!({})).await else {
        panic!("the run asks");
    };
    assert!(texts(&*bench.store).await.is_empty());
    completed(bench.resume([(interrupts[0], json!(true))].into()).await);
    assert_eq!(texts(&*bench.store).await, ["written"]);
}

async fn expects(ctx: Ctx, state: State<Log>) -> NodeResult<LogUpdate> {
    ctx.write_record(version("mine").expecting(state.log().len() as u64));
    Ok(LogUpdate::new().log(["done"]))
}

/// The run fails, the thread stays as it is, and the record of the other writer stands.
#[tokio::test]
async fn a_version_that_is_not_the_expected_one_fails_the_run() {
    let graph =
        Graph::<Log>::new("expects").node("n", expects).edge(START, "n").build().expect("sound");
    let bench = Bench::new(graph).await;
    let who = Principal::local();
    let others = vec![version("theirs")];
    bench.store.write_sequences(&who, others, Timestamp(1)).await.expect("writes");
    let RunOutcome::Failed { fault } = bench.start(json!({})).await else {
        panic!("the commit is refused");
    };
    assert_eq!(fault.code, "W0212", "{fault:?}");
    assert!(fault.to_string().contains("version 1"), "{fault}");
    assert_eq!(texts(&*bench.store).await, ["theirs"]);
}

/// A graph within a node stores its records with its own checkpoints; one without checkpoints
/// refuses them.
#[tokio::test]
async fn a_graph_without_checkpoints_stores_no_records() {
    for (keep, stored) in [(SubgraphState::PerTask, true), (SubgraphState::Stateless, false)] {
        let made = Count::default();
        let outer = Graph::<Log>::new("outer").subgraph("inner", builder(&made), keep);
        let outer = outer.edge(START, "inner").build().expect("sound");
        let bench = Bench::new(outer).await;
        match bench.start(json!({})).await {
            RunOutcome::Completed { .. } if stored => {
                assert_eq!(texts(&*bench.store).await, ["answer 1", "answer 2"]);
            }
            RunOutcome::Failed { fault } if !stored => {
                assert_eq!(fault.code, "W0141");
                assert!(texts(&*bench.store).await.is_empty());
            }
            other => panic!("{keep:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_run_without_a_runtime_refuses_records() {
    let error = builder(&Count::default()).invoke(json!({})).await.expect_err("there is no store");
    assert_eq!(error.fault().code, "W0141");
}

/// A worker dies at each commit of a run in turn: the next one goes on, with one record and one call
/// for each node.
#[tokio::test]
async fn a_death_at_any_commit_leaves_one_record_for_one_call() {
    for moment in [Moment::Before, Moment::After] {
        let mut commit = 1;
        loop {
            let inner = store();
            let made = Count::default();
            let graph = builder(&made);
            let begin = move |store| async move {
                let bench = Bench::on(store, graph).await;
                let request = Bench::request(RunInput::Start { input: json!({}) });
                let handle = bench.runtime.execute(request).await.expect("is accepted");
                (handle, bench.runtime)
            };
            let died = dies_at(&inner, DeathAt { commit, moment }, begin).await;
            let after = Bench::on(Arc::clone(&inner), builder(&made)).await;
            for handle in after.runtime.recover().await.expect("recovers") {
                completed(handle.outcome.await);
            }
            let texts = texts(&*inner).await;
            assert_eq!(texts.len(), 2, "{commit}, {moment:?}: {texts:?}");
            assert_ne!(texts[0], texts[1], "{commit}, {moment:?}");
            // An answer that was lost with the worker, before it came on record, is asked for again.
            let made = made.load(Ordering::SeqCst);
            assert!(made <= 3, "{commit}, {moment:?}: {made} calls");
            if !died {
                assert!(commit > 2, "it met each commit");
                break;
            }
            commit += 1;
        }
    }
}

on_each_store![
    each_result_has_its_record,
    an_attempt_that_fails_writes_nothing,
    a_node_that_asks_writes_once_it_is_answered,
    a_version_that_is_not_the_expected_one_fails_the_run,
    a_graph_without_checkpoints_stores_no_records,
];
