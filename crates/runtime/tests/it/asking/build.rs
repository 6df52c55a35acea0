//! The drawn graphs as graphs that run, and a witness of the answers that their nodes get.

use super::spec::{Act, ActKind, Code, Shape, both};
use futures_util::FutureExt;
use futures_util::future::{join_all, pending};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use weftwork_graph::channel::Append;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Finish, Graph, NodeError, NodeResult,
    START, Semantics, SubgraphState, TaskDef,
};
use weftwork_types::BoxFuture;

/// An answer, made of the text of its question and a number that no other answer has.
pub(super) fn answer(question: &str, number: u64) -> Value {
    json!(format!("answer to {question}#{number}"))
}

fn number_of(question: &str, answer: &Value) -> Option<u64> {
    let rest = answer.as_str()?.strip_prefix(&format!("answer to {question}#"))?;
    rest.parse().ok()
}

/// Sees what the nodes do.
#[derive(Debug)]
pub(super) struct Witness {
    seen: Mutex<Seen>,
    dead: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Answers that reached another question than their own.
    misled: Vec<String>,
    /// Numbers of the answers that questions must get.
    expected: BTreeMap<String, u64>,
    /// Questions that may take any answer of their own.
    unsure: BTreeSet<String>,
    /// Failures so far of actions that fail first.
    failures: BTreeMap<String, u32>,
    /// Actions so far.
    acts: u64,
    /// The process dies at this action.
    dies_at: Option<u64>,
}

impl Witness {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { seen: Mutex::default(), dead: watch::Sender::new(false) })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the question takes the answer of this number and no other.
    pub(super) fn expect(&self, question: &str, number: u64) {
        let mut seen = self.seen();
        if !seen.unsure.contains(question) {
            seen.expected.insert(question.to_owned(), number);
        }
    }

    /// The question may take any answer that is its own: a process died with one of them.
    pub(super) fn expect_any(&self, question: &str) {
        let mut seen = self.seen();
        seen.expected.remove(question);
        seen.unsure.insert(question.to_owned());
    }

    /// A part of the thread begins in which questions may have other answers than before.
    pub(super) fn expect_nothing(&self) {
        self.seen().expected.clear();
    }

    /// Number of actions so far.
    pub(super) fn acts(&self) -> u64 {
        self.seen().acts
    }

    /// Answers that reached another question than their own.
    pub(super) fn misled(&self) -> Vec<String> {
        self.seen().misled.clone()
    }

    /// The process dies after so many actions; `None`: it lives on.
    pub(super) fn dies_after(&self, acts: Option<u64>) {
        let mut seen = self.seen();
        seen.dies_at = acts.map(|acts| seen.acts + acts);
        self.dead.send_replace(false);
    }

    /// Waits for the death of the process.
    pub(super) async fn death(&self) {
        // Fails only without a sender, and this is one.
        self.dead.subscribe().wait_for(|dead| *dead).await.map(drop).unwrap_or_default();
    }

    async fn act(&self) {
        let dies = {
            let mut seen = self.seen();
            seen.acts += 1;
            seen.dies_at == Some(seen.acts)
        };
        if dies {
            self.dead.send_replace(true);
        }
        if *self.dead.borrow() {
            pending::<()>().await;
        }
    }

    fn fails(&self, act: &str, times: u32) -> bool {
        let mut seen = self.seen();
        let failures = seen.failures.entry(act.to_owned()).or_default();
        *failures += 1;
        *failures <= times
    }

    fn took(&self, question: &str, answer: &Value) {
        let mut seen = self.seen();
        let number = number_of(question, answer);
        let expected = seen.expected.get(question).copied();
        let other = expected.is_some_and(|expected| number != Some(expected));
        if number.is_none() || other {
            let what = format!("`{question}` got {answer}, expected number {expected:?}");
            seen.misled.push(what);
        }
    }
}

/// Environment of the nodes.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) semantics: Semantics,
    pub(super) witness: Arc<Witness>,
}

/// The graph.
pub(super) fn graph(shape: &Shape, scene: &Scene) -> CompiledGraph {
    let log = ChannelDef::new("log", Append::<Value>::new());
    let note = ChannelDef::new("note", Append::<Value>::new());
    let mut graph = Graph::<Dynamic>::dynamic(shape.name.as_str(), vec![log, note]);
    graph = graph.semantics(scene.semantics).output(["log"]);
    for node in shape.side_by_side.iter().chain(&shape.last) {
        graph = match &node.code {
            Code::Acts(acts) => {
                let acts = runnable(acts, scene);
                graph.node(node.name.as_str(), move |ctx: Ctx| node_of(Arc::clone(&acts), ctx))
            }
            Code::Subgraph(inner) => {
                let inner = self::graph(inner, scene);
                graph.subgraph(node.name.as_str(), inner, SubgraphState::PerTask)
            }
        };
        if matches!(node.code, Code::Subgraph(_)) {
            graph = graph.reads(&node.name, ["note"]);
        }
    }
    for node in &shape.side_by_side {
        graph = graph.edge(START, &node.name);
    }
    if let (Some(first), Some(last)) = (shape.side_by_side.first(), &shape.last) {
        graph = graph.edge(&first.name, &last.name);
    }
    graph.build().expect("drawn graphs are sound")
}

/// An act with the graphs and tasks that it calls.
struct Runnable {
    name: String,
    does: Does,
    witness: Arc<Witness>,
}

enum Does {
    Ask,
    AskTwo,
    Fail(u32),
    Call(CompiledGraph),
    Tasks(Vec<TaskDef>),
}

type Acts = Arc<Vec<Runnable>>;

fn runnable(acts: &[Act], scene: &Scene) -> Acts {
    let task = |name: String, acts: &[Act]| {
        let acts = runnable(acts, scene);
        TaskDef::new(name, move |ctx: Ctx| task_of(Arc::clone(&acts), ctx))
    };
    let made = acts.iter().map(|act| {
        let does = match &act.kind {
            ActKind::Ask => Does::Ask,
            ActKind::AskTwo => Does::AskTwo,
            ActKind::Fail(times) => Does::Fail(*times),
            ActKind::Call(inner) => Does::Call(graph(inner, scene)),
            ActKind::Task(acts) => Does::Tasks(vec![task(format!("{}t", act.name), acts)]),
            ActKind::Beside(all) => {
                let tasks = all.iter().zip(0..);
                let tasks = tasks.map(|(acts, nth)| task(format!("{}t{nth}", act.name), acts));
                Does::Tasks(tasks.collect())
            }
        };
        Runnable { name: act.name.clone(), does, witness: Arc::clone(&scene.witness) }
    });
    Arc::new(made.collect())
}

fn node_of(acts: Acts, ctx: Ctx) -> BoxFuture<'static, NodeResult<DynUpdate>> {
    async move { Ok(DynUpdate::new().write("log", json!(all(&acts, &ctx).await?))) }.boxed()
}

fn task_of(acts: Acts, ctx: Ctx) -> BoxFuture<'static, NodeResult<Finish>> {
    async move { Ok(Finish::value(json!(all(&acts, &ctx).await?))) }.boxed()
}

/// Performs the acts, and returns the questions that were answered.
async fn all(acts: &[Runnable], ctx: &Ctx) -> NodeResult<Vec<Value>> {
    let mut log = Vec::new();
    for act in acts {
        act.witness.act().await;
        match &act.does {
            Does::Ask => {
                let answer = ctx.interrupt(json!(act.name))?;
                act.witness.took(&act.name, &answer);
                log.push(json!(act.name));
            }
            Does::AskTwo => {
                let asked = both(&act.name).map(|text| (ctx.interrupt(json!(text)), text));
                for (answer, text) in asked {
                    act.witness.took(&text, &answer?);
                    log.push(json!(text));
                }
            }
            Does::Fail(times) if act.witness.fails(&act.name, *times) => {
                return Err(NodeError::message(format!("`{}` fails", act.name)));
            }
            Does::Fail(_) => {}
            Does::Call(graph) => {
                let input = json!({"log": []});
                let output = ctx.call(graph, SubgraphState::PerTask, input).await?;
                log.extend(items(&output["log"]));
            }
            Does::Tasks(tasks) => {
                let calls = tasks.iter().map(|task| ctx.task(task, Value::Null));
                for returned in join_all(calls).await {
                    log.extend(items(&returned?));
                }
            }
        }
    }
    Ok(log)
}

fn items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}
