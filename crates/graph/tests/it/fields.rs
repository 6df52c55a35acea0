use crate::support::Count;
use serde_json::json;
use weftwork_graph::run_loop::TaskStarted;
use weftwork_graph::run_loop::{Host, Start};
use weftwork_graph::{Cache, Deps, Field, Graph, List, Modes, START, State, StreamEvent};

#[derive(State)]
struct Talk {
    topic: String,
    #[channel(default)]
    turns: u64,
    #[channel(append)]
    log: List<String>,
}

async fn speak(
    topic: Field<talk_fields::Topic>,
    turns: Field<talk_fields::Turns>,
    ran: Deps<Count>,
) -> TalkUpdate {
    ran.up();
    let topic = topic.get().map_or("nothing", String::as_str);
    TalkUpdate::new().log([format!("{topic} {}", *turns + 1)])
}

fn talk(ran: &Count) -> Graph<Talk> {
    Graph::<Talk>::new("talk").with(ran.clone()).node("speak", speak).edge(START, "speak")
}

fn about(topic: &str, noise: &str) -> Start {
    let update = TalkUpdate::new().topic(topic.to_owned()).log([noise]);
    Start::typed(update).expect("an update")
}

#[tokio::test]
async fn a_node_that_takes_fields_reads_these_only() {
    let graph = talk(&Count::default()).build().expect("sound");
    let mut stream = graph.run(&Host::new(), about("rain", "noise")).modes(Modes::TASKS).stream();
    let mut inputs = Vec::new();
    while let Some(item) = stream.next().await {
        if let StreamEvent::TaskStarted(TaskStarted { input, .. }) = item.event {
            inputs.push(input);
        }
    }
    assert_eq!(inputs, [json!({"topic": "rain", "turns": 0})]);
    let outcome = stream.outcome().expect("it ended").clone().expect("it runs");
    let log = json!(["noise", "rain 1"]);
    assert_eq!(outcome.output().expect("completed")["log"], log);
}

#[tokio::test]
async fn a_cache_looks_at_the_fields_that_the_node_takes() {
    let ran = Count::default();
    let graph = talk(&ran).cache("speak", Cache::forever()).build().expect("sound");
    let host = Host::new();
    for (topic, noise, expected) in [("rain", "a", 1), ("rain", "b", 1), ("sun", "b", 2)] {
        graph.run(&host, about(topic, noise)).outcome().await.expect("it runs");
        assert_eq!(ran.get(), expected, "{topic} {noise}");
    }
}

#[tokio::test]
async fn a_field_without_a_value_is_none_and_what_is_said_of_reads_counts() {
    let graph = talk(&Count::default()).reads("speak", ["log"]).build().expect("sound");
    let mut stream = graph.run(&Host::new(), json!({})).modes(Modes::TASKS).stream();
    let mut inputs = Vec::new();
    while let Some(item) = stream.next().await {
        if let StreamEvent::TaskStarted(TaskStarted { input, .. }) = item.event {
            inputs.push(input);
        }
    }
    assert_eq!(inputs, [json!({"log": []})]);
    let outcome = stream.outcome().expect("it ended").clone().expect("it runs");
    assert_eq!(outcome.output(), Some(json!({"turns": 0, "log": ["nothing 1"]})));
}
