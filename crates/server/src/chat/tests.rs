//! Generated sequences of events, in both formats, against what the decoders of front ends accept.

mod decoder;
mod world;

use super::part::ChatPart;
use super::{ChatEncoder, ChatMessage, Protocol};
use decoder::Decoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_testkit::fuzz::Random;
use weftwork_types::event::{AiEvent, AttemptReset, PieceAt, Position, RunEvent};
use weftwork_types::message::{Message, Part, Role, ToolCall};
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{MessageId, RunId, TaskId, ThreadId, Timestamp, ToolCallId};
use world::World;

const SEED: u64 = 21;
/// Sequences in the fast tier, and in the full one.
const SEQUENCES: (usize, usize) = (1_500, 5_000);

fn at(number: u64) -> RunRef {
    let thread = ThreadId::new("t").expect("valid");
    RunRef { thread, run: RunId::new(format!("r{number}")).expect("valid") }
}

/// Encodes the runs of a message: all, or the last one as its client gets it.
fn encode(protocol: Protocol, runs: &[(Vec<RunEvent>, RunOutcome)], whole: bool) -> String {
    let mut encoder = ChatEncoder::new(protocol, ChatMessage::new(&at(1)));
    let mut frames = String::new();
    let mut answers = BTreeMap::new();
    for (number, (events, outcome)) in (1_u64..).zip(runs) {
        let is_last = usize::try_from(number) == Ok(runs.len());
        if whole && number == 1 || !whole && is_last {
            encoder.message.begin_response(&at(number));
            frames.clear();
        }
        encoder.message.run(&at(number), &answers);
        for event in events {
            encoder.message.event(event);
            frames += &encoder.frames();
        }
        if is_last {
            encoder.message.end(outcome);
        } else {
            encoder.message.pause(outcome.questions());
            answers = outcome.questions().iter().map(|one| (one.id, json!("yes"))).collect();
        }
        frames += &encoder.frames();
    }
    frames
}

#[test]
fn generated_sequences_are_accepted_by_the_decoders_of_both_formats() {
    let mut reasons = BTreeMap::<String, usize>::new();
    let mut random = Random::new(SEED);
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let sequences = if is_full { SEQUENCES.1 } else { SEQUENCES.0 };
    for number in 0..sequences {
        let seed = random.below(usize::MAX) as u64;
        let runs = World::new(Random::new(seed)).runs();
        for whole in [true, false] {
            let ui = std::panic::catch_unwind(|| {
                Decoder::ui_stream(&encode(Protocol::UiMessageStream, &runs, whole))
            });
            let lines = std::panic::catch_unwind(|| {
                Decoder::data_stream(&encode(Protocol::DataStream, &runs, whole))
            });
            let Some((ui, lines)) = ui.ok().zip(lines.ok()) else {
                panic!("sequence {number}, seed {seed}, whole {whole}: {runs:#?}");
            };
            assert_eq!((&ui.calls, &ui.results), (&lines.calls, &lines.results), "seed {seed}");
            assert_eq!(ui.finished, lines.finished, "seed {seed}");
            *reasons.entry(ui.finished.unwrap_or_default()).or_default() += 1;
        }
    }
    println!("{sequences} sequences, seed {SEED}: {reasons:?}");
    for reason in ["stop", "tool-calls", "error", "other"] {
        assert!(reasons.get(reason).is_some_and(|count| *count > sequences / 50), "{reasons:?}");
    }
}

fn piece(task: u128, message: &str, text: &str) -> RunEvent {
    let mut at = PieceAt::new(Position::after(1), format!("node{task}"), TaskId(task));
    at.message = Some(MessageId::new(message).expect("valid"));
    let event = AiEvent::TextDelta { delta: text.to_owned() };
    RunEvent { seq: None, piece: Some(at), at: None, event }
}

fn spoken(message: &str, text: &str) -> RunEvent {
    let id = MessageId::new(message).expect("valid");
    let event = AiEvent::MessageFinal { message: Message::text(id, Role::Assistant, text) };
    RunEvent::durable(2, Timestamp(0), event)
}

/// The parts of the response of a run that completes.
fn parts(events: &[RunEvent]) -> Vec<ChatPart> {
    let mut message = ChatMessage::new(&at(1));
    message.begin_response(&at(1));
    events.iter().for_each(|event| message.event(event));
    message.end(&RunOutcome::Completed { output: Value::Null });
    message.take()
}

/// The texts of the blocks of events.
fn blocks(events: &[RunEvent]) -> Vec<String> {
    let mut blocks = Vec::new();
    for part in parts(events) {
        match part {
            ChatPart::TextStart { .. } => blocks.push(String::new()),
            ChatPart::TextDelta { delta, .. } => {
                blocks.last_mut().expect("an open block").push_str(&delta);
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn messages_that_are_produced_at_once_are_not_mixed() {
    let events = [
        piece(1, "a", "Good "),
        piece(2, "b", "Bon"),
        piece(1, "a", "day"),
        piece(2, "b", "jour"),
        spoken("a", "Good day!"),
        piece(2, "b", " Paul"),
        spoken("b", "Bonjour Paul"),
    ];
    assert_eq!(blocks(&events), ["Good day!", "\n\nBonjour Paul"]);
}

#[test]
fn a_final_message_adds_only_what_its_pieces_did_not_have() {
    for said in [vec![], vec!["Good "], vec!["Good ", "day"]] {
        let mut events: Vec<_> = said.iter().map(|text| piece(1, "a", text)).collect();
        events.push(spoken("a", "Good day"));
        events.push(spoken("a", "Good day"));
        assert_eq!(blocks(&events).concat(), "Good day", "{said:?}");
    }
}

#[test]
fn a_retry_of_one_member_voids_no_text_of_another() {
    // Both members have a node of this name.
    let speaks = |bytes, task: u128, id: &str, text: &str| {
        let mut at = PieceAt::new(Position::in_text(0, bytes), "model", TaskId(task));
        at.ns = format!("member{task}:{task:032x}");
        at.message = Some(MessageId::new(id).expect("valid"));
        RunEvent {
            seq: None,
            at: Some(Timestamp(0)),
            piece: Some(at),
            event: AiEvent::TextDelta { delta: text.to_owned() },
        }
    };
    let first = speaks(5, 1, "a", "Good ");
    let other = speaks(9, 2, "b", "Bon");
    let void = AttemptReset::of_task(other.piece.as_ref().expect("a piece"));
    let reset =
        |reset: AttemptReset| RunEvent::durable(1, Timestamp(0), AiEvent::AttemptReset(reset));
    let events = [first.clone(), other, reset(void), spoken("a", "Good day"), spoken("b", "Jour")];
    assert_eq!(blocks(&events), ["Good day", "\n\nJour"]);
    let message = Some(MessageId::new("c").expect("valid"));
    let of_message =
        AttemptReset { message, ..AttemptReset::of_task(first.piece.as_ref().expect("a piece")) };
    let events = [first, reset(of_message), spoken("a", "Good day")];
    assert_eq!(blocks(&events), ["Good day"]);
}

#[test]
fn the_text_of_a_failed_attempt_is_set_apart() {
    let reset = AiEvent::AttemptReset(AttemptReset::of_node("node1"));
    let events =
        [piece(1, "a", "Goo"), RunEvent::durable(1, Timestamp(0), reset), spoken("a", "Good day")];
    assert_eq!(blocks(&events), ["Goo", "\n\n---\n\nGood day"]);
    let is_retry = |part: &ChatPart| matches!(part, ChatPart::Data { name: "retry", .. });
    let starts = |part: &ChatPart| matches!(part, ChatPart::TextStart { .. });
    let parts = parts(&events);
    let retry = parts.iter().position(is_retry).expect("a mark");
    let before = parts.iter().take(retry).filter(|part| starts(part)).count();
    assert_eq!(before, 1, "the void text ends before the mark: {parts:?}");
    let ChatPart::Data { data, .. } = &parts[retry] else { panic!("{parts:?}") };
    assert_eq!(data["void"], json!({"texts": [0], "calls": []}));
    // The log has no text that is void.
    assert_eq!(blocks(&events[1..]), ["Good day"]);
}

/// A message that requests the call `call_1`, of a number.
fn requests(message: &str, number: u64) -> RunEvent {
    let id = ToolCallId::new("call_1").expect("valid");
    let call = ToolCall { id, name: "look".to_owned(), args: json!({"n": number}), shown: None };
    let id = MessageId::new(message).expect("valid");
    let message = Message::new(id, Role::Assistant, vec![Part::ToolCall(call)]);
    RunEvent::durable(1, Timestamp(0), AiEvent::MessageFinal { message })
}

fn starts(task: u128, tool: &str, number: u64) -> RunEvent {
    let tool_call_id = ToolCallId::new("call_1").expect("valid");
    let tool_name = tool.to_owned();
    let args = json!({"n": number});
    let task = Some(TaskId(task));
    let event = AiEvent::ToolCallStart {
        tool_call_id,
        tool_name,
        args,
        charged: true,
        task,
        ns: String::new(),
    };
    RunEvent::durable(1, Timestamp(0), event)
}

fn ends(task: u128, result: &str) -> RunEvent {
    let tool_call_id = ToolCallId::new("call_1").expect("valid");
    let result = json!(result);
    let task = Some(TaskId(task));
    let event = AiEvent::ToolCallResult { tool_call_id, result, is_error: false, task };
    RunEvent::durable(1, Timestamp(0), event)
}

#[test]
fn a_call_that_was_cut_off_has_an_unknown_outcome_unless_a_later_run_has_its_result() {
    let is_fact = |part: &ChatPart| matches!(part, ChatPart::Data { name: "unknown-outcome", .. });
    let cut = |code: &str| {
        let mut end = ends(1, "");
        let AiEvent::ToolCallResult { result, is_error, .. } = &mut end.event else { panic!() };
        *result = json!({"error_code": "execution", "safe_message": "cut off", "code": code});
        *is_error = true;
        end
    };
    let mut events = vec![requests("a", 1), starts(1, "look", 1), cut("W0412")];
    let found = parts(&events);
    assert!(found.iter().any(is_fact), "{found:?}");
    let result = found.iter().find_map(|part| match part {
        ChatPart::CallResult { result, is_error: true, .. } => Some(result["code"].clone()),
        _ => None,
    });
    assert_eq!(result, Some(json!("W0413")));
    events.push(ends(1, "found"));
    let found = parts(&events);
    assert!(!found.iter().any(is_fact), "{found:?}");
    // A call that a person gave up, and one that was not begun.
    assert!(parts(&[requests("a", 1), starts(1, "look", 1), cut("W0413")]).iter().any(is_fact));
    assert!(!parts(&[requests("a", 1)]).iter().any(is_fact));
}

#[test]
fn an_answer_that_the_limit_of_tokens_cut_ends_with_that_reason() {
    let reason = |words: &[Option<&str>]| {
        let events = words.iter().enumerate().map(|(number, word)| {
            let mut said = spoken(&format!("m{number}"), "One two");
            let AiEvent::MessageFinal { message } = &mut said.event else { panic!() };
            if let Some(word) = word {
                let extra = message.extra.get_or_insert_default();
                extra.response_metadata.insert("finish_reason".to_owned(), json!(word));
            }
            said
        });
        let found = parts(&events.collect::<Vec<_>>());
        let Some(ChatPart::Finish { reason, .. }) = found.last() else { panic!("{found:?}") };
        json!(reason)
    };
    assert_eq!(reason(&[Some("length")]), "length");
    assert_eq!(reason(&[Some("content_filter")]), "content-filter");
    assert_eq!(reason(&[Some("length"), None]), "stop");
}

#[test]
fn the_text_of_a_run_that_was_stopped_adds_what_its_pieces_did_not_have() {
    let text_of = |message: &mut ChatMessage| -> String {
        let deltas = message.take().into_iter().filter_map(|part| match part {
            ChatPart::TextDelta { delta, .. } => Some(delta),
            _ => None,
        });
        deltas.collect()
    };
    let stop = || {
        let RunEvent { piece: Some(at), .. } = piece(1, "a", "") else { panic!() };
        let event = AiEvent::TextStopped { at, text: "Good day".to_owned() };
        RunEvent::durable(2, Timestamp(0), event)
    };
    for said in [vec![], vec!["Good "], vec!["Good ", "day"]] {
        let mut message = ChatMessage::new(&at(1));
        message.begin_response(&at(1));
        said.iter().for_each(|text| message.event(&piece(1, "a", text)));
        message.event(&stop());
        message.end(&RunOutcome::cancelled());
        assert_eq!(text_of(&mut message), "Good day", "{said:?}");
    }
    // A run that goes on says it anew.
    let mut message = ChatMessage::new(&at(1));
    message.begin_response(&at(1));
    message.event(&stop());
    message.pause(&[]);
    message.run(&at(2), &BTreeMap::new());
    message.event(&spoken("b", "Hello"));
    message.end(&RunOutcome::cancelled());
    assert_eq!(text_of(&mut message), "Hello");
}

/// The cards of a response: tool, arguments and result of each.
fn cards(events: &[RunEvent]) -> Vec<Value> {
    let mut cards = BTreeMap::<String, Vec<Value>>::new();
    for part in parts(events) {
        match part {
            ChatPart::CallReady { id, name, args, .. } => {
                cards.entry(id).or_default().extend([json!(name), args["n"].clone()]);
            }
            ChatPart::CallResult { id, result, .. } => cards.entry(id).or_default().push(result),
            _ => {}
        }
    }
    cards.into_values().map(Value::from).collect()
}

#[test]
fn calls_of_two_members_with_one_id_are_two_cards() {
    let both = [requests("a", 1), requests("b", 2)];
    let first = [starts(1, "look", 1)];
    let second = [starts(2, "look", 2)];
    let expected = [json!(["look", 1, "one"]), json!(["look", 2, "two"])];
    for order in [[&first, &second], [&second, &first]] {
        let begun: Vec<_> = both.iter().chain(order.into_iter().flatten()).cloned().collect();
        let one = [&begun[..], &[ends(1, "one"), ends(2, "two")]].concat();
        assert_eq!(cards(&one), expected);
        let other = [&begun[..], &[ends(2, "two"), ends(1, "one")]].concat();
        assert_eq!(cards(&other), expected);
    }
}

#[test]
fn the_duration_of_a_call_is_that_of_the_log() {
    let at = |event: RunEvent, ms: i64| RunEvent { at: Some(Timestamp(ms)), ..event };
    let durations = |events: &[RunEvent]| {
        let facts = parts(events).into_iter().filter_map(|part| match part {
            ChatPart::Data { name: "tool-duration", data, lasting: true } => Some(data),
            _ => None,
        });
        facts.collect::<Vec<_>>()
    };
    let events = [requests("a", 1), at(starts(1, "look", 1), 1_000), at(ends(1, "one"), 3_500)];
    assert_eq!(durations(&events), [json!({"toolCallId": "call_1", "durationMs": 2_500})]);
    // A call that was made again took the time of the last one.
    let again = at(starts(1, "look", 1), 3_000);
    let events = [&events[..2], &[again], &events[2..]].concat();
    assert_eq!(durations(&events), [json!({"toolCallId": "call_1", "durationMs": 500})]);
    // The result is that of a person, long after the call.
    let mut said = at(starts(1, "look", 1), 90_000);
    let AiEvent::ToolCallStart { charged, .. } = &mut said.event else { panic!("{said:?}") };
    *charged = false;
    let events = [&events[..2], &[said, at(ends(1, "one"), 90_000)]].concat();
    assert_eq!(durations(&events), [] as [Value; 0]);
    // The call was made by an earlier build, or before the events that are read.
    assert_eq!(durations(&[requests("a", 1), at(ends(1, "one"), 9)]), [] as [Value; 0]);
}

#[test]
fn a_call_of_a_member_has_not_the_card_of_the_call_that_asked_the_member() {
    let events = [
        requests("lead", 1),
        starts(1, "look", 1),
        requests("member", 2),
        starts(2, "look", 2),
        ends(2, "found"),
        ends(1, "reported"),
    ];
    assert_eq!(cards(&events), [json!(["look", 1, "reported"]), json!(["look", 2, "found"])]);
}

#[test]
fn an_answer_counts_its_calls_from_one_again() {
    let events = [
        requests("a", 1),
        starts(1, "look", 1),
        ends(1, "one"),
        requests("b", 2),
        starts(2, "look", 2),
        ends(2, "two"),
    ];
    assert_eq!(cards(&events), [json!(["look", 1, "one"]), json!(["look", 2, "two"])]);
}
