//! Generated sequences of events, in both formats, against what the decoders of front ends accept.

use super::part::ChatPart;
use super::{ChatMessage, Encoder, Protocol};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_testkit::fuzz::Random;
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest};
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::event::{
    AiEvent, CheckpointSource, CheckpointStored, PieceAt, Position, RunEvent, TaskEnd, TaskStatus,
    ToolCallPart,
};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::message::{Message, Part, Role, ToolCall};
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{
    CheckpointId, InterruptId, InvocationId, MessageId, RunId, TaskId, ThreadId, Timestamp,
    ToolCallId,
};

const SEED: u64 = 21;
const SEQUENCES: usize = 5_000;

/// A run that is generated: speakers that take turns, calls, and an end.
struct World {
    random: Random,
    seq: u64,
    step: i64,
    speakers: Vec<Speaker>,
    /// Accepted calls without a result.
    running: Vec<ToolCallId>,
    /// Requested calls that were not accepted.
    requested: Vec<ToolCall>,
    numbers: u64,
    events: Vec<RunEvent>,
}

/// A task in which a model produces a message.
struct Speaker {
    at: PieceAt,
    text: String,
    calls: Vec<ToolCall>,
    /// JSON text of the call that is produced, and the part of it that was emitted.
    args: Option<(ToolCallPart, String, usize)>,
}

fn at(number: u64) -> RunRef {
    let thread = ThreadId::new("t").expect("valid");
    RunRef { thread, run: RunId::new(format!("r{number}")).expect("valid") }
}

impl World {
    fn new(random: Random) -> Self {
        let (speakers, running, requested) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            random,
            seq: 0,
            step: 0,
            speakers,
            running,
            requested,
            numbers: 0,
            events: Vec::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn log(&mut self, event: AiEvent) {
        self.seq += 1;
        self.events.push(RunEvent::durable(self.seq, Timestamp(0), event));
    }

    fn emit(&mut self, at: PieceAt, event: AiEvent) {
        let piece = Some(at);
        self.events.push(RunEvent { seq: None, piece, at: Some(Timestamp(0)), event });
    }

    fn words(&mut self) -> String {
        let words = ["one ", "zwölf ", "\"q\" ", "\n", "3 ", "\u{1}", "{\"a\":"];
        (0..=self.random.below(3)).map(|_| words[self.random.below(words.len())]).collect()
    }

    fn call_id(&mut self) -> ToolCallId {
        // A repeated attempt may use the id of the attempt that is void.
        let number = if self.random.below(4) == 0 { 1 } else { self.number() };
        ToolCallId::new(format!("call_{number}")).expect("valid")
    }

    fn begin(&mut self) {
        let number = self.number();
        let task = TaskId(u128::from(number));
        let node = ["model", "writer"][self.random.below(2)];
        let mut at = PieceAt::new(Position { seq: self.seq, bytes: 0 }, node, task);
        at.step = self.step;
        at.message = (self.random.below(8) > 0)
            .then(|| MessageId::new(format!("m{number}")).expect("valid"));
        if self.random.below(5) == 0 {
            at.ns = format!("sub:{}", TaskId(9));
        }
        self.speakers.push(Speaker { at, text: String::new(), calls: Vec::new(), args: None });
    }

    fn speak(&mut self) {
        if self.speakers.is_empty() {
            return;
        }
        let who = self.random.below(self.speakers.len());
        let (words, id, kind) = (self.words(), self.call_id(), self.random.below(6));
        let is_open = self.running.contains(&id)
            || self.requested.iter().any(|known| known.id == id)
            || self.speakers.iter().any(|other| other.calls.iter().any(|known| known.id == id));
        let speaker = &mut self.speakers[who];
        let place = speaker.at.clone();
        let event = match (&mut speaker.args, kind) {
            (Some((call, text, done)), _) => {
                let end = text.ceil_char_boundary((*done + 3).min(text.len()));
                let delta = text[*done..end].to_owned();
                let event = AiEvent::ToolCallDelta { call: call.clone(), delta };
                *done = end;
                if *done == text.len() {
                    speaker.args = None;
                }
                event
            }
            (None, 0) => {
                let args = json!({"text": words});
                let index = speaker.calls.len();
                let call = ToolCall {
                    id: id.clone(),
                    name: "find".to_owned(),
                    args: args.clone(),
                    shown: None,
                };
                if is_open {
                    return;
                }
                speaker.calls.push(call);
                let part = ToolCallPart { tool_call_id: id, tool_name: "find".to_owned(), index };
                speaker.args = Some((part.clone(), args.to_string(), 0));
                AiEvent::ToolCallDelta { call: part, delta: String::new() }
            }
            (None, 1) => AiEvent::ReasoningDelta { delta: words },
            (None, _) => {
                speaker.text.push_str(&words);
                AiEvent::TextDelta { delta: words }
            }
        };
        self.emit(place, event);
    }

    /// Ends an attempt that emitted text.
    fn reset(&mut self) {
        let node = ["model", "writer"][self.random.below(2)].to_owned();
        self.speakers.retain(|speaker| speaker.at.node != node);
        self.log(AiEvent::AttemptReset { node });
    }

    fn usage(&mut self) {
        let number = self.number();
        let fact = UsageFact {
            invocation_id: InvocationId::new(format!("i{number}")).expect("valid"),
            attempt: 1,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            status: UsageStatus::Ok,
            error_code: None,
            tokens: Tokens::reported(3, 2),
            cost_micro_usd: None,
            provider_call_id: None,
            prompt_hash: Hash([0; 32]),
            started_at: Timestamp(0),
            latency_ms: 1,
        };
        self.log(AiEvent::UsageReport { fact });
    }

    /// Commits the messages of some speakers.
    fn commit(&mut self) {
        let speakers = std::mem::take(&mut self.speakers);
        let ended: Vec<_> = speakers
            .iter()
            .map(|speaker| TaskEnd::new(speaker.at.task, &speaker.at.node, TaskStatus::Ok))
            .collect();
        let stored = CheckpointStored {
            ns: String::new(),
            id: CheckpointId(1),
            parent: None,
            source: CheckpointSource::Loop,
            step: self.step,
            ended,
            due: Vec::new(),
        };
        self.log(AiEvent::Checkpoint(Box::new(stored)));
        self.step += 1;
        for speaker in speakers {
            let Some(id) = speaker.at.message else { continue };
            let mut parts = vec![Part::Text { text: speaker.text + &self.words() }];
            if self.random.below(3) == 0 {
                // The log has the message alone, as after a restart.
                parts[0] = Part::Text { text: self.words() };
            }
            self.requested.extend(speaker.calls.iter().cloned());
            parts.extend(speaker.calls.into_iter().map(Part::ToolCall));
            let message = Message { id, role: Role::Assistant, parts };
            self.log(AiEvent::MessageFinal { message });
        }
    }

    fn accept(&mut self) {
        if self.requested.is_empty() || self.random.below(5) == 0 {
            // A call that a graph makes by itself.
            let number = self.number();
            let id = ToolCallId::new(format!("own_{number}")).expect("valid");
            self.running.push(id.clone());
            let (tool_name, args) = ("own".to_owned(), json!({}));
            return self.log(AiEvent::ToolCallStart { tool_call_id: id, tool_name, args });
        }
        let at = self.random.below(self.requested.len());
        let ToolCall { id, name, args, .. } = self.requested.remove(at);
        self.running.push(id.clone());
        self.log(AiEvent::ToolCallStart { tool_call_id: id, tool_name: name, args });
    }

    fn result(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let tool_call_id = self.running.remove(self.random.below(self.running.len()));
        let long = self.random.below(200) == 0;
        let result = if long { json!("x".repeat(70_000)) } else { json!({"n": 1}) };
        let is_error = self.random.below(4) == 0;
        self.log(AiEvent::ToolCallResult { tool_call_id, result, is_error });
    }

    fn some_events(&mut self) {
        for _ in 0..self.random.below(32) {
            match self.random.below(20) {
                0 | 1 => self.begin(),
                2..=9 => self.speak(),
                10 => self.reset(),
                11 => self.usage(),
                12 | 13 => self.commit(),
                14 | 15 => self.accept(),
                16 | 17 => self.result(),
                18 => self.log(AiEvent::custom(json!({"progress": 1}))),
                _ => self.log(AiEvent::CallReused { kind: "tool".into(), name: "find".into() }),
            }
        }
    }

    /// Ends the run, with the questions at which it pauses.
    fn end(&mut self) -> RunOutcome {
        match self.random.below(8) {
            0 => self.fail(RunOutcome::Failed {
                fault: Fault::new(weftwork_graph::NODE_FAILED, "a panic"),
            }),
            1 => self.fail(RunOutcome::cancelled()),
            2 => self.fail(RunOutcome::LimitReached { step_limit: 3 }),
            3..=5 => {
                self.commit();
                let mut questions = Vec::new();
                for call in std::mem::take(&mut self.requested) {
                    let ask = self.ask(&call);
                    questions.push(self.question(ask));
                }
                for id in std::mem::take(&mut self.running) {
                    let ask = Ask::Question {
                        question: "How many?".into(),
                        tool_call_id: id.clone(),
                        tool: Some("own".into()),
                    };
                    questions.push(self.question(ask));
                    self.running.push(id);
                }
                let value = Ask::Value { value: json!({"question": "more?"}) };
                questions.push(self.question(value));
                RunOutcome::interrupted(questions)
            }
            _ => {
                self.commit();
                while !self.running.is_empty() {
                    self.result();
                }
                RunOutcome::Completed { output: Value::Null }
            }
        }
    }

    fn fail(&mut self, outcome: RunOutcome) -> RunOutcome {
        // The runner ends its calls also when they are interrupted.
        if self.random.below(2) == 0 {
            while !self.running.is_empty() {
                self.result();
            }
        }
        outcome
    }

    fn ask(&mut self, call: &ToolCall) -> Ask {
        let (tool_call_id, question) = (call.id.clone(), "Really?".to_owned());
        match self.random.below(3) {
            0 => Ask::Question { question, tool_call_id, tool: None },
            1 => Ask::Timer { until: Timestamp(9) },
            _ => Ask::Approval(ApprovalRequest {
                tool_call_id,
                tool: call.name.clone(),
                args: call.args.clone(),
                effect: Effect::ReadOnly,
                binding: Hash([1; 32]),
                reason: "policy".to_owned(),
            }),
        }
    }

    fn question(&mut self, ask: Ask) -> Interrupt {
        let number = u128::from(self.number());
        let schema = ApprovalDecision::schema(Hash([1; 32]), Some(json!({"type": "object"})));
        Interrupt {
            id: InterruptId(number),
            task: TaskId(number),
            node: "tool".to_owned(),
            graph: None,
            ask,
            answer_schema: Some(schema),
            expires_at: None,
            default: None,
            key: None,
        }
    }

    /// Generates the runs of a message.
    fn runs(&mut self) -> Vec<(Vec<RunEvent>, RunOutcome)> {
        let mut runs = Vec::new();
        loop {
            self.some_events();
            let outcome = self.end();
            runs.push((std::mem::take(&mut self.events), outcome));
            let waits = matches!(runs.last(), Some((_, RunOutcome::Interrupted { .. })));
            if !waits || runs.len() == 3 {
                return runs;
            }
            self.requested.clear();
            self.seq = 0;
        }
    }
}

/// Encodes the runs of a message: all, or the last one as its client gets it.
fn encode(protocol: Protocol, runs: &[(Vec<RunEvent>, RunOutcome)], whole: bool) -> String {
    let mut encoder = Encoder::new(protocol, ChatMessage::new(&at(1)));
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

/// The state of a decoder that accepts what all known decoders accept.
#[derive(Default)]
struct Decoder {
    block: Option<String>,
    blocks: BTreeSet<String>,
    /// Calls: `false` until their arguments are complete.
    calls: BTreeMap<String, bool>,
    results: BTreeSet<String>,
    step: bool,
    finished: Option<String>,
}

impl Decoder {
    fn start_call(&mut self, id: &str) {
        assert!(self.calls.insert(id.to_owned(), false).is_none(), "second start of {id}");
    }

    fn piece(&mut self, id: &str) {
        assert_eq!(self.calls.get(id), Some(&false), "a piece for {id}");
    }

    fn complete(&mut self, id: &str) {
        assert_eq!(self.calls.insert(id.to_owned(), true), Some(false), "arguments of {id}");
    }

    fn result(&mut self, id: &str) {
        assert_eq!(self.calls.get(id), Some(&true), "a result before its arguments: {id}");
        assert!(self.results.insert(id.to_owned()), "second result of {id}");
    }

    fn step(&mut self, begins: bool) {
        assert_ne!(self.step, begins, "steps alternate");
        self.step = begins;
    }

    fn finish(&mut self, reason: &str) {
        assert_eq!(self.block, None);
        assert!(self.calls.values().all(|complete| *complete), "open arguments: {:?}", self.calls);
        assert!(!self.step, "an open step");
        let pauses = reason == "tool-calls";
        let open: Vec<_> = self.calls.keys().filter(|id| !self.results.contains(*id)).collect();
        assert!(pauses || reason == "other" || open.is_empty(), "{reason}: {open:?}");
        assert!(self.finished.replace(reason.to_owned()).is_none(), "a second end");
    }

    fn ui_stream(frames: &str) -> Self {
        let mut decoder = Self::default();
        assert!(frames.ends_with("data: [DONE]\n\n"));
        let mut chunks = frames.split_terminator("\n\n").peekable();
        let mut first = true;
        while let Some(chunk) = chunks.next() {
            let data = chunk.strip_prefix("data: ").expect("a frame of data");
            assert!(!data.contains('\n'), "one line: {data}");
            if data == "[DONE]" {
                assert!(decoder.finished.is_some() && chunks.peek().is_none());
                break;
            }
            let chunk: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(first, chunk["type"] == "start", "{chunk}");
            first = false;
            decoder.chunk(&chunk);
        }
        decoder
    }

    fn chunk(&mut self, chunk: &Value) {
        let kind = chunk["type"].as_str().expect("a type");
        let text = |name: &str| chunk[name].as_str().unwrap_or_else(|| panic!("{name}: {chunk}"));
        let is_fact = kind.starts_with("data-") && chunk["transient"] == true;
        let of_block =
            kind.ends_with("-delta") && !kind.starts_with("tool") || kind.ends_with("-end");
        assert!(self.block.is_none() || of_block || is_fact, "within a block: {chunk}");
        assert!(self.finished.is_none(), "after the end: {chunk}");
        match kind {
            "start" => assert!(chunk["messageMetadata"].is_object()),
            "start-step" => self.step(true),
            "finish-step" => {
                assert!(chunk["usage"]["inputTokens"].is_u64());
                self.step(false);
            }
            "reset-step" => assert!(self.step),
            "text-start" | "reasoning-start" => {
                assert!(self.blocks.insert(text("id").to_owned()), "a second block: {chunk}");
                self.block = Some(text("id").to_owned());
            }
            "text-delta" | "reasoning-delta" => {
                assert_eq!(self.block.as_deref(), Some(text("id")));
                assert!(!text("delta").is_empty());
            }
            "text-end" | "reasoning-end" => {
                assert_eq!(self.block.take().as_deref(), Some(text("id")))
            }
            "tool-input-start" => {
                assert!(!text("toolName").is_empty());
                self.start_call(text("toolCallId"));
            }
            "tool-input-delta" => {
                assert!(chunk["inputTextDelta"].is_string());
                self.piece(text("toolCallId"));
            }
            "tool-input-available" => {
                assert!(chunk.get("input").is_some());
                self.complete(text("toolCallId"));
            }
            "tool-output-available" => {
                assert!(chunk["output"].to_string().len() <= super::cut::PART_BYTES_MAX);
                self.result(text("toolCallId"));
            }
            "tool-output-error" => {
                assert!(chunk["errorText"].is_string());
                self.result(text("toolCallId"));
            }
            "tool-approval-request" => {
                assert_eq!(self.calls.get(text("toolCallId")), Some(&true));
                assert!(!self.results.contains(text("toolCallId")));
            }
            "error" | "abort" => {}
            "finish" => self.finish(text("finishReason")),
            kind => assert!(kind.starts_with("data-"), "not known: {chunk}"),
        }
    }

    fn data_stream(frames: &str) -> Self {
        let mut decoder = Self::default();
        assert!(frames.ends_with('\n'));
        for line in frames.lines() {
            let (code, value) = line.split_once(':').expect("a code");
            let value: Value = serde_json::from_str(value).expect("JSON");
            assert!(decoder.finished.is_none(), "after the end: {line}");
            let text =
                |name: &str| value[name].as_str().unwrap_or_else(|| panic!("{name}: {line}"));
            match code {
                "0" | "g" | "3" => assert!(value.is_string()),
                "2" => assert!(value.is_array()),
                "aui-data" => assert!(value["name"].is_string() && value.get("data").is_some()),
                "b" => decoder.start_call(text("toolCallId")),
                "c" if value["isFinal"] == true => decoder.complete(text("toolCallId")),
                "c" => decoder.piece(text("toolCallId")),
                "a" => decoder.result(text("toolCallId")),
                "f" => decoder.step(true),
                "e" => decoder.step(false),
                "k" => {}
                "d" => decoder.finish(text("finishReason")),
                code => panic!("not known: {code}"),
            }
        }
        decoder
    }
}

#[test]
fn generated_sequences_are_accepted_by_the_decoders_of_both_formats() {
    let (mut reasons, mut random) = (BTreeMap::<String, usize>::new(), Random::new(SEED));
    for number in 0..SEQUENCES {
        let seed = random.below(usize::MAX) as u64;
        let runs = World::new(Random::new(seed)).runs();
        for whole in [true, false] {
            let ui = std::panic::catch_unwind(|| {
                Decoder::ui_stream(&encode(Protocol::UiMessageStream, &runs, whole))
            });
            let lines = std::panic::catch_unwind(|| {
                Decoder::data_stream(&encode(Protocol::DataStream, &runs, whole))
            });
            let (Ok(ui), Ok(lines)) = (ui, lines) else {
                panic!("sequence {number}, seed {seed}, whole {whole}: {runs:#?}");
            };
            assert_eq!((&ui.calls, &ui.results), (&lines.calls, &lines.results), "seed {seed}");
            assert_eq!(ui.finished, lines.finished, "seed {seed}");
            *reasons.entry(ui.finished.unwrap_or_default()).or_default() += 1;
        }
    }
    println!("{SEQUENCES} sequences, seed {SEED}: {reasons:?}");
    for reason in ["stop", "tool-calls", "error", "other"] {
        assert!(reasons.get(reason).is_some_and(|count| *count > SEQUENCES / 50), "{reasons:?}");
    }
}

fn piece(task: u128, message: &str, text: &str) -> RunEvent {
    let mut at = PieceAt::new(Position { seq: 1, bytes: 0 }, format!("node{task}"), TaskId(task));
    at.message = Some(MessageId::new(message).expect("valid"));
    let event = AiEvent::TextDelta { delta: text.to_owned() };
    RunEvent { seq: None, piece: Some(at), at: None, event }
}

fn spoken(message: &str, text: &str) -> RunEvent {
    let id = MessageId::new(message).expect("valid");
    let event = AiEvent::MessageFinal { message: Message::text(id, Role::Assistant, text) };
    RunEvent::durable(2, Timestamp(0), event)
}

/// The texts of the blocks of events.
fn blocks(events: &[RunEvent]) -> Vec<String> {
    let mut message = ChatMessage::new(&at(1));
    message.begin_response(&at(1));
    events.iter().for_each(|event| message.event(event));
    message.end(&RunOutcome::Completed { output: Value::Null });
    let mut blocks = Vec::new();
    for part in message.take() {
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
fn the_text_of_a_failed_attempt_is_void() {
    let reset = AiEvent::AttemptReset { node: "node1".to_owned() };
    let events =
        [piece(1, "a", "Goo"), RunEvent::durable(1, Timestamp(0), reset), spoken("a", "Good day")];
    let mut message = ChatMessage::new(&at(1));
    message.begin_response(&at(1));
    events.iter().for_each(|event| message.event(event));
    message.end(&RunOutcome::Completed { output: Value::Null });
    let parts = message.take();
    let reset = parts.iter().position(|part| *part == ChatPart::StepReset).expect("a reset");
    let is_retry = |part: &ChatPart| matches!(part, ChatPart::Data { name: "retry", .. });
    assert!(parts[reset..].iter().any(is_retry), "{parts:?}");
    let mut whole = super::ui_message::UiMessage::default();
    whole.add(parts);
    let whole = whole.into_value();
    let texts: Vec<_> = whole["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(texts.concat().trim(), "Good day");
}
