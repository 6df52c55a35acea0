//! Runs whose checkpoints are let through one by one, and graphs that end in every way.

use super::gated::Gated;
use super::support::{answer, empty, graph, log};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use weftwork_graph::channel::{Append, LastValue, Topic};
use weftwork_graph::run_loop::{Checkpointer, Host, Start, StateQuery};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, Durability, DynUpdate, Finish, Graph, Input, NodeError,
    NodeResult, RunOutcome, RuntimeError, START, Stops, SubgraphState, TaskDef,
};

pub(crate) type Done = Result<RunOutcome, RuntimeError>;

/// Lets a run go on as long as it does so by itself.
pub(crate) async fn idle<F: Future>(run: &mut Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..20 {
        let polled = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
        if let Poll::Ready(ended) = polled {
            return Some(ended);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Lets each write through when nothing else can go on.
pub(crate) async fn let_through<F: Future>(gated: &Gated, mut run: Pin<&mut F>) -> F::Output {
    loop {
        if let Some(ended) = idle(&mut run).await {
            return ended;
        }
        gated.release();
    }
}

pub(crate) fn host(gated: &Arc<Gated>) -> Host {
    Host::new().with_checkpointer(Arc::clone(gated) as Arc<dyn Checkpointer>)
}

/// Returns the history of a thread without its ids.
pub(crate) async fn history(graph: &CompiledGraph, saver: &Arc<dyn Checkpointer>) -> Vec<String> {
    let host = Host::new().with_checkpointer(Arc::clone(saver));
    let history = graph.history(&host, &StateQuery::thread("t")).await.expect("reads");
    let shown = history.iter().map(|snapshot| {
        let metadata = snapshot.metadata.as_ref().map(|m| (m.source, m.step));
        let tasks = snapshot.tasks.iter().map(|task| (&task.name, &task.result, &task.error));
        let tasks: Vec<_> = tasks.collect();
        format!("{metadata:?} {} {:?} {tasks:?}", snapshot.values, snapshot.next)
    });
    shown.collect()
}

/// Graphs that end in every way, with their names.
pub(crate) fn ends() -> Vec<(&'static str, CompiledGraph)> {
    let fails = async |_: Input| Err::<DynUpdate, _>(NodeError::message("boom"));
    let asks = async |_: Input, ctx: Ctx| {
        let answer = ctx.interrupt(json!("?"))?;
        NodeResult::Ok(log(&answer.to_string()))
    };
    let drains = async |_: Input, ctx: Ctx| {
        ctx.drain("enough");
        log("drains")
    };
    let node = |graph: Graph<weftwork_graph::Dynamic>| {
        graph.node("a", super::support::note("a")).node("c", super::support::note("c"))
    };
    let built = |graph: Graph<weftwork_graph::Dynamic>| {
        graph.edge(START, "a").edge("a", "b").edge("b", "c").build().expect("sound")
    };
    let chain = || built(node(graph("g")).node("b", super::support::note("b")));
    let inner = super::support::chain(&["x", "y"]).build().expect("sound");
    vec![
        ("completed", chain()),
        ("limit", chain()),
        ("stop", chain()),
        ("failed", built(node(graph("g")).node("b", fails))),
        ("question", built(node(graph("g")).node("b", asks))),
        ("drained", built(node(graph("g")).node("b", drains))),
        ("within", built(node(graph("g")).subgraph("b", inner, SubgraphState::PerTask))),
        (
            "state of its own",
            built(node(graph("g")).subgraph("b", chain(), SubgraphState::PerThread)),
        ),
        ("flow", flow()),
        ("containers", containers()),
    ]
}

fn flow() -> CompiledGraph {
    let double = TaskDef::new("double", |Input(n): Input| {
        std::future::ready(NodeResult::Ok(Finish::value(n)))
    });
    weftwork_graph::Flow::new("flow", move |Input(n): Input, ctx: Ctx| {
        let double = double.clone();
        async move {
            let n = ctx.task(&double, n).await?;
            NodeResult::Ok(Finish::value(n))
        }
    })
    .build()
    .expect("sound")
}

/// Channels whose values are containers, changed in each superstep.
fn containers() -> CompiledGraph {
    let channels = vec![
        ChannelDef::new("log", Append::<Value>::new()),
        ChannelDef::new("s", LastValue::<Value>::new()),
        ChannelDef::new("topic", Append::<Value>::new()),
        ChannelDef::new("last", Topic::<Value>::new()),
    ];
    let writes = |name: &'static str| {
        move |_: Input| {
            let update = log(name).write("s", json!({ "by": name }));
            std::future::ready(update.write("topic", json!([name])).write("last", json!([name])))
        }
    };
    let mut graph = Graph::dynamic("containers", channels);
    for name in ["a", "b", "b2", "d"] {
        graph = graph.node(name, writes(name));
    }
    let graph =
        graph.node("c", super::support::note("c")).edge(START, "a").edge("a", "b").edge("a", "c");
    graph.edge("b", "b2").join(["b", "c", "b2"], "d").build().expect("sound")
}

/// Runs one of these graphs and returns the end of each of its runs.
pub(crate) async fn ended(
    what: &str,
    graph: &CompiledGraph,
    gated: &Arc<Gated>,
    durability: Durability,
) -> Vec<Done> {
    let host = host(gated);
    let starts = match what {
        "flow" => vec![Start::Input(json!(2))],
        "question" => vec![empty(), answer(json!(7))],
        "stop" => vec![empty(), Start::Continue],
        _ => vec![empty()],
    };
    let mut ends = Vec::new();
    for start in starts {
        let run = graph.run(&host, start).thread("t").durability(durability);
        let run = match what {
            "limit" => run.step_limit(2),
            "stop" => run.interrupt_after(Stops::at(["a"])),
            _ => run,
        };
        let done = let_through(gated, std::pin::pin!(run.outcome())).await;
        assert!(!gated.is_behind(), "{what}: it ended with a write under way");
        ends.push(match done {
            // Ids are of the run.
            Ok(RunOutcome::Interrupted { questions: interrupts, .. }) => {
                let shown = interrupts
                    .into_iter()
                    .map(|asked| serde_json::to_value(asked.ask).expect("is JSON"));
                Ok(RunOutcome::Completed { output: shown.collect() })
            }
            other => other,
        });
    }
    ends
}
