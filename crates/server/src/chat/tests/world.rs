//! Generated runs of a message.

use serde_json::{Value, json};
use weftwork_testkit::fuzz::Random;
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest};
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::event::{
    AiEvent, AttemptReset, CheckpointSource, CheckpointStored, PieceAt, Position, RunEvent,
    TaskEnd, TaskStatus, ToolCallPart,
};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::message::{Message, Part, Role, ToolCall};
use weftwork_types::run::RunOutcome;
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{
    CheckpointId, InterruptId, InvocationId, MessageId, TaskId, Timestamp, ToolCallId,
};

/// A run that is generated: speakers that take turns, calls, and an end.
pub(super) struct World {
    random: Random,
    seq: u64,
    step: i64,
    speakers: Vec<Speaker>,
    /// Accepted calls without a result.
    running: Vec<Running>,
    /// Requested calls that were not accepted.
    requested: Vec<ToolCall>,
    numbers: u64,
    events: Vec<RunEvent>,
}

/// A call that a task makes.
#[derive(Clone)]
struct Running {
    id: ToolCallId,
    task: TaskId,
}

/// A task in which a model produces a message.
struct Speaker {
    at: PieceAt,
    text: String,
    calls: Vec<ToolCall>,
    /// JSON text of the call that is produced, and the part of it that was emitted.
    args: Option<(ToolCallPart, String, usize)>,
}

impl World {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            seq: 0,
            step: 0,
            speakers: Vec::new(),
            running: Vec::new(),
            requested: Vec::new(),
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
        let mut at = PieceAt::new(Position::after(self.seq), node, task);
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
        let words = self.words();
        let id = self.call_id();
        let kind = self.random.below(6);
        // Members choose ids that others have at the time.
        let is_open = self.speakers[who].calls.iter().any(|known| known.id == id);
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
        self.log(AiEvent::AttemptReset(AttemptReset::of_node(node)));
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
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        };
        self.log(AiEvent::UsageReport { fact, message: None, finish: None, task: None });
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
            let message = Message::new(id, Role::Assistant, parts);
            self.log(AiEvent::MessageFinal { message });
        }
    }

    fn accept(&mut self) {
        if self.requested.is_empty() || self.random.below(5) == 0 {
            // A call that a graph makes by itself.
            let number = self.number();
            let id = ToolCallId::new(format!("own_{number}")).expect("valid");
            let task = self.task();
            self.running.push(Running { id: id.clone(), task });
            return self.start(id, "own".to_owned(), json!({}), task);
        }
        let at = self.random.below(self.requested.len());
        let ToolCall { id, name, args, .. } = self.requested.remove(at);
        let task = self.task();
        self.running.push(Running { id: id.clone(), task });
        self.start(id, name, args, task);
    }

    fn task(&mut self) -> TaskId {
        TaskId(u128::from(self.number()))
    }

    fn start(&mut self, tool_call_id: ToolCallId, tool_name: String, args: Value, task: TaskId) {
        let task = Some(task);
        let charged = true;
        self.log(AiEvent::ToolCallStart {
            tool_call_id,
            tool_name,
            args,
            charged,
            task,
            ns: String::new(),
        });
    }

    fn result(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let Running { id, task } = self.running.remove(self.random.below(self.running.len()));
        let tool_call_id = id;
        let task = Some(task);
        let long = self.random.below(200) == 0;
        let result = if long { json!("x".repeat(70_000)) } else { json!({"n": 1}) };
        let is_error = self.random.below(4) == 0;
        self.log(AiEvent::ToolCallResult { tool_call_id, result, is_error, task });
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
                    let task = self.task();
                    questions.push(self.question(ask, task));
                }
                for running in self.running.clone() {
                    let ask = Ask::Question {
                        question: "How many?".into(),
                        tool_call_id: running.id,
                        tool: Some("own".into()),
                    };
                    questions.push(self.question(ask, running.task));
                }
                let value = Ask::Value { value: json!({"question": "more?"}) };
                let task = self.task();
                questions.push(self.question(value, task));
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
        let tool_call_id = call.id.clone();
        let question = "Really?".to_owned();
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

    fn question(&mut self, ask: Ask, task: TaskId) -> Interrupt {
        let number = u128::from(self.number());
        let schema = ApprovalDecision::schema(Hash([1; 32]), Some(json!({"type": "object"})));
        Interrupt {
            id: InterruptId(number),
            task,
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
    pub(super) fn runs(&mut self) -> Vec<(Vec<RunEvent>, RunOutcome)> {
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
