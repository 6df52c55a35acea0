//! Graphs that cannot be built.

use super::{Chat, ChatUpdate, Other, OtherUpdate, Turn, chat_fields, empty, nothing, table};
use serde_json::Value;
use std::time::Duration;
use weftwork_graph::channel::LastValue;
use weftwork_graph::{
    Arg, BuildError, Cache, ChannelDef, CompiledGraph, Deps, DynUpdate, Dynamic, END, Failure,
    Field, Finish, Flow, Graph, Input, Next, NodeResult, Retry, START, State, Stops, SubgraphState,
    Timeout,
};

type Built = Result<CompiledGraph, BuildError>;
type Row = (&'static str, fn() -> Built);

/// A sound graph of one node, to be spoilt.
fn sound() -> Graph<Dynamic> {
    empty().node("work", nothing).edge(START, "work")
}

fn named(name: &str) -> Built {
    empty().node(name, nothing).edge(START, name).build()
}

fn with_channel(name: &'static str) -> Built {
    let channels = vec![ChannelDef::new(name, LastValue::<Value>::new())];
    Graph::dynamic("wrong", channels).node("work", nothing).edge(START, "work").build()
}

fn chat() -> Graph<Chat> {
    Graph::<Chat>::new("chat")
}

async fn takes_chat(_: State<Chat>) -> ChatUpdate {
    ChatUpdate::new()
}

async fn takes_other(_: State<Other>) {}

async fn takes_topic(_: Field<chat_fields::Topic>) {}

async fn takes_text(_: Deps<String>) {}

async fn takes_arg(Arg(_): Arg<u64>) {}

async fn takes_failure(_: Failure) {}

async fn returns_other(_: State<Chat>) -> NodeResult<OtherUpdate> {
    Ok(OtherUpdate::new())
}

fn names() -> Vec<Row> {
    vec![
        ("a node without a name", || named("")),
        ("a node with too long a name", || named(&"x".repeat(129))),
        ("a node called START", || named("START")),
        ("a node called END", || named("END")),
        ("a node with one of the house's names", || named("__input__")),
        ("a node with a colon in its name", || named("a:b")),
        ("a node with a bar in its name", || named("a|b")),
        ("a node with a line end in its name", || named("a\nb")),
        ("a channel without a name", || with_channel("")),
        ("a channel called END", || with_channel("END")),
        ("a channel with one of the house's names", || with_channel("__return__")),
        ("a channel with a bar in its name", || with_channel("a|b")),
        ("two nodes of one name", || sound().node("work", nothing).build()),
        ("two channels of one name", || {
            let channel = || ChannelDef::new("log", LastValue::<Value>::new());
            let graph = Graph::dynamic("wrong", vec![channel(), channel()]);
            graph.node("work", nothing).edge(START, "work").build()
        }),
        ("a graph within with the name of a node", || {
            sound().subgraph("work", sound().build()?, SubgraphState::PerTask).build()
        }),
        ("a flow with a bad name", || {
            Flow::new("a:b", async |Input(n): Input| NodeResult::Ok(Finish::value(n))).build()
        }),
    ]
}

fn ways() -> Vec<Row> {
    vec![
        ("an edge from a misspelt node", || sound().edge("wrok", "work").build()),
        ("an edge to a node like no other", || sound().edge("work", "publish").build()),
        ("an edge between two unknown nodes", || sound().edge("in", "out").build()),
        ("an edge to START", || sound().edge("work", START).build()),
        ("an edge from END", || sound().edge(END, "work").build()),
        ("a join of an unknown node", || sound().join(["work", "wrk"], "work").build()),
        ("a join that leads to an unknown node", || sound().join(["work"], "merge").build()),
        ("a join of nothing", || {
            sound().node("merge", nothing).join([""; 0], "merge").edge("work", "merge").build()
        }),
        ("a join that waits for START", || sound().join([START, "work"], "work").build()),
        ("a join that leads to START", || sound().join(["work"], START).build()),
        ("a join of END", || sound().join([END], "work").build()),
        ("a route of an unknown node", || {
            sound().route_to("wark", [END], |_: State<Dynamic>| Next::End).build()
        }),
        ("a route to an unknown node", || {
            sound().route_to("work", ["worm", END], |_: State<Dynamic>| Next::End).build()
        }),
        ("a typed route to a node that is not there", || {
            let graph = chat().node("speak", takes_chat).edge(START, "speak");
            let hangs_up = |chat: &State<Chat>| *chat.turns() > 3;
            let turn =
                move |chat: State<Chat>| if hangs_up(&chat) { Turn::HangUp } else { Turn::Speak };
            graph.route("speak", turn).build()
        }),
        ("a route to START", || {
            sound().route_to("work", [START], |_: State<Dynamic>| Next::node(START)).build()
        }),
        ("a route of END", || {
            sound().route_to(END, ["work"], |_: State<Dynamic>| Next::node("work")).build()
        }),
        ("ends of an unknown node", || sound().ends("werk", [END]).build()),
        ("ends at an unknown node", || sound().ends("work", ["home"]).build()),
        ("ends of START", || sound().ends(START, ["work"]).build()),
        ("a graph of nothing", || empty().build()),
        ("a graph without a beginning", || empty().node("work", nothing).build()),
        ("a graph that begins at its end", || sound_but_for_its_start().edge(START, END).build()),
        ("a node that nothing leads to", || sound().node("lost", nothing).build()),
        ("two nodes that lead to each other only", || {
            let graph = sound().node("ping", nothing).node("pong", nothing);
            graph.edge("ping", "pong").edge("pong", "ping").build()
        }),
    ]
}

fn sound_but_for_its_start() -> Graph<Dynamic> {
    empty().node("work", nothing)
}

fn options() -> Vec<Row> {
    vec![
        ("a deferral of an unknown node", || sound().defer("wrok").build()),
        ("a retry policy for an unknown node", || sound().retry("wrok", Retry::new(2)).build()),
        ("a timeout for an unknown node", || {
            sound().timeout("wrok", Timeout::run(Duration::from_secs(1))).build()
        }),
        ("a cache for an unknown node", || sound().cache("wrok", Cache::forever()).build()),
        ("an error handler for an unknown node", || sound().on_error("wrok", nothing).build()),
        ("a thread for an unknown node", || sound().blocking("wrok").parallel("START").build()),
        ("stops at unknown nodes", || {
            let graph = sound().interrupt_before(Stops::at(["wrok"]));
            graph.interrupt_after(Stops::at(["work", "rest"])).build()
        }),
        ("an unknown channel to read", || sound().reads("work", ["lgo", "s"]).build()),
        ("reads of an unknown node", || sound().reads("wrok", ["log"]).build()),
        ("an unknown channel of the input", || sound().input(["question"]).build()),
        ("an unknown channel of the output", || sound().output(["logs"]).build()),
        ("a graph within that shares no channel", || {
            let inner = Graph::<Other>::new("inner").node("a", takes_other).edge(START, "a");
            sound()
                .subgraph("within", inner.build()?, SubgraphState::PerTask)
                .edge("work", "within")
                .build()
        }),
    ]
}

fn types() -> Vec<Row> {
    vec![
        ("a node that takes another graph's state", || {
            chat().node("speak", takes_other).edge(START, "speak").build()
        }),
        ("a node that takes a field of another graph's state", || {
            let graph = Graph::<Other>::new("other").node("speak", takes_topic);
            graph.edge(START, "speak").build()
        }),
        ("a typed node in a dynamic graph", || {
            empty().node("speak", takes_chat).edge(START, "speak").build()
        }),
        ("a node that returns another graph's update", || {
            chat().node("speak", returns_other).edge(START, "speak").build()
        }),
        ("a node that takes what the graph was not given", || {
            chat().with(7u64).node("speak", takes_text).edge(START, "speak").build()
        }),
        ("a node that takes a failure", || {
            chat().node("speak", takes_failure).edge(START, "speak").build()
        }),
        ("an error handler that takes what the graph was not given", || {
            let graph = chat().node("speak", takes_chat).on_error("speak", takes_text);
            graph.edge(START, "speak").build()
        }),
        ("an argument behind an edge", || {
            chat().node("speak", takes_arg).edge(START, "speak").build()
        }),
        ("an argument behind a join", || {
            let graph = chat().node("speak", takes_chat).node("count", takes_arg);
            graph.edge(START, "speak").join(["speak"], "count").build()
        }),
        ("several things at once", || {
            let graph = chat().node("speak", takes_other).node("speak", takes_text);
            let graph = graph.node("END", takes_chat).edge("spaek", "listen");
            let graph = graph.retry("speek", Retry::new(3)).input(["topics"]).defer("nobody");
            graph.interrupt_before(Stops::at(["spek"])).join(["speak", "x"], "y").build()
        }),
    ]
}

#[test]
fn wrong_graphs_say_what_is_wrong_and_what_to_do() {
    let rows: Vec<_> = [names(), ways(), options(), types()].concat();
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let told = rows.into_iter().map(|(name, build)| {
        let error = match build() {
            Err(error) => error,
            Ok(_) => return (name, "BUILT".to_owned()),
        };
        (name, format!("{}: {error}", error.code()))
    });
    insta::assert_snapshot!("wrong_graphs", table(told));
}

#[test]
fn what_is_not_wrong_is_built() {
    // Options may come before their node, and names that are not there are ignored where the graph
    // says so.
    let early = empty().retry("work", Retry::new(2)).defer("work").node("work", nothing);
    early.edge(START, "work").build().expect("the order of calls does not matter");
    let ends = sound().edge("work", END).join(["work"], END);
    ends.build().expect("what leads to END is sound");
    let update = async |_: Input| DynUpdate::new();
    chat().node("speak", update).edge(START, "speak").build().expect("writes go by name");
}
