//! The agent in this process, in every stream mode.

use crate::desk::{Refunds, agent, said};
use serde_json::json;
use std::sync::Arc;
use weftwork_graph::channel::MessageWrite;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start};
use weftwork_graph::{MessagePart, Modes, RunOutcome, StreamEvent};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_testkit::ManualClock;
use weftwork_types::message::Message;

const ANSWER: &str = "It is on its way.";

fn steps() -> Vec<Step> {
    vec![Step::call("lookup_order", json!({"order_id": "A1"})), Step::text(ANSWER)]
}

/// Returns the events that a run of the agent emits in a mode, and the conversation it ends with.
async fn watched(steps: Vec<Step>, modes: Modes) -> (Vec<StreamEvent>, Vec<Message>) {
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let graph = agent(model, Arc::new(Refunds::default()));
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let host = Host::new().with_checkpointer(InMemoryCheckpointer::new()).with_clock(clock);
    let run = graph.run(&host, Start::from(said("Where is A1?"))).thread("t").modes(modes);
    let mut stream = run.stream();
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        assert!(item.ns.is_empty());
        events.push(item.event);
    }
    let Some(Ok(RunOutcome::Completed { output })) = stream.outcome() else {
        panic!("it completes")
    };
    let messages = serde_json::from_value(output["messages"].clone());
    (events, messages.expect("messages"))
}

/// The nodes and supersteps of messages, and what was emitted of these.
fn parts(events: Vec<StreamEvent>) -> Vec<(String, i64, MessagePart)> {
    let part = |event| match event {
        StreamEvent::Message { part, node, step } => (node, step, part),
        other => panic!("expected messages alone, found {other:?}"),
    };
    events.into_iter().map(part).collect()
}

#[tokio::test]
async fn words_arrive_in_chunks_and_other_messages_whole() {
    let (events, messages) = watched(steps(), Modes::MESSAGES).await;
    let [_, call, result, answer] = messages.as_slice() else { panic!("{messages:?}") };
    let whole = |node: &str, step, message: &Message| {
        let part = MessagePart::Returned(MessageWrite::Put(message.clone()));
        (node.to_owned(), step, part)
    };
    let chunk = |text: &str| {
        let part = MessagePart::Chunk { id: answer.id.clone(), text: text.to_owned() };
        ("model".to_owned(), 3, part)
    };
    let mut expected = vec![whole("model", 1, call), whole("tool", 2, result)];
    expected.extend(ANSWER.split_inclusive(' ').map(chunk));
    assert_eq!(parts(events), expected);
    assert_eq!(answer.joined_text(), ANSWER);
}

#[tokio::test]
async fn words_of_a_broken_attempt_are_void() {
    let steps = vec![Step::cut("It was "), Step::text("It is.")];
    let (events, messages) = watched(steps, Modes::MESSAGES).await;
    let id = &messages[1].id;
    let mut text = String::new();
    let mut resets = 0;
    for (_, _, part) in parts(events) {
        match part {
            MessagePart::Chunk { id: of, text: chunk } if of == *id => text.push_str(&chunk),
            MessagePart::Reset { id: of } if of == *id => {
                assert_eq!(std::mem::take(&mut text), "It was ");
                resets += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((text.as_str(), resets), ("It is.", 1));
}

#[tokio::test]
async fn every_mode_shows_the_same_run_its_own_way() {
    let kind = |event: &StreamEvent| match event {
        StreamEvent::Values { values, .. } => {
            format!("values {}", values["messages"].as_array().map_or(0, Vec::len))
        }
        StreamEvent::Updates { node, .. } => format!("update {node}"),
        StreamEvent::TaskStarted(task) => format!("start {}", task.name),
        StreamEvent::TaskEnded(task) => format!("end {}", task.name),
        StreamEvent::Checkpoint(snapshot) => format!("checkpoint {:?}", snapshot.next),
        StreamEvent::Debug { step, .. } => format!("debug {step}"),
        other => panic!("{other:?}"),
    };
    let each_node = |what: &str| ["model", "tool", "model"].map(|node| format!("{what} {node}"));
    let tasks = each_node("start").into_iter().zip(each_node("end"));
    let tasks = tasks.flat_map(|(start, end)| [start, end]).collect();
    let checkpoints = [r#"["__start__"]"#, r#"["model"]"#, r#"["tool"]"#, r#"["model"]"#, "[]"];
    let expected: [(Modes, Vec<String>); 6] = [
        (Modes::VALUES, (1..=4).map(|n| format!("values {n}")).collect()),
        (Modes::UPDATES, each_node("update").to_vec()),
        (Modes::TASKS, tasks),
        (Modes::CHECKPOINTS, checkpoints.map(|next| format!("checkpoint {next}")).to_vec()),
        // No node and no tool emits a value.
        (Modes::CUSTOM, Vec::new()),
        (
            Modes::DEBUG,
            [-1, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3].map(|step| format!("debug {step}")).to_vec(),
        ),
    ];
    let (_, plain) = watched(steps(), Modes::NONE).await;
    for (modes, expected) in expected {
        let (events, messages) = watched(steps(), modes).await;
        assert_eq!(events.iter().map(kind).collect::<Vec<_>>(), expected, "{modes:?}");
        let texts = |all: &[Message]| all.iter().map(Message::joined_text).collect::<Vec<_>>();
        assert_eq!(texts(&messages), texts(&plain), "{modes:?}");
    }
}
