//! Errors after an agent within the same graph: each repeats the whole conversation.

use super::{Provider, RecordingClient, agent, input};
use serde_json::{Value, json};
use weftwork::agents::{Chat, ChatUpdate};
use weftwork::graph::{END, Next, NodeError, NodeResult, START, SubgraphState};
use weftwork::prelude::*;

/// The graphs, and the codes of their errors.
const GRAPHS: [(&str, &str); 4] =
    [("returns", "W0109"), ("names", "W0109"), ("panics", "W0110"), ("routes", "W0104")];

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

/// Returns the graphs, with their names.
pub(super) fn graphs(provider: &Provider) -> Vec<(&'static str, CompiledGraph)> {
    let around = |name| {
        let graph = Graph::<Chat>::new(name);
        graph.subgraph("work", agent(provider), SubgraphState::PerTask).edge(START, "work")
    };
    let route = |chat: State<Chat>| Next::node(whole(&chat));
    let all = [
        around("returns").node("after", returns).edge("work", "after"),
        around("names").node("after", names).edge("work", "after"),
        around("panics").node("after", panics).edge("work", "after"),
        around("routes").node("after", passes).edge("work", "after").route_to(
            "after",
            [END],
            route,
        ),
    ];
    let named = GRAPHS.iter().zip(all);
    named.map(|((name, _), graph)| (*name, graph.build().expect("sound"))).collect()
}

/// Runs each graph over all channels to its error, and reads what is stored then.
pub(super) async fn errors(client: &mut RecordingClient) {
    for (graph, code) in GRAPHS {
        let thread = client.thread().await;
        let first = json!({"assistant_id": graph, "input": input("open")});
        client.post(&format!("{thread}/runs/wait"), &first).await;
        let approve = json!({"resume": {"decisions": [{"type": "approve"}]}});
        let modes = ["values", "updates", "messages", "messages-tuple", "tasks", "debug", "events"];
        let then = json!({"assistant_id": graph, "command": approve, "stream_mode": modes,
            "stream_subgraphs": true});
        let ended = client.post(&format!("{thread}/runs/stream"), &then).await;
        assert!(ended.contains("event: error"), "{graph} {code}: {ended}");
        client.get(&format!("{thread}/state?subgraphs=true")).await;
        client.get(&format!("{thread}/history?limit=20")).await;
        client.get(&thread).await;
        let runs: Vec<Value> =
            serde_json::from_str(&client.get(&format!("{thread}/runs")).await).expect("JSON");
        for run in runs {
            let path = format!("{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
            client.get(&path).await;
            client.get(&format!("{path}/join")).await;
            client.get(&format!("{path}/stream")).await;
        }
    }
}
