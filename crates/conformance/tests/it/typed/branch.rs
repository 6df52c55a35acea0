//! Routes, cycles, nodes side by side, joins, and what channels do.

use super::{Kit, Log, LogUpdate, a, b, c, chain, say};
use weftwork_graph::{Command, END, Graph, List, Routes, START, State};

same_traces! {
    cond_edge: routes_by_length;
    cond_end: routes_to_the_end;
    cond_map: routes_by_number;
    loop_until: loops;
    recursion_limit: loops_for_ever;
    command_goto: goes_to_c;
    fan_out_in: diamond;
    join_uneven: uneven_join;
    defer_node: deferred;
    last_value_conflict: conflict;
    ephemeral_key: ephemeral;
    untracked_key: untracked;
}

#[derive(Routes)]
enum Either {
    B,
    C,
}

fn routes_by_length(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c).edge(START, "a");
    graph
        .edge("b", END)
        .edge("c", END)
        .route("a", |state: State<Log>| if state.log().is_empty() { Either::B } else { Either::C })
}

fn routes_by_number(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c).edge(START, "a");
    graph.route("a", |state: State<Log>| if *state.n() == 1 { Either::B } else { Either::C })
}

#[derive(Routes)]
enum Over {
    End,
}

fn routes_to_the_end(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c).edge(START, "a");
    graph.route("a", |_: State<Log>| Over::End)
}

/// A log of numbers.
#[derive(State)]
struct Numbers {
    #[channel(reduce = |sum, n| sum + n)]
    n: i64,
    #[channel(append)]
    log: List<i64>,
    s: String,
}

#[derive(Routes)]
enum Again {
    A,
    End,
}

fn loops(kit: &Kit) -> Graph<Numbers> {
    async fn a(state: State<Numbers>) -> NumbersUpdate {
        NumbersUpdate::new().n(1).log([*state.n()])
    }
    let graph = chain(kit.graph().node("a", a), &["a"]);
    graph.route("a", |state: State<Numbers>| if *state.n() < 5 { Again::A } else { Again::End })
}

fn loops_for_ever(kit: &Kit) -> Graph<Log> {
    chain(kit.graph().node("a", async |_: State<Log>| LogUpdate::new().n(1)), &["a", "a"])
}

fn goes_to_c(kit: &Kit) -> Graph<Log> {
    async fn a(_: State<Log>) -> Command<Log> {
        Command::update(say("a")).goto("c")
    }
    chain(kit.graph().node("a", a).node("b", b).node("c", c), &["a", "b"])
}

fn d(graph: Graph<Log>) -> Graph<Log> {
    graph.node("d", async |_: State<Log>| say("d"))
}

fn diamond(kit: &Kit) -> Graph<Log> {
    let graph = d(kit.graph().node("a", a).node("b", b).node("c", c));
    graph.edge(START, "a").edge("a", "b").edge("a", "c").join(["b", "c"], "d").edge("d", END)
}

/// Two branches after `a`: `b` and `b2`, and `c`.
fn uneven(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c);
    let graph = d(graph.node("b2", async |_: State<Log>| say("b2")));
    graph.edge(START, "a").edge("a", "b").edge("a", "c").edge("b", "b2")
}

fn uneven_join(kit: &Kit) -> Graph<Log> {
    uneven(kit).join(["b2", "c"], "d")
}

fn deferred(kit: &Kit) -> Graph<Log> {
    uneven(kit).edge("b2", "d").edge("c", "d").defer("d")
}

#[derive(State)]
struct One {
    s: String,
}

fn conflict(kit: &Kit) -> Graph<One> {
    fn write(text: &str) -> OneUpdate {
        OneUpdate::new().s(text.to_owned())
    }
    let graph = kit
        .graph()
        .node("a", async |_: State<One>| write("a"))
        .node("b", async |_: State<One>| write("b"));
    graph.edge(START, "a").edge(START, "b")
}

#[derive(State)]
struct Passing {
    #[channel(ephemeral)]
    e: i64,
    #[channel(append)]
    log: List<bool>,
}

fn ephemeral(kit: &Kit) -> Graph<Passing> {
    async fn look(state: State<Passing>) -> PassingUpdate {
        PassingUpdate::new().log([state.e().is_some()])
    }
    let graph = kit.graph().node("a", async |_: State<Passing>| PassingUpdate::new().e(1));
    chain(graph.node("b", look).node("c", look), &["a", "b", "c", END])
}

#[derive(State)]
struct Untracked {
    #[channel(untracked)]
    u: i64,
    #[channel(append)]
    log: List<bool>,
}

fn untracked(kit: &Kit) -> Graph<Untracked> {
    async fn look(state: State<Untracked>) -> UntrackedUpdate {
        UntrackedUpdate::new().log([state.u().is_some()])
    }
    let graph = kit.graph().node("a", async |_: State<Untracked>| UntrackedUpdate::new().u(1));
    chain(graph.node("b", look), &["a", "b"])
}
