//! Failures, further attempts, time limits, handlers.

use super::{Kit, Log, LogUpdate, Tries, b, c, chain, counted_a, say};
use std::time::Duration;
use weftwork_conformance::Counts;
use weftwork_graph::{Ctx, Deps, END, Graph, List, NodeResult, Retry, START, State, Timeout};

same_traces! {
    fail_resume_seq: fails_once_in_a_chain;
    durability_exit_fail: fails_late;
    pending_writes_partial_failure: fails_before_a_join;
    fail_fast_cancels: fails_beside_a_slow_one;
    retry_ok: third_attempt;
    retry_exhausted: never;
    timeout_run: too_slow;
    timeout_idle_heartbeat: slow_but_alive;
    error_handler_parallel: handled;
    failing_handler: handler_fails;
}

const SHORT: Duration = Duration::from_millis(50);

fn fails_once_in_a_chain(kit: &Kit) -> Graph<Log> {
    async fn b(counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<LogUpdate> {
        counts.add("b");
        tries.fail("b", 1, "ValueError")?;
        Ok(say("b"))
    }
    chain(kit.graph().node("a", counted_a).node("b", b).node("c", c), &["a", "b", "c", END])
}

fn fails_late(kit: &Kit) -> Graph<Log> {
    async fn b(ctx: Ctx, tries: Deps<Tries>) -> NodeResult<LogUpdate> {
        ctx.clock().sleep(SHORT).await;
        tries.fail("b", 1, "ValueError")?;
        Ok(say("b"))
    }
    kit.graph().node("a", counted_a).node("b", b).edge(START, "a").edge(START, "b")
}

fn fails_before_a_join(kit: &Kit) -> Graph<Log> {
    async fn b(ctx: Ctx, counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<LogUpdate> {
        counts.add("b");
        ctx.clock().sleep(SHORT).await;
        tries.fail("b", 1, "ValueError")?;
        Ok(say("b"))
    }
    let graph = kit.graph().node("a", counted_a).node("b", b).node("c", c);
    graph.edge(START, "a").edge(START, "b").join(["a", "b"], "c")
}

fn fails_beside_a_slow_one(kit: &Kit) -> Graph<Log> {
    async fn slow(ctx: Ctx, counts: Deps<Counts>) -> LogUpdate {
        counts.add("a");
        ctx.clock().sleep(Duration::from_millis(300)).await;
        say("a")
    }
    async fn b(tries: Deps<Tries>) -> NodeResult<()> {
        tries.fail("b", 1, "ValueError")
    }
    kit.graph().node("a", slow).node("b", b).edge(START, "a").edge(START, "b")
}

/// Attempts right after each other, after failures of one kind.
fn retry(attempts_max: u32, kind: &'static str) -> Retry {
    let retry = Retry::new(attempts_max).backoff(Duration::from_millis(1), 2.0).without_jitter();
    retry.on(move |fault| fault.kind.as_deref() == Some(kind))
}

/// A log of numbers.
#[derive(State)]
struct Attempts {
    #[channel(reduce = |sum, n| sum + n)]
    n: i64,
    #[channel(append)]
    log: List<u32>,
    s: String,
}

fn third_attempt(kit: &Kit) -> Graph<Attempts> {
    async fn a(ctx: Ctx, counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<AttemptsUpdate> {
        counts.add("a");
        tries.fail("a", 2, "ConnectionError")?;
        Ok(AttemptsUpdate::new().log([ctx.attempt()]))
    }
    chain(kit.graph().node("a", a).retry("a", retry(3, "ConnectionError")), &["a"])
}

fn never(kit: &Kit) -> Graph<Log> {
    async fn a(counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<()> {
        counts.add("a");
        tries.fail("a", 9, "KeyError")
    }
    chain(kit.graph().node("a", a).retry("a", retry(2, "KeyError")), &["a"])
}

fn too_slow(kit: &Kit) -> Graph<Log> {
    async fn a(ctx: Ctx, counts: Deps<Counts>) {
        counts.add("a");
        ctx.clock().sleep(Duration::from_secs(1)).await;
    }
    chain(kit.graph().node("a", a).timeout("a", Timeout::run(SHORT)), &["a"])
}

fn slow_but_alive(kit: &Kit) -> Graph<Log> {
    async fn a(ctx: Ctx) -> LogUpdate {
        ctx.clock().sleep(Duration::from_millis(120)).await;
        ctx.heartbeat();
        ctx.clock().sleep(Duration::from_millis(120)).await;
        say("ok")
    }
    let limit = Timeout::idle(Duration::from_millis(200));
    chain(kit.graph().node("a", a).timeout("a", limit), &["a"])
}

fn handled(kit: &Kit) -> Graph<Log> {
    async fn fails(ctx: Ctx, tries: Deps<Tries>) -> NodeResult<()> {
        ctx.clock().sleep(SHORT).await;
        tries.fail("a", 9, "KeyError")
    }
    let graph = kit.graph().node("a", fails).node("b", b).node("c", c);
    let graph = graph.on_error("a", async |_: State<Log>| say("handled"));
    graph.edge(START, "a").edge(START, "b").edge("b", "c")
}

fn handler_fails(kit: &Kit) -> Graph<Log> {
    async fn fails(tries: Deps<Tries>) -> NodeResult<()> {
        tries.fail("a", 9, "KeyError")
    }
    async fn handler(counts: Deps<Counts>, tries: Deps<Tries>) -> NodeResult<LogUpdate> {
        counts.add("h");
        tries.fail("handler of a", 1, "RuntimeError")?;
        Ok(say("late"))
    }
    let graph = kit.graph().node("a", fails).node("b", b).on_error("a", handler);
    chain(graph, &["a", "b"])
}
