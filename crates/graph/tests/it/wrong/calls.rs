//! Sound graphs that are called in a wrong way, or whose nodes do something wrong.

use super::{Chat, ChatUpdate, OtherUpdate, chat_fields, empty, nothing, table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use weftwork_graph::channel::{LastValue, Managed, Messages};
use weftwork_graph::run_loop::{
    AsNode, Host, InMemoryCheckpointer, Start, StartCommand, StateQuery, StateUpdate,
};
use weftwork_graph::{
    Answers, Arg, ChannelDef, Command, CompiledGraph, Ctx, DynUpdate, Dynamic, Field, Finish, Flow,
    Graph, Input, Next, NodeError, NodeResult, Question, RuntimeError, START, SendTo, State, Stops,
    SubgraphState, TaskDef,
};
use weftwork_types::{BoxFuture, CheckpointId};

type Row = (&'static str, BoxFuture<'static, String>);

fn row<T: Debug>(
    name: &'static str,
    call: impl Future<Output = Result<T, RuntimeError>> + std::marker::Send + 'static,
) -> Row {
    let told = async {
        match call.await {
            Ok(value) => format!("accepted: {value:?}"),
            Err(error) => format!("{}: {}", error.fault().code, without_ids(&error.to_string())),
        }
    };
    (name, Box::pin(told))
}

/// The text with the ids that each run makes anew left out.
fn without_ids(text: &str) -> String {
    let is_id = |piece: &str| {
        piece.len() == 32
            && piece.bytes().all(|b| b.is_ascii_hexdigit())
            && !piece.starts_with("000000")
    };
    let pieces = text.split('`').map(|piece| if is_id(piece) { "ID" } else { piece });
    pieces.collect::<Vec<_>>().join("`")
}

fn kept() -> Host {
    Host::new().with_checkpointer(InMemoryCheckpointer::new())
}

fn one(node: impl weftwork_graph::Handler<(Input,)>) -> CompiledGraph {
    empty().node("work", node).edge(START, "work").build().expect("sound")
}

/// A graph whose node returns this each time.
fn returns(result: fn() -> DynUpdate) -> CompiledGraph {
    one(move |_: Input| std::future::ready(result()))
}

fn commands(command: fn() -> Command<Dynamic>) -> CompiledGraph {
    let node = move |_: Input| std::future::ready(command());
    empty()
        .node("work", node)
        .node("rest", nothing)
        .edge(START, "work")
        .edge("work", "rest")
        .build()
        .expect("sound")
}

fn two(write: fn() -> DynUpdate) -> CompiledGraph {
    let node = move |_: Input| std::future::ready(write());
    let graph = empty().node("left", node).node("right", node);
    graph.edge(START, "left").edge(START, "right").build().expect("sound")
}

fn asking() -> CompiledGraph {
    let ask = async |_: Input, ctx: Ctx| ctx.interrupt(json!("sure?")).map(|_| DynUpdate::new());
    let graph = empty().node("ask", ask).node("ask_too", ask);
    graph.edge(START, "ask").edge(START, "ask_too").build().expect("sound")
}

fn chat() -> CompiledGraph {
    let speak = async |_: Field<chat_fields::Turns>| ChatUpdate::new().turns(1);
    Graph::<Chat>::new("chat").node("speak", speak).edge(START, "speak").build().expect("sound")
}

/// A value that is nested this deep.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(0), |inner, _| json!([inner]))
}

async fn invoked(graph: CompiledGraph, input: Value) -> Result<Value, RuntimeError> {
    graph.invoke(input).await?.output().cloned()
}

async fn commanded(graph: CompiledGraph, command: StartCommand) -> Result<(), RuntimeError> {
    let host = kept();
    graph.run(&host, Start::Input(json!({}))).thread("t").outcome().await?;
    graph.run(&host, Start::Command(command)).thread("t").outcome().await.map(|_| ())
}

async fn updated(
    graph: CompiledGraph,
    values: Option<Value>,
    as_node: AsNode,
) -> Result<(), RuntimeError> {
    let host = kept();
    graph.run(&host, Start::Input(json!({}))).thread("t").outcome().await?;
    let members = values.map(|values| values.as_object().expect("an object").clone());
    let values = members.map(|members| members.into_iter().collect());
    let change = vec![vec![StateUpdate { values, as_node }]];
    graph.update(&host, &StateQuery::thread("t"), change).await.map(|_| ())
}

fn inputs() -> Vec<Row> {
    vec![
        row("a number as input", invoked(one(nothing), json!(7))),
        row("a list as input", invoked(one(nothing), json!([{"log": []}]))),
        row("a long text as input", invoked(one(nothing), json!("x".repeat(500)))),
        row("input for a misspelt channel", invoked(one(nothing), json!({"lgo": []}))),
        row("input for a channel like no other", invoked(one(nothing), json!({"question": 1}))),
        row("input of the wrong type", invoked(chat(), json!({"turns": "three"}))),
        row("input that is no list", invoked(chat(), json!({"log": {"a": 1}}))),
        row("input that is no message", async {
            let channels = vec![ChannelDef::new("messages", Messages)];
            let graph = Graph::dynamic("talk", channels).node("a", nothing).edge(START, "a");
            invoked(graph.build()?, json!({"messages": [{"text": "hi"}]})).await
        }),
        row("input for a channel that takes none", async {
            let graph = empty().node("a", nothing).edge(START, "a").input(["s"]).build()?;
            invoked(graph, json!({"s": 1, "log": [1]})).await
        }),
        row("input for a value that the run keeps", async {
            let channels = vec![
                ChannelDef::new("left", Managed::Remaining),
                ChannelDef::new("s", LastValue::<Value>::new()),
            ];
            let graph = Graph::dynamic("run", channels).node("a", nothing).edge(START, "a");
            invoked(graph.build()?, json!({"left": 3})).await
        }),
        row("input nested too deep to be kept", async {
            let start = Start::Input(json!({"s": deep(101)}));
            one(nothing).run(&kept(), start).thread("t").outcome().await
        }),
        row("typed input of another state", async {
            let start = Start::typed(OtherUpdate::new().n(1)).expect("an update");
            chat().run(&Host::new(), start).outcome().await
        }),
        row("nothing to go on with", async {
            one(nothing).run(&kept(), Start::Continue).thread("t").outcome().await
        }),
        row("an empty command", async {
            let command = Start::Command(StartCommand::default());
            one(nothing).run(&kept(), command).thread("t").outcome().await
        }),
    ]
}

fn writes() -> Vec<Row> {
    let write = || DynUpdate::new().write("s", json!(1));
    let overwrite = || DynUpdate::new().overwrite("log", json!([1]));
    vec![
        row("two nodes that write what takes one write", invoked(two(write), json!({}))),
        row("two nodes that overwrite one channel", invoked(two(overwrite), json!({}))),
        row("a node that overwrites a channel twice", async {
            let twice =
                || DynUpdate::new().overwrite("log", json!([1])).overwrite("log", json!([2]));
            invoked(returns(twice), json!({})).await
        }),
        row("an overwrite of the wrong type", async {
            let text = || DynUpdate::new().overwrite("log", json!("all"));
            invoked(returns(text), json!({})).await
        }),
        row("a node that writes a misspelt channel", async {
            let write = || DynUpdate::new().write("logg", json!([1]));
            invoked(returns(write), json!({})).await
        }),
        row("a node that writes what the run keeps", async {
            let channels = vec![ChannelDef::new("last", Managed::LastStep)];
            let node = async |_: Input| DynUpdate::new().write("last", json!(true));
            let graph = Graph::dynamic("run", channels).node("a", node).edge(START, "a");
            invoked(graph.build()?, json!({})).await
        }),
        row("a flow that returns an update", async {
            invoked(Flow::new("main", nothing).build()?, json!(1)).await
        }),
        row("a task of a flow that returns an update", async {
            let task = TaskDef::new("task", nothing);
            let flow = Flow::new("main", move |Input(n): Input, ctx: Ctx| {
                let task = task.clone();
                async move { ctx.task(&task, n).await.map(Finish::value) }
            });
            invoked(flow.build()?, json!(1)).await
        }),
        row("a flow as a node, with a value that is no object", async {
            let flow = Flow::new("main", async |_: Input| NodeResult::Ok(Finish::value(json!(7))));
            let graph =
                empty().subgraph("flow", flow.build()?, SubgraphState::PerTask).edge(START, "flow");
            invoked(graph.build()?, json!({})).await
        }),
    ]
}

fn ways() -> Vec<Row> {
    let sends = |graph: Graph<Dynamic>, value: Value| {
        let node = move |_: Input| {
            let send = SendTo::to("count", value.clone());
            std::future::ready(Command::<Dynamic>::update(DynUpdate::new()).send(send))
        };
        graph.node("work", node).edge(START, "work").ends("work", ["count"])
    };
    let counts = || empty().node("count", async |Arg(_): Arg<u64>| DynUpdate::new());
    vec![
        row("a command to a misspelt node", async {
            let command = || Command::update(DynUpdate::new()).goto("wrk");
            invoked(commands(command), json!({})).await
        }),
        row("a route to a node that is not there", async {
            let graph = empty().node("work", nothing).edge(START, "work");
            let graph = graph.route("work", |_: State<Dynamic>| Next::node("publish"));
            invoked(graph.build()?, json!({})).await
        }),
        row("a route from START to a node that is not there", async {
            let graph = empty().node("work", nothing).edge(START, "work");
            let graph = graph.route_to(START, [""; 0], |_: State<Dynamic>| Next::node("publish"));
            invoked(graph.build()?, json!({})).await
        }),
        row("a send to a node that is not there", async {
            let command = || Command::update(DynUpdate::new()).send(SendTo::to("reset", 1));
            invoked(commands(command), json!({})).await
        }),
        row("a send of what cannot be JSON", async {
            let command = || {
                let by_pair = BTreeMap::from([((1, 2), 3)]);
                Command::update(DynUpdate::new()).send(SendTo::to("rest", by_pair))
            };
            invoked(commands(command), json!({})).await
        }),
        row("a send of another type than its node takes", {
            let graph = sends(counts(), json!({"n": 1})).build();
            async { invoked(graph?, json!({})).await }
        }),
        row("a route to a node that takes what a send brings", async move {
            let graph = counts().node("work", nothing).edge(START, "work");
            let graph = graph.route_to("work", ["count"], |_: State<Dynamic>| Next::node("count"));
            invoked(graph.build()?, json!({})).await
        }),
        row("a command for the graph around, where none is", async {
            invoked(commands(|| Command::parent(DynUpdate::new())), json!({})).await
        }),
        row("a command from outside to a misspelt node", {
            let goto = vec![Next::node("rset")];
            let command = StartCommand { goto, ..StartCommand::default() };
            commanded(commands(|| Command::update(DynUpdate::new())), command)
        }),
        row("a command from outside that writes a misspelt channel", {
            let update = vec![("logs".to_owned(), json!([1]))];
            commanded(one(nothing), StartCommand { update, ..StartCommand::default() })
        }),
        row("a question nested too deep to be kept", async {
            let ask = async |_: Input, ctx: Ctx| ctx.interrupt(deep(200)).map(|_| DynUpdate::new());
            let graph = empty().node("ask", ask).edge(START, "ask").build()?;
            invoked(graph, json!({})).await
        }),
        row("a failure in a graph within", async {
            let fails = async |_: Input| {
                Err::<DynUpdate, _>(NodeError::of_kind("ShopClosed", "the shop is closed"))
            };
            let inner = empty().node("buy", fails).edge(START, "buy").build()?;
            let graph = empty().subgraph("shop", inner, SubgraphState::PerTask).edge(START, "shop");
            invoked(graph.build()?, json!({})).await
        }),
    ]
}

fn runs() -> Vec<Row> {
    let resume = |resume| Start::Command(StartCommand { resume, ..StartCommand::default() });
    vec![
        row("an answer on a host that keeps nothing", async move {
            let start = resume(Some(Answers::One(json!("yes"))));
            asking().run(&Host::new(), start).thread("t").outcome().await
        }),
        row("one answer for two questions", {
            let resume = Some(Answers::One(json!("yes")));
            commanded(asking(), StartCommand { resume, ..StartCommand::default() })
        }),
        row("an answer that does not fit", async {
            let ask = async |_: Input, ctx: Ctx| {
                let amount = Question::value(json!("how much?"));
                ctx.ask_question(amount.answer_schema(json!({"type": "integer", "minimum": 1})))?;
                NodeResult::Ok(DynUpdate::new())
            };
            let graph = empty().node("ask", ask).edge(START, "ask").build()?;
            let resume = Some(Answers::One(json!("much")));
            commanded(graph, StartCommand { resume, ..StartCommand::default() }).await
        }),
        row("an answer by a key that nobody asked with", {
            let resume = Some(Answers::ByKey([("order-7".to_owned(), json!(1))].into()));
            commanded(asking(), StartCommand { resume, ..StartCommand::default() })
        }),
        row("a wait for timers on a host that keeps nothing", async {
            one(nothing).run(&Host::new(), json!({})).waiting().outcome().await
        }),
        row("no superstep allowed", async {
            one(nothing).run(&Host::new(), json!({})).step_limit(0).outcome().await
        }),
        row("a stop at a misspelt node", async {
            let run = one(nothing).run(&Host::new(), json!({}));
            run.interrupt_before(Stops::at(["wrok"])).outcome().await
        }),
        row("a run from a checkpoint that is not there", async {
            let run = one(nothing).run(&kept(), json!({})).thread("t");
            run.at(CheckpointId(7)).outcome().await
        }),
        row("a run from a checkpoint on a host that keeps nothing", async {
            one(nothing).run(&Host::new(), json!({})).at(CheckpointId(7)).outcome().await
        }),
        row("a look on a host that keeps nothing", async {
            one(nothing).state(&Host::new(), &StateQuery::thread("t"), false).await
        }),
        row("a look at a checkpoint that is not there", async {
            let at = StateQuery { checkpoint: Some(CheckpointId(7)), ..StateQuery::thread("t") };
            one(nothing).state(&kept(), &at, false).await
        }),
        row("a look at a graph that is not there", async {
            let at = StateQuery::thread("t").within("shop:0");
            one(nothing).state(&kept(), &at, false).await
        }),
        row("a look into a node that runs no graph", async {
            let inner = empty().node("a", nothing).edge(START, "a").build()?;
            let graph =
                empty().subgraph("shop", inner, SubgraphState::PerTask).node("pay", nothing);
            let graph = graph.edge(START, "shop").edge("shop", "pay").build()?;
            graph.history(&kept(), &StateQuery::thread("t").within("pay:0")).await
        }),
    ]
}

fn changes() -> Vec<Row> {
    let node = |name: &str| AsNode::Node(name.to_owned());
    vec![
        row("a change as a misspelt node", updated(one(nothing), Some(json!({})), node("wrk"))),
        row("a change of a misspelt channel", {
            updated(one(nothing), Some(json!({"lgo": [1]})), node("work"))
        }),
        row("a change of the wrong type", {
            updated(chat(), Some(json!({"turns": -1})), node("speak"))
        }),
        row("a change that could come from two nodes", {
            updated(
                two(|| DynUpdate::new().write("log", json!([1]))),
                Some(json!({})),
                AsNode::Infer,
            )
        }),
        row("new input without values", updated(one(nothing), None, AsNode::Input)),
        row("no changes", async {
            one(nothing).update(&kept(), &StateQuery::thread("t"), vec![]).await
        }),
        row("two changes of which one names no node", async {
            let change = |as_node| StateUpdate { values: None, as_node };
            let changes = vec![vec![change(AsNode::Infer), change(AsNode::Start)]];
            one(nothing).update(&kept(), &StateQuery::thread("t"), changes).await
        }),
        row("a copy of nothing", async {
            let copy = vec![vec![StateUpdate { values: None, as_node: AsNode::Copy }]];
            one(nothing).update(&kept(), &StateQuery::thread("t"), copy).await
        }),
        row("a change at a checkpoint that is not there", async move {
            let at = StateQuery { checkpoint: Some(CheckpointId(7)), ..StateQuery::thread("t") };
            let change = StateUpdate { values: None, as_node: AsNode::Start };
            one(nothing).update(&kept(), &at, vec![vec![change]]).await
        }),
        row("a change on a host that keeps nothing", async {
            one(nothing).update(&Host::new(), &StateQuery::thread("t"), vec![]).await
        }),
    ]
}

#[tokio::test]
async fn wrong_calls_say_what_is_wrong_and_what_to_do() {
    let rows = inputs().into_iter().chain(writes()).chain(ways()).chain(runs()).chain(changes());
    let mut told = Vec::new();
    for (name, call) in rows {
        told.push((name, call.await));
    }
    assert!(told.len() >= 50, "{} rows", told.len());
    insta::assert_snapshot!("wrong_calls", table(told));
}
