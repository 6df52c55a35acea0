//! Threads of the same state with few and with many checkpoints: what it takes to look at one.

use super::filed::Filed;
use crate::{cpu_ns, median};
use serde_json::{Value, json};
use weftwork_graph::channel::{Append, LastValue, Messages};
use weftwork_graph::run_loop::{Host, Start, StateQuery};
use weftwork_graph::{
    ChannelDef, CompiledGraph, DynUpdate, Dynamic, Graph, HistoryFilter, Input, Next, START, State,
};
use weftwork_sqlite::Durability;
use weftwork_types::CheckpointId;

/// Checkpoints of the threads.
const CHECKPOINTS: [u32; 4] = [10, 100, 1_000, 10_000];
/// Bytes of each text.
const TEXT: usize = 1_000;
/// Items of each list.
const ITEMS: u64 = 10;
/// Checkpoints of a page.
const PAGE: usize = 10;
/// Rounds that count; one before them warms up.
const ROUNDS: usize = 9;
/// Looks at each thread in a round.
const LOOKS: u32 = 20;
/// Limit of a look's cost, as a multiple of the cost with ten checkpoints.
const LIMIT: f64 = 2.0;

/// A counter, a text that stays and one that is replaced, a list that is replaced, and a
/// conversation in which one message is.
fn channels() -> Vec<ChannelDef> {
    vec![
        ChannelDef::new("n", LastValue::<u64>::new()),
        ChannelDef::new("until", LastValue::<u64>::new()),
        ChannelDef::new("still", LastValue::<String>::new()),
        ChannelDef::new("text", LastValue::<String>::new()),
        ChannelDef::new("list", Append::<Value>::new()),
        ChannelDef::new("talk", Messages),
    ]
}

fn message(index: u64, n: u64) -> Value {
    json!({
        "id": format!("m{index}"), "role": "user",
        "parts": [{"type": "text", "text": format!("{n:0100}")}],
    })
}

async fn turn(input: Input) -> DynUpdate {
    let n = input.0["n"].as_u64().unwrap_or_default() + 1;
    let list: Vec<_> = (0..ITEMS).map(|i| json!(format!("{:020}", n + i))).collect();
    DynUpdate::new()
        .write("n", json!(n))
        .write("text", json!(format!("{n:0TEXT$}")))
        .overwrite("list", json!(list))
        .write("talk", json!([message(n % ITEMS, n)]))
}

fn graph() -> CompiledGraph {
    let number = |state: &State<Dynamic>, key| state.get(key).and_then(|value| value.as_u64());
    Graph::dynamic("history", channels())
        .node("turn", turn)
        .edge(START, "turn")
        .route_to("turn", ["turn"], move |state: State<Dynamic>| {
            let goes_on = number(&state, "n") < number(&state, "until");
            if goes_on { Next::node("turn") } else { Next::End }
        })
        .build()
        .expect("sound")
}

/// A thread, and the checkpoint in the middle of it.
struct Long {
    at: StateQuery,
    middle: CheckpointId,
}

/// Creates a run with this many checkpoints, two of them for its input.
async fn long(graph: &CompiledGraph, host: &Host, checkpoints: u32) -> Long {
    let input = json!({
        "until": checkpoints - 2, "still": "s".repeat(TEXT),
        "talk": (0..ITEMS).map(|index| message(index, 0)).collect::<Vec<_>>(),
    });
    let thread = format!("t{checkpoints}");
    let run = graph.run(host, Start::Input(input)).thread(thread.as_str());
    let ended = run.step_limit(checkpoints + 1).finish().await.expect("it runs");
    assert!(ended.is_completed(), "it ran to its end");
    let at = StateQuery::thread(thread);
    let all = graph.history(host, &at).await.expect("it is kept");
    assert_eq!(all.len(), checkpoints as usize);
    let middle = all[(all.len() - 1) / 2].checkpoint();
    Long { at, middle: middle.expect("it has one") }
}

/// Looks at a thread; says how many milliseconds each took.
async fn look(graph: &CompiledGraph, host: &Host, long: &Long, what: &str) -> f64 {
    let before = (what == "page-middle").then_some(long.middle);
    let page = HistoryFilter { before, limit: PAGE, ..HistoryFilter::default() };
    let cpu = cpu_ns();
    for _ in 0..LOOKS {
        if what == "state" {
            let found = graph.state(host, &long.at, false).await.expect("reads");
            assert!(found.next.is_empty(), "it has ended");
        } else {
            let found = graph.history_of(host, &long.at, &page).await.expect("reads");
            // There are only five before the middle of ten.
            assert!(found.len() >= PAGE / 2, "a page");
        }
    }
    (cpu_ns() - cpu) / f64::from(LOOKS) / 1e6
}

/// Looks at threads of each length, in turns, with both savers.
pub(crate) async fn measure(rows: &mut Vec<Value>) {
    let graph = graph();
    let filed = Filed::open(Durability::Normal);
    for (saver, host) in [("memory", &super::kept().0), ("sqlite", &filed.host)] {
        let mut threads = Vec::new();
        for checkpoints in CHECKPOINTS {
            threads.push(long(&graph, host, checkpoints).await);
        }
        for what in ["state", "page", "page-middle"] {
            let mut found = vec![Vec::new(); threads.len()];
            for round in 0..=ROUNDS {
                for (thread, found) in threads.iter().zip(&mut found) {
                    let cost = look(&graph, host, thread, what).await;
                    if round > 0 {
                        found.push(cost);
                    }
                }
            }
            print_costs(saver, what, found.into_iter().map(median).collect(), rows);
        }
    }
}

fn print_costs(saver: &str, what: &str, found: Vec<f64>, rows: &mut Vec<Value>) {
    // Half a page, where there are but ten: the next shortest thread has a whole one.
    let from = usize::from(what == "page-middle");
    for (checkpoints, cpu_ms) in CHECKPOINTS.into_iter().zip(&found).skip(from) {
        let ratio = cpu_ms / found[from];
        println!(
            "history: {saver}, {checkpoints} checkpoints, {what}: {cpu_ms:.4} ms, {ratio:.2} of {} (limit {LIMIT})",
            CHECKPOINTS[from]
        );
        rows.push(json!({
            "case": "history", "saver": saver, "engine": "weftwork", "look": what,
            "checkpoints": checkpoints, "cpu_ms": cpu_ms, "ratio": ratio, "limit": LIMIT,
        }));
    }
}
