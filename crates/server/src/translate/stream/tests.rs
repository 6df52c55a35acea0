use super::*;
use serde_json::Map;
use weftwork_types::event::Position;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::RunRef;
use weftwork_types::{MessageId, RunId, ThreadId, Timestamp};

fn id() -> MessageId {
    MessageId::new("m").expect("valid")
}

fn frame(event: Position, part: MessagePart) -> Frame {
    let event_of = StreamEvent::Message { part, node: "model".to_owned(), step: 1 };
    let item = StreamItem { ns: Vec::new(), event: event_of };
    let position = Position { part: 1, ..event };
    Frame { position, at: Timestamp(0), content: FrameContent::Item(item) }
}

fn chunk_at(seq: u64, bytes: u64, text: &str) -> Frame {
    let part = MessagePart::Chunk { id: id(), text: text.to_owned() };
    frame(Position::in_text(seq, bytes), part)
}

fn chunk(bytes: u64, text: &str) -> Frame {
    chunk_at(4, bytes, text)
}

fn translator(mode: &str, received: Received) -> Translator {
    let thread = ThreadId::new("t").expect("valid");
    let at = RunRef { thread, run: RunId::new("r").expect("valid") };
    let run = RunView {
        at,
        graph: "chat".to_owned(),
        assistant: Value::Null,
        created_ms: 0,
        metadata: Map::new(),
    };
    let mut requested = Requested::default();
    assert!(requested.add(mode));
    let stream = super::Stream { requested, subgraphs: false, from_start: false };
    Translator::new(run, stream, received, &RunInput::Continue)
}

fn read(translator: &mut Translator, frame: Frame) -> Vec<NamedEvent> {
    translator.events(RunOutput::Frame(Arc::new(frame)))
}

fn events_of(mode: &str, received: Received, frames: Vec<Frame>) -> Vec<NamedEvent> {
    let mut translator = translator(mode, received);
    frames.into_iter().flat_map(|frame| read(&mut translator, frame)).collect()
}

/// The id that a client sends after these frames.
fn after(frames: &[Frame]) -> Received {
    let mut translator = translator("messages-tuple", Received::default());
    frames.iter().for_each(|frame| drop(read(&mut translator, frame.clone())));
    translator.id().parse().expect("its own form")
}

fn events(mode: &str, received: Received) -> Vec<NamedEvent> {
    events_of(mode, received, vec![chunk(2, "Go"), chunk(5, "od "), chunk(8, "day")])
}

#[test]
fn partial_messages_are_whole_also_after_a_reconnect() {
    let all = events("messages", Received::default());
    let names: Vec<_> = all.iter().map(|event| event.0.as_str()).collect();
    let partial = "messages/partial";
    assert_eq!(names, ["messages/metadata", partial, partial, partial]);
    let texts: Vec<_> = all[1..].iter().map(|event| event.1[0]["content"].clone()).collect();
    assert_eq!(texts, ["Go", "Good ", "Good day"]);
    let rest = events("messages", after(&[chunk(2, "Go"), chunk(5, "od ")]));
    assert_eq!(rest, all[3..]);
}

#[test]
fn chunks_of_messages_have_their_node() {
    let all = events("messages-tuple", Received::default());
    assert_eq!(all.len(), 3);
    assert_eq!((&*all[1].0, &all[1].1[0]["content"]), ("messages", &json!("od ")));
    assert_eq!(all[1].1[1]["langgraph_node"], "model");
}

#[test]
fn a_message_whose_text_is_void_is_sent_whole() {
    let at = Position::after;
    let said = Message::text(id(), Role::Assistant, "Hello");
    let returned = || frame(at(7), MessagePart::Returned(MessageWrite::Put(said.clone())));
    let reset = frame(at(5), MessagePart::Reset { id: id() });
    let again = || [chunk_at(6, 3, "Hel"), chunk_at(6, 5, "lo"), returned()];
    let kinds = |events: &[NamedEvent]| -> Vec<(Value, Value)> {
        events
            .iter()
            .map(|event| (event.1[0]["type"].clone(), event.1[0]["content"].clone()))
            .collect()
    };
    let part = |text: &str| (json!("AIMessageChunk"), json!(text));
    let whole = (json!("ai"), json!("Hello"));
    // The attempt fails while the client reads.
    let frames = [chunk(2, "Go"), reset.clone()].into_iter().chain(again());
    let found = events_of("messages-tuple", Received::default(), frames.collect());
    assert_eq!(kinds(&found), [part("Go"), whole.clone()]);
    // It failed before the client came back, and the log has nothing of its text.
    let found = events_of("messages-tuple", after(&[chunk(2, "Go")]), again().into());
    assert_eq!(kinds(&found), [whole]);
    // The client has nothing of it.
    let found = events_of("messages-tuple", after(&[reset]), again().into());
    assert_eq!(kinds(&found), [part("Hel"), part("lo"), part("")]);
    // A text that is not void goes on.
    let frames = vec![chunk(2, "Hel"), chunk(5, "lo"), returned()];
    let found = events_of("messages-tuple", after(&[chunk(2, "Hel")]), frames);
    assert_eq!(kinds(&found), [part("lo"), part("")]);
    // The message is final, and the log has nothing of its text.
    let found = events_of("messages-tuple", after(&[chunk(2, "Hel")]), vec![returned()]);
    assert_eq!(kinds(&found), [part("lo")]);
    let all = after(&[chunk(2, "Hel"), chunk(5, "lo")]);
    assert_eq!(kinds(&events_of("messages-tuple", all, vec![returned()])), [part("")]);
}

#[test]
fn stored_text_is_cut_at_the_position_of_the_client() {
    let received = after(&[chunk(2, "Go"), chunk(5, "od ")]);
    let found = events_of("messages-tuple", received, vec![chunk(8, "Good day")]);
    assert_eq!(found[0].1[0]["content"], "day");
}

#[test]
fn requested_modes_have_their_names() {
    let all = "values,updates,tasks,checkpoints,custom,debug,messages,messages-tuple,events";
    for names in [all, "events", "custom,messages-tuple"] {
        let mut requested = Requested::default();
        assert!(names.split(',').all(|name| requested.add(name)));
        assert_eq!(requested.names(), names);
    }
}

#[test]
fn other_texts_are_no_ids() {
    for text in ["", "1", "x-1", "1-2-3", "1-2-0123", "1-2-01234567.1"] {
        let refused = text.parse::<Received>().expect_err(text);
        assert_eq!(refused.found, text);
    }
}
