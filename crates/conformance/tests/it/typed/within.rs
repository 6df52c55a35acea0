//! Graphs within graphs, each with a state type of its own.

use super::{Kit, Log, LogUpdate, Tries, a, b, built, chain, counted_a, say};
use serde_json::json;
use std::time::Duration;
use weftwork_conformance::Counts;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeResult, Retry, State, SubgraphState,
};

same_traces! {
    subgraph_node: node;
    subgraph_interrupt: asks_then_b;
    subgraph_fail_resume: fails;
    subgraph_retry: retried;
    subgraph_called: called;
    subgraph_persist_inherit: accumulates_for_a_task;
    subgraph_persist_off: accumulates_not;
    subgraph_persist_interrupt: asks_with_its_own_state;
    sub_get_state: asks_between;
    sub_update_state: asks_between;
    tt3_replay_root: three_levels;
    tt3_replay_mid: three_levels;
    tt3_replay_leaf_after: three_levels;
    tt3_fork_leaf: three_levels;
}

/// The state of inner graphs: only the log.
#[derive(State)]
struct Inner {
    #[channel(append)]
    log: List<String>,
}

fn note(text: impl Into<String>) -> InnerUpdate {
    InnerUpdate::new().log([text.into()])
}

/// Says and counts its name.
async fn named(ctx: Ctx, counts: Deps<Counts>) -> InnerUpdate {
    counts.add(ctx.node());
    note(ctx.node())
}

async fn answered(ctx: &Ctx, question: &str) -> NodeResult<InnerUpdate> {
    let answer = ctx.interrupt(json!(question))?;
    Ok(note(answer.as_str().unwrap()))
}

async fn ask_sq(ctx: Ctx, counts: Deps<Counts>) -> NodeResult<InnerUpdate> {
    counts.add("s2");
    answered(&ctx, "sq").await
}

async fn ask_q2(ctx: Ctx, counts: Deps<Counts>) -> NodeResult<InnerUpdate> {
    counts.add("q2");
    answered(&ctx, "q2").await
}

#[derive(State)]
struct Keyed {
    #[channel(append)]
    log: List<String>,
    k: String,
}

fn node(kit: &Kit) -> Graph<Log> {
    fn keyed(text: &str) -> KeyedUpdate {
        KeyedUpdate::new().log([text])
    }
    let inner = kit
        .graph::<Keyed>()
        .node("s1", async |_: State<Keyed>| keyed("s1"))
        .node("s2", async |_: State<Keyed>| keyed("s2").k("sub".to_owned()));
    let inner = built(chain(inner, &["s1", "s2"]));
    chain(kit.graph().node("a", a).subgraph("p", inner, SubgraphState::PerTask), &["a", "p"])
}

/// `s1`, and `s2` that asks.
fn asking(kit: &Kit) -> CompiledGraph {
    built(chain(kit.graph::<Inner>().node("s1", named).node("s2", ask_sq), &["s1", "s2"]))
}

fn asks_then_b(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().subgraph("p", asking(kit), SubgraphState::PerTask);
    chain(graph.node("b", b), &["p", "b"])
}

fn fails(kit: &Kit) -> Graph<Log> {
    async fn s2(tries: Deps<Tries>) -> NodeResult<InnerUpdate> {
        tries.fail("s2", 1, "ValueError")?;
        Ok(note("s2"))
    }
    let inner = built(chain(kit.graph::<Inner>().node("s1", named).node("s2", s2), &["s1", "s2"]));
    chain(kit.graph().subgraph("p", inner, SubgraphState::PerTask), &["p"])
}

fn retried(kit: &Kit) -> Graph<Log> {
    async fn s2(counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<InnerUpdate> {
        counts.add("s2");
        tries.fail("s2", 1, "ConnectionError")?;
        Ok(note("s2"))
    }
    let inner = built(chain(kit.graph::<Inner>().node("s1", named).node("s2", s2), &["s1", "s2"]));
    let retry = Retry::new(2).backoff(Duration::from_millis(1), 2.0).without_jitter();
    let retry = retry.on(|fault| fault.kind.as_deref() == Some("ConnectionError"));
    chain(kit.graph().subgraph("p", inner, SubgraphState::PerTask).retry("p", retry), &["p"])
}

fn called(kit: &Kit) -> Graph<Log> {
    async fn p(
        ctx: Ctx,
        counts: Deps<Counts>,
        inner: Deps<CompiledGraph>,
    ) -> NodeResult<LogUpdate> {
        counts.add("p");
        let output = ctx.call(&inner, SubgraphState::PerTask, json!({"log": []})).await?;
        let log: List<String> = serde_json::from_value(output["log"].clone()).unwrap();
        Ok(LogUpdate::new().log(log.iter().cloned()))
    }
    chain(kit.graph().with(asking(kit)).node("p", p), &["p"])
}

#[derive(State)]
struct Numbers {
    #[channel(append)]
    log: List<i64>,
}

#[derive(State)]
struct Count {
    #[channel(reduce = |sum, n| sum + n)]
    c: i64,
    #[channel(append)]
    log: List<i64>,
}

fn accumulates(kit: &Kit, keep: SubgraphState) -> Graph<Numbers> {
    async fn s(state: State<Count>) -> CountUpdate {
        CountUpdate::new().c(1).log([*state.c()])
    }
    let inner = built(chain(kit.graph::<Count>().node("s", s), &["s"]));
    chain(kit.graph().subgraph("p", inner, keep), &["p"])
}

fn accumulates_for_a_task(kit: &Kit) -> Graph<Numbers> {
    accumulates(kit, SubgraphState::PerTask)
}

fn accumulates_not(kit: &Kit) -> Graph<Numbers> {
    accumulates(kit, SubgraphState::Stateless)
}

/// `s1`, `s2` that asks, and `s3`.
fn asking_between(kit: &Kit) -> CompiledGraph {
    let graph = kit.graph::<Inner>().node("s1", named).node("s2", ask_q2).node("s3", named);
    built(chain(graph, &["s1", "s2", "s3"]))
}

fn asks_with_its_own_state(kit: &Kit) -> Graph<Inner> {
    chain(kit.graph().subgraph("p", asking_between(kit), SubgraphState::PerThread), &["p"])
}

fn asks_between(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).subgraph("p", asking_between(kit), SubgraphState::PerTask);
    chain(graph.node("z", async |_: State<Log>| say("z")), &["a", "p", "z"])
}

fn three_levels(kit: &Kit) -> Graph<Log> {
    async fn z(counts: Deps<Counts>) -> LogUpdate {
        counts.add("z");
        say("z")
    }
    let middle = kit
        .graph::<Inner>()
        .node("m1", named)
        .subgraph("q", asking_between(kit), SubgraphState::PerTask)
        .node("m2", named);
    let middle = built(chain(middle, &["m1", "q", "m2"]));
    let graph = kit.graph().node("a", counted_a).subgraph("p", middle, SubgraphState::PerTask);
    chain(graph.node("z", z), &["a", "p", "z"])
}
