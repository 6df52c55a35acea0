//! Long texts are stored once, and read back wherever they were.

use crate::support::{Bench, completed, on_each_store, thread};
use serde_json::{Value, json};
use weftwork_graph::run_loop::{TaskResult, Written};
use weftwork_graph::{Graph, HistoryFilter, List, START, Snapshot, State};
use weftwork_types::Principal;

const SAID: &str = "something that was said, and is long enough to be worth naming by its place";
const TURNS: usize = 3;

#[derive(State)]
struct Talk {
    #[channel(append)]
    log: List<String>,
    text: Option<String>,
}

fn of(who: &str, turn: usize) -> String {
    format!("{who} {turn}: {SAID}")
}

async fn talk() -> Bench {
    let graph = Graph::<Talk>::new("talk")
        .node("answer", async |state: State<Talk>| {
            let text = of("answer", state.log().len() / 2);
            TalkUpdate::new().log([text.clone()]).text(Some(text))
        })
        .edge(START, "answer");
    let bench = Bench::new(graph.build().expect("sound")).await;
    for turn in 0..TURNS {
        completed(bench.start(json!({"log": [of("input", turn)]})).await);
    }
    bench
}

fn log(len: usize) -> Value {
    let who = |at: usize| if at.is_multiple_of(2) { "input" } else { "answer" };
    (0..len).map(|at| of(who(at), at / 2)).collect()
}

async fn history(bench: &Bench) -> Vec<Snapshot> {
    let all = HistoryFilter::default();
    bench.runtime.history(&Principal::local(), &thread(), &all).await.expect("reads")
}

on_each_store!(every_checkpoint_has_its_texts, texts_are_written_once);

#[tokio::test]
async fn every_checkpoint_has_its_texts() {
    let bench = talk().await;
    let mut history = history(&bench).await;
    history.reverse();
    assert_eq!(history.len(), TURNS * 3);
    for (at, state) in history.iter().enumerate() {
        let turn = at / 3;
        let step = at % 3;
        assert_eq!(state.values["log"], log(2 * turn + step), "checkpoint {at}");
        let Some(task) = state.tasks.first() else {
            assert_eq!(step, 2, "a task is due at checkpoint {at}");
            continue;
        };
        let Some(TaskResult::Writes(wrote)) = &task.result else {
            panic!("checkpoint {at}: {task:?}")
        };
        let text = of(if step == 0 { "input" } else { "answer" }, turn);
        let (channel, wrote) = wrote.first().expect("the log");
        assert_eq!((channel.as_str(), wrote), ("log", &Written::Put(json!([text]))), "{at}");
    }
}

#[tokio::test]
async fn texts_are_written_once() {
    let bench = talk().await;
    let count = |bytes: &[u8]| bytes.windows(SAID.len()).filter(|w| *w == SAID.as_bytes()).count();
    let rows = bench.checkpoints().await;
    let mut bodies = 0;
    let mut tasks = 0;
    for row in &rows {
        bodies += count(&row.body);
        tasks += row.tasks.iter().map(|row| count(row)).sum::<usize>();
    }
    // The answer is in two channels; the input, its change, and what became of tasks share theirs.
    assert_eq!((bodies, tasks), (3 * TURNS, 0), "in {} rows", rows.len());
}
