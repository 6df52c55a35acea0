//! Bugs that other graph runtimes shipped, each as a test of its own.

use crate::support::{Bench, check_stream, completed, failed, interrupted, on_each_store, thread};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Deps, Graph, List, Next, NodeResult, START, SendTo, State,
};
use weftwork_types::Principal;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::RunInput;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

fn say(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

async fn counted(runs: Deps<Count>) -> LogUpdate {
    say(format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1))
}

async fn gate(ctx: Ctx) -> NodeResult<LogUpdate> {
    let answer = ctx.interrupt(json!({"amount": 25, "to": ["Ada"]}))?;
    Ok(say(format!("gate {answer}")))
}

/// A counted node before a gate and another behind it.
fn gated(before: &Count, behind: &Count) -> CompiledGraph {
    struct Behind(Count);
    Graph::<Log>::new("gated")
        .with(Arc::clone(before))
        .with(Behind(Arc::clone(behind)))
        .node("before", counted)
        .node("gate", gate)
        .node("behind", async |runs: Deps<Behind>| {
            runs.0.0.fetch_add(1, Ordering::SeqCst);
            say("behind")
        })
        .edge(START, "before")
        .edge("before", "gate")
        .edge("gate", "behind")
        .build()
        .expect("sound")
}

fn start() -> RunInput {
    RunInput::Start { input: json!({}) }
}

#[tokio::test]
async fn resuming_does_not_execute_finished_nodes_again() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    let open = interrupted(bench.start(json!({})).await);
    let output = completed(bench.resume([(open[0], json!(1))].into()).await);
    assert_eq!(output["log"], json!(["run 1", "gate 1", "behind"]));
    assert_eq!(before.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_streamed_run_leaves_checkpoints() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    let (events, outcome) = bench.run(Bench::request(start())).await;
    check_stream(&events);
    interrupted(outcome);
    assert_eq!(bench.checkpoints().await.len(), 3, "input, the start and the first step");
}

#[tokio::test]
async fn watching_does_not_run_a_node_twice() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    let watched = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    let seen: Vec<_> = watched.events.collect().await;
    check_stream(&seen);
    interrupted(watched.outcome.await);
    assert_eq!(before.load(Ordering::SeqCst), 1);
    let unwatched = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    drop(unwatched.events);
    interrupted(unwatched.outcome.await);
    assert_eq!(before.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_approval_gate_holds_while_streaming() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    let (_, outcome) = bench.run(Bench::request(start())).await;
    let open = interrupted(outcome);
    let (_, outcome) = bench.run(Bench::request(RunInput::Continue)).await;
    assert_eq!(interrupted(outcome), open, "going on without an answer does not open the gate");
    assert_eq!(behind.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_answered_gate_lets_its_node_run() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    for round in 1..=2 {
        let open = interrupted(bench.start(json!({})).await);
        completed(bench.resume([(open[0], json!("yes"))].into()).await);
        assert_eq!(behind.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn a_fan_in_runs_once() {
    let runs = Count::default();
    let graph = Graph::<Log>::new("fan")
        .with(Arc::clone(&runs))
        .node("a", async |_: State<Log>| say("a"))
        .node("b", async |_: State<Log>| say("b"))
        .node("c", async |_: State<Log>| say("c"))
        .node("in", counted)
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c")
        .edge("a", "in")
        .edge("b", "in")
        .edge("c", "in")
        .build()
        .expect("sound");
    let output = completed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(output["log"], json!(["a", "b", "c", "run 1"]));
}

#[tokio::test]
async fn parallel_updates_merge_in_task_order() {
    let graph = Graph::<Log>::new("order")
        .node("a", async |ctx: Ctx| {
            ctx.clock().sleep(std::time::Duration::from_millis(20)).await;
            say("a")
        })
        .node("b", async |_: State<Log>| say("b"))
        .edge(START, "b")
        .edge(START, "a")
        .build()
        .expect("sound");
    let output = completed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(output["log"], json!(["a", "b"]));
}

#[tokio::test]
async fn an_unknown_route_is_an_error() {
    let graph = Graph::<Log>::new("route")
        .node("a", async |_: State<Log>| say("a"))
        .edge(START, "a")
        .route_to("a", [] as [&str; 0], |_: State<Log>| Next::node("nowhere"))
        .build()
        .expect("sound");
    assert_eq!(failed(Bench::new(graph).await.start(json!({})).await).0, "W0104");
}

#[tokio::test]
async fn the_payload_of_a_question_reaches_the_caller() {
    let before = Count::default();
    let behind = Count::default();
    let bench = Bench::new(gated(&before, &behind)).await;
    let (events, outcome) = bench.run(Bench::request(start())).await;
    let payload = Ask::Value { value: json!({"amount": 25, "to": ["Ada"]}) };
    let interrupt_id = interrupted(outcome)[0];
    let asked = AiEvent::HumanInputRequired { interrupt_id, ask: payload.clone(), graph: None };
    assert!(events.iter().any(|e| e.event == asked), "{events:#?}");
    let rows = bench.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!((rows[0].interrupt.id, &rows[0].interrupt.ask), (interrupt_id, &payload));
}

#[tokio::test]
async fn tasks_sent_to_one_node_are_all_run_even_with_equal_arguments() {
    let graph = Graph::<Log>::new("sends")
        .node("work", async |Arg(n): Arg<u32>| say(n.to_string()))
        .edge(START, "work2")
        .node("work2", async |_: State<Log>| say("fan"))
        .route_to("work2", ["work"], |_: State<Log>| {
            vec![7u32; 3].into_iter().map(|n| Next::Send(SendTo::to("work", n))).collect::<Vec<_>>()
        })
        .build()
        .expect("sound");
    let output = completed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(output["log"], json!(["fan", "7", "7", "7"]));
}

#[tokio::test]
async fn a_node_that_is_due_by_edge_and_by_send_runs_for_both_with_journals_of_their_own() {
    async fn work(ctx: Ctx, runs: Deps<Count>) -> NodeResult<LogUpdate> {
        use weftwork_types::port::{Attempts, CallKind, CallResult, Intent, Opened};
        let intent = Intent {
            kind: CallKind::Once,
            name: "work".to_owned(),
            input: weftwork_types::canonical::hash(&json!(1)),
            call_id: None,
            effect: weftwork_types::tool::Effect::StateChange,
            attempts: Attempts::Shared,
        };
        match ctx.calls().journal.open(intent).await? {
            Opened::New { key } => {
                runs.fetch_add(1, Ordering::SeqCst);
                ctx.calls().journal.settle(key, CallResult { value: json!(1) }).await?;
                Ok(say("new"))
            }
            Opened::Settled { .. } | Opened::Unknown { .. } => Ok(say("known")),
        }
    }
    let runs = Count::default();
    let graph = Graph::<Log>::new("both")
        .with(Arc::clone(&runs))
        .node("first", async |_: State<Log>| say("first"))
        .node("work", work)
        .edge(START, "first")
        .edge("first", "work")
        .route_to("first", ["work"], |_: State<Log>| {
            vec![Next::Send(SendTo::to("work", 1u32)), Next::Send(SendTo::to("work", 1u32))]
        })
        .build()
        .expect("sound");
    let output = completed(Bench::new(graph).await.start(json!({})).await);
    assert_eq!(output["log"], json!(["first", "new", "new", "new"]));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

#[tokio::test]
async fn each_saved_step_is_constant_in_size() {
    let graph = Graph::<Talk>::new("talk")
        .node("answer", async |ctx: Ctx| {
            let text = "an answer of the usual length";
            TalkUpdate::new().messages([Message::text(ctx.message_id(), Role::Assistant, text)])
        })
        .edge(START, "answer")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    for turn in 0..200 {
        let question = json!({
            "id": format!("u{turn:05}"),
            "role": "user",
            "parts": [{"type": "text", "text": "a question"}],
        });
        completed(bench.start(json!({"messages": [question]})).await);
    }
    let rows = bench.checkpoints().await;
    let bytes: Vec<_> = rows.iter().rev().map(|row| row.body.len()).collect();
    assert_eq!(bytes.len(), 600);
    // One row in so many repeats the changes before it.
    let of = |turns: std::ops::Range<usize>| bytes[3 * turns.start..3 * turns.end].iter().sum();
    let early: usize = of(33..66);
    let late: usize = of(165..198);
    assert!(late * 10 <= early * 12, "33 turns took {early} bytes, the last 33 took {late}");
}

#[derive(State)]
struct Before {
    n: i64,
}

#[derive(State)]
struct After {
    #[channel(reduce = |sum, n| sum + n)]
    n: i64,
}

fn before() -> CompiledGraph {
    Graph::<Before>::new("edited")
        .node("a", async |_: State<Before>| BeforeUpdate::new().n(5))
        .edge(START, "a")
        .build()
        .expect("sound")
}

fn after() -> CompiledGraph {
    Graph::<After>::new("edited")
        .node("a", async |_: State<After>| AfterUpdate::new().n(1))
        .edge(START, "a")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn an_edited_graph_that_would_lose_a_value_is_refused() {
    for (first, second) in [(before(), after()), (after(), before())] {
        let store = crate::support::store();
        completed(Bench::on(Arc::clone(&store), first.clone()).await.start(json!({})).await);
        let edited = Bench::on(Arc::clone(&store), second).await;
        let (code, message) = failed(edited.start(json!({})).await);
        assert_eq!(code, "W0107", "{message}");
        assert!(message.contains("channel `n`"), "{message}");
        completed(Bench::on(store, first).await.start(json!({})).await);
    }
}

on_each_store![
    resuming_does_not_execute_finished_nodes_again,
    a_streamed_run_leaves_checkpoints,
    watching_does_not_run_a_node_twice,
    an_approval_gate_holds_while_streaming,
    an_answered_gate_lets_its_node_run,
    a_fan_in_runs_once,
    parallel_updates_merge_in_task_order,
    an_unknown_route_is_an_error,
    the_payload_of_a_question_reaches_the_caller,
    tasks_sent_to_one_node_are_all_run_even_with_equal_arguments,
    a_node_that_is_due_by_edge_and_by_send_runs_for_both_with_journals_of_their_own,
    each_saved_step_is_constant_in_size,
    an_edited_graph_that_would_lose_a_value_is_refused,
];
