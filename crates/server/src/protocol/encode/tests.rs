//! The events of hand-made output, compared with recorded ones of LangGraph's server.

use super::*;
use weftwork_types::event::{AttemptReset, PieceAt, ToolCallPart};
use weftwork_types::message::Message;
use weftwork_types::run::RunStatus;
use weftwork_types::{MessageId, TaskId, ToolCallId};

const MESSAGE: &str = "lc_run--01a1ffc8-21de-76c6-ac4e-300d63e33682";

/// The recorded events of a stream. Ids and times are masked, and nothing else.
fn recorded(text: &str) -> Vec<Value> {
    let read = |line: &str| masked(serde_json::from_str(line).expect("JSON"));
    text.lines().map(read).collect()
}

fn masked(mut event: Value) -> Value {
    for place in ["/event_id", "/seq", "/params/timestamp", "/params/data/interrupt_id"] {
        if let Some(value) = event.pointer_mut(place) {
            *value = "*".into();
        }
    }
    event
}

fn new_encoder() -> Encoder {
    let run = RunId::new("01a1ffc8-1e3c-71ea-aaad-ccf9a8040031").expect("valid");
    Encoder::new(run, 0, "agent".to_owned(), Modes::MESSAGES | Modes::VALUES)
}

/// An encoder of a run that has begun.
fn encoder() -> Encoder {
    let mut encoder = new_encoder();
    let begun =
        encoder.output(&log(1, AiEvent::RunStarted { graph: "agent".to_owned(), continues: None }));
    assert_eq!(begun[0].event.data["event"], "running");
    encoder
}

fn log(seq: u64, event: AiEvent) -> RunOutput {
    RunOutput::Event(Box::new(RunEvent::durable(seq, Timestamp(1), event)))
}

fn piece(seq: u64, bytes: u64, message: &str, node: &str, event: AiEvent) -> RunOutput {
    let end = Position::in_text(seq, bytes);
    let message = Some(MessageId::new(message).expect("valid"));
    let at = PieceAt { message, ..PieceAt::new(end, node, TaskId(1)) };
    RunOutput::Event(Box::new(RunEvent {
        seq: None,
        piece: Some(at),
        at: Some(Timestamp(1)),
        event,
    }))
}

fn text(seq: u64, bytes: u64, message: &str, delta: &str) -> RunOutput {
    piece(seq, bytes, message, "agent", AiEvent::TextDelta { delta: delta.to_owned() })
}

fn frame(seq: u64, part: u64, event: StreamEvent) -> RunOutput {
    let position = Position { part, ..Position::after(seq) };
    let content = FrameContent::Item(StreamItem { ns: Vec::new(), event });
    RunOutput::Frame(std::sync::Arc::new(Frame { position, at: Timestamp(1), content }))
}

fn values(seq: u64, values: Value) -> RunOutput {
    frame(seq, 1 + (2 << 16), StreamEvent::Values { values, interrupts: None })
}

fn returned(seq: u64, message: Value) -> RunOutput {
    let message: Message = serde_json::from_value(message).expect("a message");
    let part = MessagePart::Returned(MessageWrite::Put(message));
    frame(seq, 1, StreamEvent::Message { part, node: "agent".to_owned(), step: 1 })
}

fn answer(id: &str, parts: Value) -> Value {
    json!({"id": id, "role": "assistant", "parts": parts})
}

fn all(encoder: &mut Encoder, output: &[RunOutput]) -> Vec<Event> {
    output.iter().flat_map(|output| encoder.output(output)).map(|numbered| numbered.event).collect()
}

fn done(seq: u64, outcome: RunStatus) -> RunOutput {
    log(seq, AiEvent::Done { outcome })
}

fn conversation() -> (Value, Value) {
    let question = json!({"id": "ae4b7669-0531-4928-9a03-ca8dd6449633", "role": "user",
        "parts": [{"type": "text", "text": "2+3?"}]});
    (question, answer(MESSAGE, json!([{"type": "text", "text": "Let me add these"}])))
}

/// The output of a run whose message is received as it is made.
fn live() -> Vec<RunOutput> {
    let (question, answered) = conversation();
    let mut output = vec![
        log(1, AiEvent::RunStarted { graph: "agent".to_owned(), continues: None }),
        values(2, json!({"messages": [question]})),
    ];
    let mut bytes = 0;
    for delta in ["Let", " ", "me", " ", "add", " ", "these"] {
        bytes += delta.len() as u64;
        output.push(text(2, bytes, MESSAGE, delta));
    }
    output.extend([
        returned(3, answered.clone()),
        values(3, json!({"messages": [question, answered]})),
        done(4, RunStatus::Completed),
    ]);
    output
}

#[test]
fn the_events_of_a_message_are_the_recorded_ones() {
    let events = all(&mut new_encoder(), &live());
    let found: Vec<_> = events.iter().map(|event| masked(event.to_json())).collect();
    let recorded = recorded(include_str!("../../../tests/recorded/protocol/agent.jsonl"));
    assert_eq!(found, recorded);
    let text = |event: &Value| event.to_string();
    let texts: Vec<_> = found.iter().map(text).collect();
    assert_eq!(texts, recorded.iter().map(text).collect::<Vec<_>>(), "and the order of members");
    assert!(events.is_sorted_by(|before, after| before.seq < after.seq));
}

#[test]
fn ids_are_the_same_when_a_message_is_received_later() {
    let live = live();
    let first = all(&mut new_encoder(), &live);
    // Partial text is void when the message is final.
    let stored: Vec<_> = live
        .into_iter()
        .filter(|output| !matches!(output, RunOutput::Event(event) if event.piece.is_some()))
        .collect();
    let later = all(&mut new_encoder(), &stored);
    let id = |event: &Event| event.id.clone();
    let known: Vec<_> = first.iter().map(id).collect();
    assert!(later.iter().all(|event| known.contains(&event.id)), "{later:?}");
    let start = later.iter().find(|event| event.data["event"] == "content-block-start");
    let start = start.expect("the block starts");
    assert_eq!(start.data["content"]["text"], "Let me add these", "with all its text");
    let last = |events: &[Event]| {
        let finish = |event: &&Event| event.data["event"] == "message-finish";
        events.iter().find(finish).map(|event| event.seq)
    };
    assert_eq!(last(&first), last(&later), "a client that has it receives it once");
}

#[test]
fn blocks_do_not_overlap_and_are_completed_by_the_final_message() {
    let call = |delta: &str| AiEvent::ToolCallDelta {
        call: ToolCallPart {
            tool_call_id: ToolCallId::new("c1").expect("valid"),
            tool_name: "add".to_owned(),
            index: 0,
        },
        delta: delta.to_owned(),
    };
    let reasoning = AiEvent::ReasoningDelta { delta: "a sum".to_owned() };
    let parts = json!([
        {"type": "reasoning", "text": "a sum"},
        {"type": "text", "text": "Let me"},
        {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 2}},
        {"type": "tool_call", "id": "c2", "name": "add", "args": {}},
    ]);
    let output = [
        piece(1, 5, "m", "agent", reasoning),
        text(1, 8, "m", "Let"),
        text(1, 11, "m", " me"),
        piece(1, 15, "m", "agent", call("{\"a\"")),
        piece(1, 18, "m", "agent", call(":2}")),
        returned(2, answer("m", parts)),
    ];
    let events = all(&mut encoder(), &output);
    let says = |event: &Event| {
        let kind = event.data["event"].as_str().unwrap_or_default().to_owned();
        let content = &event.data["content"];
        let index = event.data["index"].as_u64().map_or(String::new(), |index| index.to_string());
        format!("{kind} {index} {}", content["type"].as_str().unwrap_or_default())
    };
    assert_eq!(
        events.iter().map(says).collect::<Vec<_>>(),
        [
            "message-start  ",
            "content-block-start 0 reasoning",
            "content-block-delta 0 ",
            "content-block-finish 0 reasoning",
            "content-block-start 1 text",
            "content-block-delta 1 ",
            "content-block-delta 1 ",
            "content-block-finish 1 text",
            "content-block-start 2 tool_call_chunk",
            "content-block-delta 2 ",
            "content-block-delta 2 ",
            "content-block-finish 2 tool_call",
            "content-block-start 3 tool_call_chunk",
            "content-block-finish 3 tool_call",
            "message-finish  ",
        ]
    );
    assert_eq!(events[10].data["delta"]["fields"]["args"], "{\"a\":2}");
    assert_eq!(events[11].data["content"]["args"], json!({"a": 2}));
    assert!(events.is_sorted_by(|before, after| before.seq < after.seq));
}

#[test]
fn a_final_message_that_goes_on_adds_the_rest_of_its_text() {
    let parts = json!([{"type": "text", "text": "Let me add"}]);
    let events = all(&mut encoder(), &[text(1, 3, "m", "Let"), returned(2, answer("m", parts))]);
    let deltas: Vec<_> = events.iter().filter_map(|at| at.data["delta"]["text"].as_str()).collect();
    assert_eq!(deltas, ["Let", " me add"]);
    assert_eq!(events[4].data["content"]["text"], "Let me add");
}

#[test]
fn messages_at_the_same_time_are_told_apart() {
    let of = |bytes, message, node| {
        piece(1, bytes, message, node, AiEvent::TextDelta { delta: "x".to_owned() })
    };
    let output = [of(1, "m1", "a"), of(2, "m2", "b"), of(3, "m1", "a"), of(4, "m2", "b")];
    let events = all(&mut encoder(), &output);
    let whose: Vec<_> =
        events.iter().map(|at| (at.node.as_deref(), at.data["message_id"].as_str())).collect();
    let first = (None, None);
    let second = (Some("b"), Some("m2"));
    assert_eq!(whose, [first, first, first, second, second, second, first, second]);
}

#[test]
fn void_text_ends_with_an_error_and_begins_again_under_another_id() {
    let reset = AiEvent::AttemptReset(AttemptReset::of_node("agent"));
    let output = [text(1, 3, "m", "Let"), log(2, reset), text(2, 3, "m", "Add")];
    let events = all(&mut encoder(), &output);
    assert_eq!(
        (&events[3].data["event"], &events[3].data["code"]),
        (&json!("error"), &json!("attempt_reset"))
    );
    assert_eq!(events[4].data["event"], "message-start");
    assert_ne!(events[4].id, events[0].id);
    let ended = all(&mut encoder(), &[text(1, 3, "m", "Let"), done(2, RunStatus::Cancelled)]);
    let last: Vec<_> = ended[3..].iter().map(|at| at.data["event"].clone()).collect();
    assert_eq!(last, ["interrupted", "error"]);
}

#[test]
fn a_retry_of_one_member_ends_no_message_of_another() {
    // Both members have a node of this name.
    let at = |bytes, task: u128| PieceAt {
        message: Some(MessageId::new(format!("m{task}")).expect("valid")),
        ns: format!("member{task}:{task:032x}"),
        ..PieceAt::new(Position::in_text(1, bytes), "model", TaskId(task))
    };
    let say = |at: &PieceAt| {
        let event = AiEvent::TextDelta { delta: "x".to_owned() };
        RunOutput::Event(Box::new(RunEvent {
            seq: None,
            piece: Some(at.clone()),
            at: Some(Timestamp(1)),
            event,
        }))
    };
    for (void, expected) in [(at(2, 2), 1), (at(3, 3), 0)] {
        let reset = AiEvent::AttemptReset(AttemptReset::of_task(&void));
        let output = [say(&at(1, 1)), say(&at(2, 2)), log(2, reset)];
        let events = all(&mut encoder(), &output);
        let errors = events.iter().filter(|event| event.data["event"] == "error");
        assert_eq!(errors.count(), expected);
    }
}

#[test]
fn a_message_that_begins_again_after_a_takeover_has_another_id() {
    let id = |events: Vec<Event>| {
        let start = events.into_iter().find(|event| event.data["event"] == "message-start");
        start.expect("a start").id
    };
    let before = all(&mut encoder(), &[text(1, 3, "m", "Let")]);
    // The log has nothing of the text that a client received before.
    let again = [log(2, AiEvent::TakenOver { claim: 2 }), text(2, 3, "m", "Let")];
    assert_ne!(id(before), id(all(&mut encoder(), &again)));
}

#[test]
fn tools_and_failures_are_events_of_the_log() {
    let id = ToolCallId::new("c1").expect("valid");
    let tool_call_id = id.clone();
    let tool_name = "add".to_owned();
    let result = |result, is_error| AiEvent::ToolCallResult {
        tool_call_id: id.clone(),
        result,
        is_error,
        task: None,
    };
    let mut encoder = encoder();
    let args = json!({"a": 2});
    let output = [
        log(
            1,
            AiEvent::ToolCallStart {
                tool_call_id,
                tool_name,
                args,
                charged: true,
                task: None,
                ns: String::new(),
            },
        ),
        log(2, result(json!(5), false)),
        log(3, result(json!({"message": "no such number"}), true)),
    ];
    let data: Vec<_> = all(&mut encoder, &output).into_iter().map(|event| event.data).collect();
    let message =
        json!({"type": "tool", "content": "5", "tool_call_id": "c1", "status": "success"});
    assert_eq!(
        data,
        [
            json!({"event": "tool-started", "tool_call_id": "c1", "tool_name": "add",
                "input": {"a": 2}}),
            json!({"event": "tool-finished", "tool_call_id": "c1", "output": message}),
            json!({"event": "tool-error", "tool_call_id": "c1", "message": "no such number"}),
        ]
    );
    encoder.fail("boom!".to_owned());
    let failed = all(&mut encoder, &[done(4, RunStatus::Failed)]);
    let expected = json!({"event": "failed", "graph_name": "agent", "error": "boom!"});
    assert_eq!(failed[0].data, expected);
}

#[test]
fn custom_values_are_payloads() {
    assert_eq!(custom_value_to_json(&json!(7)), json!({"payload": 7}));
    let named = custom_value_to_json(&json!({"name": "progress", "step": 1}));
    let whole = json!({"name": "progress", "step": 1});
    assert_eq!(named, json!({"name": "progress", "step": 1, "payload": whole}));
    let own = json!({"name": "progress", "payload": 3});
    assert_eq!(custom_value_to_json(&own), own);
}

#[test]
fn names_of_events_are_read_back() {
    let events = live();
    let mut encoder = new_encoder();
    let mut places = 0;
    for output in &events {
        for NumberedEvent { event, number } in encoder.output(output) {
            let name = event.id.split_once(':').expect("a run").1;
            if let Some(place) = read_name(name, 0) {
                assert_eq!(place.number(), number, "{name}");
                places += 1;
            }
        }
    }
    assert!(places >= 10, "{places}");
    for bad in ["", "1", "1.x", "m/start", "1.2.3", "1.2.0.3", "+1.2", "1.2.3.4.5"] {
        assert_eq!(read_name(bad, 0), None, "{bad}");
    }
}

/// The text that a reader has which appends what starts and deltas say.
fn read_text(events: &[Event]) -> String {
    let texts = events.iter().filter_map(|event| match event.data["event"].as_str() {
        Some("content-block-start") => event.data["content"]["text"].as_str(),
        Some("content-block-delta") => event.data["delta"]["text"].as_str(),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_client_that_comes_back_after_the_end_gets_the_rest_of_its_text_once() {
    let live = live();
    let first = all(&mut new_encoder(), &live);
    let whole = "Let me add these";
    assert_eq!(read_text(&first), whole);
    let is_piece =
        |output: &&RunOutput| matches!(output, RunOutput::Event(event) if event.piece.is_some());
    let stored: Vec<_> = live.iter().filter(|output| !is_piece(output)).cloned().collect();
    for (seen, last) in first.iter().enumerate() {
        let mut encoder = new_encoder();
        encoder.resume(PartialMessages::read(&last.received).expect("its own form"));
        let later = all(&mut encoder, &stored);
        let later: Vec<_> = later.into_iter().filter(|event| event.seq > last.seq).collect();
        let both = format!("{}{}", read_text(&first[..=seen]), read_text(&later));
        assert_eq!(both, whole, "after {} of {}", seen + 1, first.len());
        let ends = |events: &[Event]| {
            events.iter().filter(|event| event.data["event"] == "message-finish").count()
        };
        assert_eq!(ends(&first[..=seen]) + ends(&later), 1, "after {}", seen + 1);
    }
}
