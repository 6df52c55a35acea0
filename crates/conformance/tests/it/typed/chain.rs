//! Nodes one after the other.

use super::{Kit, Log, LogUpdate, a, b, c, chain, counted_a, say};
use serde_json::json;
use weftwork_graph::{Cache, Ctx, END, Graph, State, Stops};

same_traces! {
    seq_basic: abc;
    durability_sync: abc;
    durability_exit: abc;
    stream_values_only: abc;
    multi_turn: abc;
    empty_input: abc;
    static_runtime_arg: abc;
    static_all: stops_everywhere;
    static_before: stops_before_b;
    none_return: writes_nothing;
    node_and_state_key_clash: node_named_like_a_channel;
    node_cache: cached;
    custom_stream: emits;
    drain: drains;
}

pub(super) fn abc(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c);
    chain(graph, &["a", "b", "c", END])
}

fn stops_everywhere(kit: &Kit) -> Graph<Log> {
    abc(kit).interrupt_before(Stops::All)
}

pub(super) fn stops_before_b(kit: &Kit) -> Graph<Log> {
    abc(kit).interrupt_before(Stops::Nodes(vec!["b".to_owned()]))
}

fn writes_nothing(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", async |_: State<Log>| {}).node("b", b), &["a", "b"])
}

fn node_named_like_a_channel(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("log", async |_: State<Log>| say("x")), &["log"])
}

fn cached(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", counted_a).cache("a", Cache::forever()), &["a"])
}

fn emits(kit: &Kit) -> Graph<Log> {
    async fn a(ctx: Ctx) -> LogUpdate {
        ctx.emit(json!({"p": 1}));
        ctx.emit(json!("two"));
        say("a")
    }
    chain(kit.graph().node("a", a), &["a"])
}

fn drains(kit: &Kit) -> Graph<Log> {
    async fn a(ctx: Ctx) -> LogUpdate {
        ctx.drain("test");
        say("a")
    }
    chain(kit.graph().node("a", a).node("b", b), &["a", "b"])
}
