//! Threads that stopped at a question after few and after many supersteps: what it takes to look for
//! the calls of the superstep that is open.

use crate::{cpu_ns, median};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::channel::LastValue;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, Input, Next, NodeResult, START,
    State,
};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::port::{
    Attempts, CallKey, CallKind, CallResult, GraphExecutor, Intent, Opened,
};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, ThreadId};

/// Supersteps before the question, each with a call.
const STEPS: [u32; 4] = [10, 100, 1_000, 10_000];
/// Calls of the node that asks: made before the question, and looked for when it is answered.
const CALLS: u64 = 20;
/// Rounds that count; one before them warms up.
const ROUNDS: usize = 5;
/// Limit of an answer's cost, as a multiple of the cost with ten supersteps.
const LIMIT: f64 = 2.0;

const GRAPH: &str = "bench:resumed";

/// Makes a call that reads, unless its answer is on record.
async fn call(ctx: &Ctx, input: u64) -> NodeResult<()> {
    let intent = Intent {
        kind: CallKind::Tool,
        name: "bench".to_owned(),
        input: hash(&json!(input)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        let value = json!({"text": format!("{input:0200}")});
        ctx.calls().journal.settle(key, CallResult { value }).await?;
    }
    Ok(())
}

async fn work(Input(state): Input, ctx: Ctx) -> NodeResult<DynUpdate> {
    let n = state["n"].as_u64().unwrap_or_default() + 1;
    call(&ctx, n).await?;
    Ok(DynUpdate::new().write("n", json!(n)))
}

async fn ask(_: Input, ctx: Ctx) -> NodeResult<DynUpdate> {
    for n in 0..CALLS {
        call(&ctx, n).await?;
    }
    // There is always one more question, so that the superstep stays open.
    for n in 0.. {
        ctx.interrupt(json!(n))?;
    }
    Ok(DynUpdate::new())
}

fn graph() -> CompiledGraph {
    let number = |state: &State<Dynamic>, key| state.get(key).and_then(|value| value.as_u64());
    let channels = ["n", "until"].map(|name| ChannelDef::new(name, LastValue::<u64>::new()));
    Graph::dynamic("resumed", channels.into())
        .node("work", work)
        .node("ask", ask)
        .edge(START, "work")
        .route_to("work", ["work", "ask"], move |state: State<Dynamic>| {
            let goes_on = number(&state, "n") < number(&state, "until");
            if goes_on { Next::node("work") } else { Next::node("ask") }
        })
        .build()
        .expect("sound")
}

/// A run of a thread to its question; says how many CPU microseconds it took.
async fn run(runtime: &Runtime, thread: &ThreadId, input: RunInput) -> f64 {
    let request = RunRequest {
        principal: Principal::local(),
        caller: Caller::local("bench").expect("valid id"),
        graph: GRAPH.to_owned(),
        thread: thread.clone(),
        input,
        options: RunOptions { step_limit: Some(20_000), ..RunOptions::default() },
    };
    let cpu = cpu_ns();
    let handle = runtime.execute(request).await.expect("accepted");
    drop(handle.events);
    let outcome = handle.outcome.await;
    assert!(matches!(outcome, RunOutcome::Interrupted { .. }), "{outcome:?}");
    (cpu_ns() - cpu) / 1e3
}

/// Answers the open question.
async fn answer(runtime: &Runtime, thread: &ThreadId) -> f64 {
    let rows = runtime.store().interrupts(&Principal::local(), thread).await.expect("reads");
    let open = rows.iter().find(|row| row.answer.is_none() && !row.closed).expect("a question");
    let answers = std::collections::BTreeMap::from([(open.interrupt.id, json!("yes"))]);
    run(runtime, thread, RunInput::answers(answers)).await
}

/// Looks for a call through all of a thread, as often as an answer looks for one.
async fn through_all(runtime: &Runtime, thread: &ThreadId) -> f64 {
    let cpu = cpu_ns();
    for _ in 0..CALLS {
        let key = CallKey(Hash([0; 32]));
        let found = runtime.store().call(&Principal::local(), thread, key).await;
        assert_eq!(found, Ok(None));
    }
    (cpu_ns() - cpu) / 1e3
}

/// Answers questions of threads of each length, in turns.
pub(crate) async fn measure(rows: &mut Vec<Value>) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
    let runtime = Runtime::builder(Arc::new(store)).graph(GRAPH, graph());
    let runtime = runtime.open().await.expect("opens");
    let threads = STEPS.map(|steps| ThreadId::new(format!("t{steps}")).expect("valid id"));
    for (steps, thread) in STEPS.into_iter().zip(&threads) {
        let input = json!({"n": 0, "until": steps});
        run(&runtime, thread, RunInput::Start { input }).await;
    }
    let mut found = vec![(Vec::new(), Vec::new()); threads.len()];
    for round in 0..=ROUNDS {
        for (thread, (answers, looks)) in threads.iter().zip(&mut found) {
            let cost = (answer(&runtime, thread).await, through_all(&runtime, thread).await);
            if round > 0 {
                answers.push(cost.0);
                looks.push(cost.1);
            }
        }
    }
    let found: Vec<_> = found.into_iter().map(|(a, l)| (median(a), median(l))).collect();
    for (steps, (cpu_us, all_us)) in STEPS.into_iter().zip(&found) {
        let ratio = cpu_us / found[0].0;
        println!(
            "resumed: {steps} supersteps: {cpu_us:.0} us an answer that looks for {CALLS} calls, {ratio:.2} of {} (limit {LIMIT}); through all of the thread: {all_us:.0} us",
            STEPS[0]
        );
        rows.push(json!({
            "case": "resumed", "saver": "sqlite", "engine": "weftwork", "steps": steps,
            "calls": CALLS, "cpu_us": cpu_us, "through_all_us": all_us, "ratio": ratio,
            "limit": LIMIT,
        }));
    }
}
