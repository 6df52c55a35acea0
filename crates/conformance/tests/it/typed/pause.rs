//! Questions and answers.

use super::{Kit, Log, LogUpdate, b, chain, counted_a, counted_c, say};
use serde_json::{Value as Json, json};
use std::time::Duration;
use weftwork_conformance::Counts;
use weftwork_graph::{Ctx, Deps, Graph, NodeResult, Routes, START, State};

same_traces! {
    dyn_interrupt: asks_then_b;
    dyn_interrupt_none: asks;
    interrupt_no_checkpointer: asks;
    interrupt_loop: asks_until_enough;
    resume_at_old_checkpoint: asks_second;
    parallel_interrupts_by_id: two_ask;
    interrupt_plus_failure: one_asks_one_fails;
}

fn text(answer: &Json) -> String {
    answer.as_str().unwrap().to_owned()
}

async fn ask(counts: Deps<Counts>, ctx: Ctx) -> NodeResult<LogUpdate> {
    counts.add("ask");
    let answer = ctx.interrupt(json!("q?"))?;
    counts.add("after");
    Ok(say(text(&answer)))
}

fn asks(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", ask), &["a"])
}

fn asks_then_b(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", ask).node("b", b), &["a", "b"])
}

fn asks_second(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", counted_a).node("b", ask), &["a", "b"])
}

#[derive(Routes)]
enum Again {
    A,
    End,
}

fn asks_until_enough(kit: &Kit) -> Graph<Log> {
    async fn a(state: State<Log>, ctx: Ctx) -> NodeResult<LogUpdate> {
        let answer = ctx.interrupt(json!(state.n()))?;
        Ok(LogUpdate::new().n(answer.as_i64().unwrap()))
    }
    let graph = chain(kit.graph().node("a", a), &["a"]);
    graph.route("a", |state: State<Log>| if *state.n() < 10 { Again::A } else { Again::End })
}

async fn counted_ask(ctx: Ctx, counts: Deps<Counts>) -> NodeResult<LogUpdate> {
    let node = ctx.node();
    counts.add(node);
    let answer = ctx.interrupt(json!(format!("q{node}")))?;
    Ok(say(text(&answer)))
}

fn two_ask(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", counted_ask).node("b", counted_ask).node("c", counted_c);
    graph.edge(START, "a").edge(START, "b").edge(START, "c")
}

fn one_asks_one_fails(kit: &Kit) -> Graph<Log> {
    async fn a(ctx: Ctx) -> NodeResult<LogUpdate> {
        Ok(say(text(&ctx.interrupt(json!("q"))?)))
    }
    async fn b(ctx: Ctx, tries: Deps<super::Tries>) -> NodeResult<LogUpdate> {
        ctx.clock().sleep(Duration::from_millis(50)).await;
        tries.fail("b", 1, "ValueError")?;
        Ok(say("b"))
    }
    kit.graph().node("a", a).node("b", b).edge(START, "a").edge(START, "b")
}
