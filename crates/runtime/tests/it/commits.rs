//! The number of commits that runs take, by kind.

use crate::faulty::{Faulty, Moment, name};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Durability, Graph, List, Next, NodeResult, Routes, RunOutcome, START,
    SendTo, State,
};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_types::canonical::hash;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Attempts, CallKind, CallResult, Intent, Opened};
use weftwork_types::tool::Effect;

#[derive(State)]
struct Work {
    #[channel(append)]
    log: List<u64>,
}

fn chain() -> CompiledGraph {
    let step = async |state: State<Work>| WorkUpdate::new().log([state.log().len() as u64]);
    let mut graph = Graph::<Work>::new("chain").edge(START, "n0");
    for n in 0..10 {
        graph = graph.node(format!("n{n}"), step);
        if n > 0 {
            graph = graph.edge(format!("n{}", n - 1), format!("n{n}"));
        }
    }
    graph.build().expect("sound")
}

fn fan() -> CompiledGraph {
    Graph::<Work>::new("fan")
        .node("start", async |_: State<Work>| WorkUpdate::new())
        .node("work", async |Arg(n): Arg<u64>| WorkUpdate::new().log([n]))
        .node("join", async |state: State<Work>| WorkUpdate::new().log([state.log().len() as u64]))
        .edge(START, "start")
        .route_to("start", ["work"], |_: State<Work>| {
            (0..100u64).map(|n| Next::from(SendTo::to("work", n))).collect::<Vec<_>>()
        })
        .edge("work", "join")
        .build()
        .expect("sound")
}

/// Makes a call unless it is on record.
async fn call(ctx: &Ctx, kind: CallKind, effect: Effect, nth: usize) -> NodeResult<()> {
    let name = "call".to_owned();
    let input = hash(&json!(nth));
    let attempts = Attempts::Each;
    let call_id = (kind == CallKind::Tool).then(|| format!("call-{nth}"));
    let intent = Intent { kind, name, input, call_id, effect, attempts };
    let journal = &ctx.calls().journal;
    if let Opened::New { key } = journal.open(intent).await? {
        journal.settle(key, CallResult { value: json!("answer") }).await?;
    }
    Ok(())
}

#[derive(Routes)]
enum Turn {
    Tool,
    End,
}

/// An agent that calls a tool three times, then answers.
fn agent(effect: Effect) -> CompiledGraph {
    let model = async |state: State<Work>, ctx: Ctx| {
        call(&ctx, CallKind::Model, Effect::ReadOnly, state.log().len()).await?;
        NodeResult::Ok(WorkUpdate::new().log([1u64]))
    };
    let tool = move |state: State<Work>, ctx: Ctx| async move {
        call(&ctx, CallKind::Tool, effect, state.log().len()).await?;
        NodeResult::Ok(WorkUpdate::new().log([2u64]))
    };
    Graph::<Work>::new("agent")
        .node("model", model)
        .node("tool", tool)
        .edge(START, "model")
        .route(
            "model",
            |state: State<Work>| {
                if state.log().len() > 6 { Turn::End } else { Turn::Tool }
            },
        )
        .edge("tool", "model")
        .build()
        .expect("sound")
}

/// Runs a graph once, and returns its commits by kind.
async fn commits(graph: CompiledGraph, durability: Durability) -> String {
    let counts: Arc<Mutex<BTreeMap<&'static str, u32>>> = Arc::default();
    let counted = Arc::clone(&counts);
    let store = Faulty::new(Arc::new(MemoryStore::new()));
    store.interfere(move |point, moment, commit| {
        if moment == Moment::Before && commit.is_some() {
            *counted.lock().expect("not poisoned").entry(name(point, commit)).or_default() += 1;
        }
        Ok(Duration::ZERO)
    });
    let runtime = Runtime::builder(store as Arc<dyn Store>).graph("test:graph", graph);
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("test:graph", "t").expect("hosted");
    let ended = thread.start(json!({})).durability(durability).await.expect("runs");
    assert!(matches!(ended.outcome(), RunOutcome::Completed { .. }), "{:?}", ended.outcome());
    let counts = counts.lock().expect("not poisoned");
    let told: Vec<_> = counts.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    told.join(", ")
}

#[tokio::test]
async fn runs_take_as_many_commits_as_listed() {
    let mut told = String::new();
    for (name, graph) in [
        ("a chain of ten", chain as fn() -> CompiledGraph),
        ("a fan-out of a hundred", fan),
        ("an agent with three tool calls that read", || agent(Effect::ReadOnly)),
        ("an agent with three tool calls with effects", || agent(Effect::ExternalSideEffect)),
    ] {
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let made = commits(graph(), durability).await;
            told.push_str(&format!("{name}, {durability:?}\n    {made}\n"));
        }
    }
    insta::assert_snapshot!(told);
}

/// Bytes of each message's text.
const TEXT: usize = 215;

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

async fn answer(state: State<Talk>, ctx: Ctx) -> NodeResult<TalkUpdate> {
    call(&ctx, CallKind::Model, Effect::ReadOnly, state.messages().len()).await?;
    let text = "y".repeat(TEXT);
    Ok(TalkUpdate::new().messages([Message::text(ctx.message_id(), Role::Assistant, text)]))
}

/// A conversation in a file: 1,000 turns of two messages of 215 bytes take at most 4 MB. The fast
/// tier has 100 of them.
#[tokio::test]
async fn a_turn_of_a_conversation_takes_at_most_four_kilobytes_of_the_file() {
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let turns = if full { 1_000 } else { 100 };
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("weft.db");
    let store = Arc::new(SqliteStore::open(&file, &Options::default()).expect("opens"));
    let graph = Graph::<Talk>::new("talk").node("answer", answer).edge(START, "answer");
    let runtime = Runtime::builder(Arc::clone(&store) as _);
    let runtime = runtime.graph("test:graph", graph.build().expect("sound")).open().await;
    let runtime = runtime.expect("opens");
    store.compact().expect("nobody reads");
    let bytes = || std::fs::metadata(&file).expect("a file").len();
    let empty = bytes();
    let thread = runtime.thread("test:graph", "t").expect("hosted");
    for turn in 0..turns {
        let text = json!([{"type": "text", "text": "x".repeat(TEXT)}]);
        let said = json!({"id": format!("u{turn}"), "role": "user", "parts": text});
        let ended = thread.start(json!({"messages": [said]})).await.expect("runs");
        assert!(matches!(ended.outcome(), RunOutcome::Completed { .. }));
    }
    store.compact().expect("nobody reads");
    let messages = thread.state().await.expect("reads").values["messages"].clone();
    assert_eq!(messages.as_array().map(Vec::len), Some(2 * turns as usize), "{messages:.80}");
    let limit = if full { 4_000_000 } else { empty + 4_000 * turns };
    println!("{turns} turns: {} bytes of {limit}, {empty} at first", bytes());
    assert!(bytes() <= limit, "{} of {limit}, {empty} at first", bytes());
}
