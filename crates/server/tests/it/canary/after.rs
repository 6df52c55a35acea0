//! Errors after an agent within the same graph: each repeats the whole conversation.

use super::codes;
use super::{Provider, RecordingClient, agent, input};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;
use weftwork::agents::{Chat, ChatUpdate};
use weftwork::graph::channel::{Append, LastValue, Reduce};
use weftwork::graph::{
    ChannelDef, Command, END, Next, NodeError, NodeResult, START, Semantics, SubgraphState, Timeout,
};
use weftwork::prelude::*;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// The graphs, and the names under which clients see their errors.
const GRAPHS: [(&str, &str); 12] = [
    ("returns", "ValueError"),
    ("names", "W0109"),
    ("panics", "W0110"),
    ("routes", "W0104"),
    ("conflicts", "W0102"),
    ("mistypes", "W0103"),
    ("mistypes_in_langgraph", "W0103"),
    ("strays", "W0105"),
    ("reduces", "W0108"),
    ("waits", "NodeTimeoutError"),
    ("commands", "W0123"),
    ("asks", "W0129"),
];

/// Returns the conversation as text, with the arguments and whole results of all calls.
fn whole(chat: &State<Chat>) -> String {
    let messages: Vec<Value> = chat
        .messages()
        .iter()
        .map(|message| serde_json::to_value(message).expect("JSON"))
        .collect();
    json!(messages).to_string()
}

async fn returns(chat: State<Chat>) -> NodeResult<ChatUpdate> {
    Err(NodeError::of_kind("ValueError", whole(&chat)))
}

async fn names(chat: State<Chat>) -> NodeResult<ChatUpdate> {
    Err(NodeError::of_kind(whole(&chat), "no"))
}

async fn panics(chat: State<Chat>) -> NodeResult<ChatUpdate> {
    panic!("{}", whole(&chat))
}

async fn passes(_: State<Chat>) -> NodeResult<ChatUpdate> {
    Ok(ChatUpdate::new())
}

/// Writes a channel that takes one value in each superstep.
async fn writes_one(chat: State<Chat>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    ctx.write_also("one", json!(whole(&chat)));
    Ok(ChatUpdate::new())
}

/// Writes a text to a channel of numbers.
async fn writes_text(chat: State<Chat>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    ctx.write_also("numbers", json!([whole(&chat)]));
    Ok(ChatUpdate::new())
}

/// Writes to a channel that the graph does not have.
async fn writes_elsewhere(chat: State<Chat>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    ctx.write_also(whole(&chat), json!(1));
    Ok(ChatUpdate::new())
}

/// Writes a value that the reducer of its channel cannot take.
async fn writes_reduced(chat: State<Chat>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    ctx.write_also("reduced", json!(whole(&chat)));
    Ok(ChatUpdate::new())
}

async fn waits(chat: State<Chat>) -> NodeResult<ChatUpdate> {
    tokio::time::sleep(super::WAIT).await;
    panic!("{}", whole(&chat))
}

/// Commands the graph around its own, which is not there.
async fn commands(chat: State<Chat>) -> NodeResult<Command<Chat>> {
    Ok(Command::parent(ChatUpdate::new()).goto(whole(&chat)))
}

/// Asks a question whose schema is none.
async fn asks(chat: State<Chat>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let question = weftwork_types::interrupt::Ask::Value { value: json!("sure?") };
    ctx.ask(question, Some(json!({"type": whole(&chat)})))?;
    Ok(ChatUpdate::new())
}

/// An error whose source repeats the conversation too.
#[derive(Debug, thiserror::Error)]
#[error("the cause")]
struct Caused(#[source] std::io::Error);

/// Fails with the code that the last message of the person names.
async fn fails(chat: State<Chat>) -> NodeResult<ChatUpdate> {
    let text = whole(&chat);
    let place = |code: &&str| text.rfind(*code);
    let code = codes::of_runs().max_by_key(place).expect("a code");
    let cause = Caused(std::io::Error::other(text.clone()));
    Err(Fault::new(ErrorCode(code), &*text).of_kind(text).with_sources_of(&cause).into())
}

/// Returns the graphs, with their names.
pub(super) fn graphs(provider: &Provider) -> Vec<(&'static str, CompiledGraph)> {
    let around = |name| {
        let graph = Graph::<Chat>::new(name);
        graph.subgraph("work", agent(provider), SubgraphState::PerTask).edge(START, "work")
    };
    let route = |chat: State<Chat>| Next::node(whole(&chat));
    let one = ChannelDef::new("one", LastValue::<String>::new());
    let numbers = || ChannelDef::new("numbers", Append::<u32>::new());
    let refuse = |_: Value, text: Value| panic!("cannot take {text}");
    let reduced = ChannelDef::new("reduced", Reduce::new(Value::default, refuse));
    let limit = Timeout::run(Duration::from_millis(20));
    let all = [
        around("returns").node("after", returns).edge("work", "after"),
        around("names").node("after", names).edge("work", "after"),
        around("panics").node("after", panics).edge("work", "after"),
        around("routes").node("after", passes).edge("work", "after").route_to(
            "after",
            [END],
            route,
        ),
        around("conflicts")
            .channel(one)
            .node("after", writes_one)
            .node("beside", writes_one)
            .edge("work", "after")
            .edge("work", "beside"),
        around("mistypes").channel(numbers()).node("after", writes_text).edge("work", "after"),
        around("mistypes_in_langgraph")
            .semantics(Semantics::langgraph())
            .channel(numbers())
            .node("after", writes_text)
            .edge("work", "after"),
        around("strays").node("after", writes_elsewhere).edge("work", "after"),
        around("reduces").channel(reduced).node("after", writes_reduced).edge("work", "after"),
        around("waits").node("after", waits).timeout("after", limit).edge("work", "after"),
        around("commands").node("after", commands).edge("work", "after"),
        around("asks").node("after", asks).edge("work", "after"),
    ];
    let named = GRAPHS.iter().map(|(name, _)| *name).zip(all);
    // The agent runs once in a thread.
    let begin = |chat: State<Chat>| {
        Next::node(if chat.messages().iter().count() > 1 { "after" } else { "work" })
    };
    let fails = Graph::<Chat>::new("fails")
        .subgraph("work", agent(provider), SubgraphState::PerTask)
        .node("after", fails)
        .route_to(START, ["work", "after"], begin)
        .edge("work", "after");
    let fails = ("fails", fails);
    let named = named.chain([fails]);
    named.map(|(name, graph)| (name, graph.build().expect("sound"))).collect()
}

/// Graphs whose node writes the conversation to a channel of its own, which the modes of tasks and
/// updates show: that is no error.
const WRITING: [&str; 5] = ["conflicts", "mistypes", "mistypes_in_langgraph", "strays", "reduces"];

/// The graph whose state cannot be read after its error, as in LangGraph.
const REFUSED: &str = "mistypes_in_langgraph";

/// Runs each graph over all channels to its error, and reads what is stored then.
pub(super) async fn errors(client: &mut RecordingClient) {
    for (graph, error) in GRAPHS {
        let modes = ["values", "messages", "messages-tuple", "updates", "tasks", "debug", "events"];
        let writes = WRITING.contains(&graph);
        let modes = if writes { &modes[..3] } else { &modes[..] };
        let thread = run_to_error(client, graph, error, modes).await;
        let path = if graph == REFUSED { format!("{thread}/state") } else { thread.clone() };
        let answer = client.request("GET", &path, &Value::Null).await;
        assert_eq!(answer.status.is_success(), graph != REFUSED, "{graph}: {}", answer.body);
        if !writes {
            client.get(&format!("{thread}/state?subgraphs=true")).await;
            client.get(&format!("{thread}/history?limit=20")).await;
        }
        read_runs(client, &thread).await;
    }
}

/// Codes of one thread.
const CODES_MAX: usize = 20;

/// Fails with each of the codes, and calls a tool that fails with it.
pub(super) async fn drive_codes(client: &mut RecordingClient, codes: &[&str]) {
    let modes = ["values", "updates", "messages-tuple", "tasks", "debug", "events"];
    for codes in codes.chunks(CODES_MAX) {
        let thread = run_to_error(client, "fails", "W0138", &modes).await;
        let reports = run_to_approval(client, "keeper", "open").await;
        let approve = json!({"assistant_id": "keeper", "command": APPROVE.clone()});
        client.post(&format!("{reports}/runs/wait"), &approve).await;
        for code in codes {
            let body = json!({"assistant_id": "fails", "input": input(code), "stream_mode": modes});
            let ended = client.post(&format!("{thread}/runs/stream"), &body).await;
            let error = ended.split("event: error").nth(1).unwrap_or_default();
            assert!(error.contains(code), "{code}: {ended}");
            let body = json!({"assistant_id": "keeper", "input": input(&format!("report {code}")),
                "stream_mode": ["updates", "messages", "events"]});
            let ended = client.post(&format!("{reports}/runs/stream"), &body).await;
            assert!(ended.contains(code), "{code}: {ended}");
        }
        client.get(&format!("{thread}/state")).await;
        client.get(&format!("{thread}/history?limit=50")).await;
        read_runs(client, &thread).await;
        client.get(&format!("{reports}/history?limit=5")).await;
        client.get(&format!("/chat/keeper/{}", reports.trim_start_matches("/threads/"))).await;
    }
}

/// Answers the approval.
static APPROVE: LazyLock<Value> =
    LazyLock::new(|| json!({"resume": {"decisions": [{"type": "approve"}]}}));

/// Runs a graph until it asks for approval; returns the thread.
async fn run_to_approval(client: &mut RecordingClient, graph: &str, said: &str) -> String {
    let thread = client.thread().await;
    let first = json!({"assistant_id": graph, "input": input(said)});
    client.post(&format!("{thread}/runs/wait"), &first).await;
    thread
}

/// Runs a graph to its error, which clients see under this name; returns the thread.
async fn run_to_error(
    client: &mut RecordingClient,
    graph: &str,
    error: &str,
    modes: &[&str],
) -> String {
    let thread = run_to_approval(client, graph, &format!("open, then {error}")).await;
    let then = json!({"assistant_id": graph, "command": APPROVE.clone(), "stream_mode": modes,
        "stream_subgraphs": true});
    let ended = client.post(&format!("{thread}/runs/stream"), &then).await;
    let end = ended.split("event: error").nth(1).unwrap_or_default();
    assert!(end.contains(&format!(r#""error":"{error}""#)), "{graph}, {error}: {end} of {ended}");
    thread
}

/// Reads the runs of a thread, their outcomes and their streams.
async fn read_runs(client: &mut RecordingClient, thread: &str) {
    let runs: Vec<Value> =
        serde_json::from_str(&client.get(&format!("{thread}/runs")).await).expect("JSON");
    for run in runs {
        let path = format!("{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
        client.get(&path).await;
        client.get(&format!("{path}/join")).await;
        client.get(&format!("{path}/stream")).await;
    }
}
