//! Looking back, changing the past, and going on from there.

use crate::support::{Bench, completed, failed, interrupted, on_each_store, thread};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::run_loop::{Source, TaskResult};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, HistoryFilter, List, NodeResult, START, Snapshot, State,
};
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{ReuseFrom, RunInput, RunOptions, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, Principal};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

/// Makes one recorded call and says how often it was really made by now.
async fn pay(ctx: Ctx, paid: Deps<Count>) -> NodeResult<LogUpdate> {
    let intent = Intent {
        kind: CallKind::Once,
        name: "pay".to_owned(),
        input: hash(&json!(1)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    let journal = &ctx.calls().journal;
    let times = match journal.open(intent).await? {
        Opened::Settled { result, .. } => result.value,
        Opened::New { key } | Opened::Unknown { key, .. } => {
            let value = json!(paid.fetch_add(1, Ordering::SeqCst) + 1);
            journal.settle(key, CallResult { value: value.clone() }).await?;
            value
        }
    };
    Ok(LogUpdate::new().log([format!("paid {times}")]))
}

fn graph(paid: &Count) -> CompiledGraph {
    Graph::<Log>::new("travel")
        .with(Arc::clone(paid))
        .node("pay", pay)
        .node("b", async |_: State<Log>| LogUpdate::new().log(["b"]))
        .node("c", async |ctx: Ctx| -> NodeResult<LogUpdate> {
            let answer = ctx.interrupt(json!("go on?"))?;
            Ok(LogUpdate::new().log([format!("c {answer}")]))
        })
        .edge(START, "pay")
        .edge("pay", "b")
        .edge("b", "c")
        .build()
        .expect("sound")
}

async fn history(bench: &Bench) -> Vec<Snapshot> {
    let all = HistoryFilter::default();
    bench.runtime.history(&Principal::local(), &thread(), &all).await.expect("reads")
}

fn id(state: &Snapshot) -> CheckpointId {
    state.checkpoint().expect("stored")
}

fn source(state: &Snapshot) -> Source {
    state.metadata.as_ref().expect("stored").source
}

fn at(input: RunInput, at: CheckpointId) -> RunRequest {
    let options = RunOptions { at: Some(at), ..crate::support::options() };
    RunRequest { options, ..Bench::request(input) }
}

fn due(history: &[Snapshot], node: &str) -> Snapshot {
    history.iter().find(|s| s.next == [node]).expect("a checkpoint where it is due").clone()
}

#[tokio::test]
async fn history_says_what_each_task_did_and_what_waits() {
    let bench = Bench::new(graph(&Count::default())).await;
    let asked = interrupted(bench.start(json!({})).await);
    let history = history(&bench).await;
    let shape: Vec<_> = history
        .iter()
        .map(|s| {
            let step = s.metadata.as_ref().expect("stored").step;
            (step, source(s), s.next.join(","), s.values["log"].clone())
        })
        .collect();
    assert_eq!(
        shape,
        [
            (2, Source::Loop, "c".to_owned(), json!(["paid 1", "b"])),
            (1, Source::Loop, "b".to_owned(), json!(["paid 1"])),
            (0, Source::Loop, "pay".to_owned(), json!([])),
            (-1, Source::Input, "__start__".to_owned(), json!([])),
        ]
    );
    assert_eq!(history[0].parent, history[1].config);
    assert_eq!(history[0].tasks[0].interrupts[0].id, asked[0]);
    let Some(TaskResult::Writes(writes)) = &history[1].tasks[0].result else {
        panic!("it finished: {history:#?}")
    };
    assert_eq!(writes[0].0, "log");
    let state = bench.runtime.state(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(state, history[0]);
}

#[tokio::test]
async fn a_replay_runs_again_on_a_branch_that_pays_anew_and_asks_anew() {
    let paid = Count::default();
    let bench = Bench::new(graph(&paid)).await;
    let first = interrupted(bench.start(json!({})).await);
    let old = history(&bench).await;
    let from = id(&due(&old, "pay"));
    let again = interrupted(bench.run(at(RunInput::Continue, from)).await.1);
    assert_ne!(first, again, "the question of the branch is its own");
    let log = &history(&bench).await[0].values["log"];
    assert_eq!(log, &json!(["paid 2", "b"]), "a branch has records of its own");
    let sources: Vec<_> = history(&bench).await.iter().map(source).collect();
    assert_eq!(sources[2], Source::Fork);
    assert_eq!(sources.len(), 7);
    let answers = [(again[0], json!("yes"))].into();
    let output = completed(bench.resume(answers).await);
    assert_eq!(output["log"], json!(["paid 2", "b", "c \"yes\""]));
}

fn reusing(mut request: RunRequest) -> RunRequest {
    request.options.reuse_from = ReuseFrom::Origin;
    request
}

#[tokio::test]
async fn a_replay_that_may_reuse_pays_nothing_for_what_is_as_before() {
    let paid = Count::default();
    let bench = Bench::new(graph(&paid)).await;
    interrupted(bench.start(json!({})).await);
    let from = id(&due(&history(&bench).await, "pay"));
    interrupted(bench.run(reusing(at(RunInput::Continue, from))).await.1);
    assert_eq!(history(&bench).await[0].values["log"], json!(["paid 1", "b"]));
    // A branch of that branch, which finds what the branch has of the first one.
    let newest = id(&due(&history(&bench).await, "pay"));
    assert_ne!(newest, from);
    interrupted(bench.run(reusing(at(RunInput::Continue, newest))).await.1);
    assert_eq!(history(&bench).await[0].values["log"], json!(["paid 1", "b"]));
    // And one of the first branch again, by way of nothing but it.
    interrupted(bench.run(reusing(at(RunInput::Continue, from))).await.1);
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    let calls = bench.store.calls(&Principal::local(), &thread()).await.expect("reads");
    let counts: Vec<_> = calls.iter().map(|call| (call.made, call.reused)).collect();
    assert_eq!(counts, [(1, 0), (0, 1), (0, 1), (0, 1)], "each branch has its own record");
    // Without the wish it pays.
    interrupted(bench.run(at(RunInput::Continue, from)).await.1);
    assert_eq!(paid.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_follows_a_changed_past_may_reuse_what_is_as_before() {
    let paid = Count::default();
    let graph = Graph::<Log>::new("changed")
        .with(Arc::clone(&paid))
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a"]))
        .node("pay", pay)
        .edge(START, "a")
        .edge("a", "pay")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    completed(bench.start(json!({})).await);
    let from = id(&due(&history(&bench).await, "a"));
    let change = || {
        let writes = json!({"log": ["changed"]});
        let as_node = Some("a".to_owned());
        at(RunInput::Update { writes, as_node }, from)
    };
    completed(bench.run(change()).await.1);
    let output = completed(bench.run(reusing(Bench::request(RunInput::Continue))).await.1);
    assert_eq!(output["log"], json!(["changed", "paid 1"]));
    completed(bench.run(change()).await.1);
    let output = completed(bench.run(Bench::request(RunInput::Continue)).await.1);
    assert_eq!(output["log"], json!(["changed", "paid 2"]));
}

#[tokio::test]
async fn an_update_of_the_past_starts_a_branch_and_what_follows_its_node_is_due() {
    let bench = Bench::new(graph(&Count::default())).await;
    interrupted(bench.start(json!({})).await);
    let from = id(&due(&history(&bench).await, "b"));
    let update = |as_node: Option<&str>| RunInput::Update {
        writes: json!({"log": ["changed"]}),
        as_node: as_node.map(str::to_owned),
    };
    completed(bench.run(at(update(Some("b")), from)).await.1);
    let state = bench.runtime.state(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(state.values["log"], json!(["paid 1", "changed"]));
    assert_eq!((source(&state), state.next), (Source::Update, vec!["c".to_owned()]));
    interrupted(bench.proceed().await);

    let (code, message) = failed(bench.run(at(update(Some("bb")), from)).await.1);
    assert_eq!((code.as_str(), message.contains("did you mean `b`")), ("W0115", true));
    let inferred = completed(bench.run(at(update(None), from)).await.1);
    assert_eq!(inferred["log"], json!(["paid 1", "changed"]));
    let state = bench.runtime.state(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(state.next, ["b"], "`pay` ran last before that checkpoint, and `b` follows it");
}

#[tokio::test]
async fn new_input_at_an_old_checkpoint_leaves_the_other_branch_alone() {
    let bench = Bench::new(graph(&Count::default())).await;
    interrupted(bench.start(json!({"log": ["one"]})).await);
    let before = history(&bench).await;
    let from = id(&due(&before, "pay"));
    let input = RunInput::Start { input: json!({"log": ["two"]}) };
    interrupted(bench.run(at(input, from)).await.1);
    let after = history(&bench).await;
    assert_eq!(after[0].values["log"], json!(["one", "two", "paid 2", "b"]));
    assert_eq!(after[4..], before, "checkpoints never change");
    let state_at = bench.runtime.state_at(&Principal::local(), &thread(), from).await;
    assert_eq!(state_at.expect("reads"), due(&before, "pay"));
    let missing = at(RunInput::Continue, CheckpointId(7));
    let runs = bench.store.runs(&Principal::local(), &thread()).await.expect("reads");
    let refused = bench.runtime.execute(missing).await.expect_err("no such checkpoint");
    assert_eq!(refused.fault.code, "W0126");
    let same = bench.store.runs(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(same, runs, "no run was accepted");
}

#[tokio::test]
async fn branches_have_ids_of_their_own_even_when_the_clock_went_back() {
    let store = crate::support::store();
    let ahead = Bench::on(Arc::clone(&store), graph(&Count::default())).await;
    interrupted(ahead.start(json!({})).await);
    let from = id(&due(&history(&ahead).await, "pay"));
    // Its ids start at one: long before those of the system's clock.
    let clock = Arc::new(weftwork_testkit::ManualClock::new());
    let back = Bench::with_clock(store, graph(&Count::default()), clock).await;
    for branch in 1..=2 {
        interrupted(back.run(at(RunInput::Continue, from)).await.1);
        let ids: Vec<_> = history(&back).await.iter().map(id).collect();
        assert_eq!(ids.len(), 4 + 3 * branch);
        assert!(ids.is_sorted_by(|a, b| a > b), "newest first: {ids:?}");
    }
}

#[tokio::test]
async fn a_change_of_a_thread_that_has_ended_is_in_what_comes_of_it() {
    let graph = Graph::<Log>::new("ended")
        .node("a", async |_: State<Log>| LogUpdate::new().log(["a"]))
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    completed(bench.start(json!({})).await);
    let mut expected = vec!["a".to_owned()];
    for change in ["one", "two"] {
        let update = RunInput::Update { writes: json!({"log": [change]}), as_node: None };
        let output = completed(bench.run(Bench::request(update)).await.1);
        expected.push(change.to_owned());
        assert_eq!(output["log"], json!(expected));
    }
}

on_each_store![
    a_change_of_a_thread_that_has_ended_is_in_what_comes_of_it,
    a_replay_that_may_reuse_pays_nothing_for_what_is_as_before,
    what_follows_a_changed_past_may_reuse_what_is_as_before,
    branches_have_ids_of_their_own_even_when_the_clock_went_back,
    history_says_what_each_task_did_and_what_waits,
    a_replay_runs_again_on_a_branch_that_pays_anew_and_asks_anew,
    an_update_of_the_past_starts_a_branch_and_what_follows_its_node_is_due,
    new_input_at_an_old_checkpoint_leaves_the_other_branch_alone,
];
