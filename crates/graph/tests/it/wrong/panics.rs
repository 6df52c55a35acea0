//! Code of the graph that panics: a typed outcome, and the rest goes on.

use super::{Chat, ChatUpdate, empty, nothing, table};
use serde_json::{Value, json};
use weftwork_graph::channel::{Channel, Reduce, Refused};
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, END, Finish, Flow, Graph, Input, Next,
    NodeError, Retry, RunOutcome, START, State, SubgraphState, TaskDef, Value as Slot, Write,
};

async fn panics(_: Input) -> DynUpdate {
    panic!("node boom")
}

async fn panics_later(_: Input, ctx: Ctx) -> DynUpdate {
    ctx.clock().sleep(std::time::Duration::from_millis(1)).await;
    panic!("late boom")
}

fn one(node: impl weftwork_graph::Handler<(Input,)>) -> Graph<Dynamic> {
    empty().node("work", node).edge(START, "work")
}

fn summing(reducer: fn(i64, i64) -> i64) -> Graph<Dynamic> {
    let channels = vec![ChannelDef::new("n", Reduce::<i64>::new(|| 1, reducer))];
    Graph::dynamic("sum", channels).edge(START, "work")
}

/// A channel whose values cannot be told.
#[derive(Debug)]
struct Mute;

impl Channel for Mute {
    fn kind(&self) -> &'static str {
        "mute"
    }
    fn is_stored(&self) -> bool {
        false
    }
    fn initial(&self) -> Option<Slot> {
        Some(Slot::new(()))
    }
    fn apply(&self, current: Option<Slot>, _: &[Write]) -> Result<Option<Slot>, Refused> {
        Ok(current)
    }
    fn encode(&self, _: &Slot) -> Result<Value, String> {
        panic!("codec boom")
    }
    fn decode(&self, _: &Value) -> Result<Slot, String> {
        Ok(Slot::new(()))
    }
    fn encode_write(&self, _: &Slot) -> Result<Value, String> {
        Ok(Value::Null)
    }
}

fn graphs() -> Vec<(&'static str, Graph<Dynamic>)> {
    let fails = async |_: Input| Err::<DynUpdate, _>(NodeError::message("no luck"));
    let inner = one(panics).build().expect("sound");
    let sums = async |_: Input| DynUpdate::new().write("n", json!(1));
    vec![
        ("a node", one(panics)),
        (
            "a node before there is a future",
            one(|_: Input| -> std::future::Ready<DynUpdate> { panic!("early boom") }),
        ),
        ("a node after it waited", { empty().node("work", panics_later).edge(START, "work") }),
        ("a node on a thread for code that blocks", one(panics).blocking("work")),
        ("a node on a thread of its own", one(panics).parallel("work")),
        ("a node beside another", one(panics).node("other", nothing).edge(START, "other")),
        (
            "a route",
            one(nothing)
                .route_to("work", [END], |_: State<Dynamic>| -> Next { panic!("route boom") }),
        ),
        ("a route from START", {
            one(nothing)
                .route_to(START, [END], |_: State<Dynamic>| -> Next { panic!("first boom") })
        }),
        ("a reducer", summing(|_, _| panic!("reducer boom")).node("work", sums)),
        ("a reducer that a route looks at", {
            let graph = summing(|_, _| panic!("reducer boom")).node("work", sums);
            graph.route_to("work", [END], |_: State<Dynamic>| Next::End)
        }),
        ("a policy for retries", {
            let retry = Retry::new(3).on(|_| panic!("policy boom"));
            empty().node("work", fails).edge(START, "work").retry("work", retry)
        }),
        ("an error handler", {
            let graph = empty().node("work", fails).edge(START, "work");
            graph.on_error("work", async |_: Input| -> DynUpdate { panic!("handler boom") })
        }),
        ("a node of a graph within", {
            empty().subgraph("within", inner, SubgraphState::PerTask).edge(START, "within")
        }),
        ("a channel that is told", {
            let channels = vec![ChannelDef::new("mute", Mute)];
            Graph::dynamic("mute", channels).node("work", async |_: Ctx| ()).edge(START, "work")
        }),
    ]
}

async fn message(graph: CompiledGraph, host: Host, thread: &'static str) -> String {
    // A task of its own: a panic that gets through ends it, and not the test.
    let run =
        tokio::spawn(async move { graph.run(&host, json!({})).thread(thread).outcome().await });
    match run.await {
        Ok(Ok(outcome)) => format!("{outcome:?}"),
        Ok(Err(error)) => format!("{}: {error}", error.fault().code),
        Err(error) => format!("NOT CAUGHT: {error}"),
    }
}

#[tokio::test]
async fn what_panics_ends_its_run_and_nothing_else() {
    let host = Host::new().with_checkpointer(InMemoryCheckpointer::new());
    let mut rows = Vec::new();
    for (name, graph) in graphs() {
        rows.push((name, message(graph.build().expect("sound"), host.clone(), name).await));
    }
    let task = TaskDef::new("task", async |_: Input| -> Finish { panic!("task boom") });
    let flow = Flow::new("main", move |Input(n): Input, ctx: Ctx| {
        let task = task.clone();
        async move { ctx.task(&task, n).await.map(Finish::value) }
    });
    rows.push((
        "a task of a flow",
        message(flow.build().expect("sound"), host.clone(), "flow").await,
    ));
    insta::assert_snapshot!("panics", table(rows));
    let speak = async |_: Input| ChatUpdate::new().turns(1);
    let chat = Graph::<Chat>::new("chat").node("speak", speak).edge(START, "speak");
    let chat = chat.build().expect("sound");
    let outcome = chat.run(&host, json!({})).thread("u").outcome().await.expect("it runs");
    assert_eq!(outcome, RunOutcome::Completed { output: json!({"log": [], "turns": 1}) });
}
