//! The answer of a run: its items, made from the events of the log in their order.
//!
//! A reader turns events into steps, which streams show as they come, and has the answer at the end. Only
//! messages of the outermost graph are part of it: the agents that an agent asks are its own matter.

use crate::approval::ApprovalId;
use crate::page::PageAddress;
use std::collections::BTreeSet;
use weftwork_types::MessageId;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, PieceAt, RunEvent, TextSource};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::usage::Tokens;

/// An item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// A message, or a question that is answered on the page.
    Message { id: String, text: String },
    /// A call that waits for an approval.
    Approval { id: ApprovalId, tool: String, args: String, question: String },
}

/// A step of an answer that is being produced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A message begins.
    Begins { id: String },
    /// A part of its text.
    Text(String),
    /// It ends.
    Ends { id: String, text: String },
    /// The attempt that emitted it failed: its text is void.
    Void { id: String, text: String },
    /// A call waits for an approval.
    Asks(Item),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// It has answered, or asks.
    Answered(Cut),
    Failed(Fault),
    Cancelled,
    /// It reached its limit of supersteps.
    Limit(u32),
}

/// The reason for which a provider cut the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cut {
    /// It is whole.
    #[default]
    Whole,
    Length,
    Filter,
}

impl Cut {
    fn of(message: &Message) -> Self {
        let metadata = message.extra.as_ref().map(|extra| &extra.response_metadata);
        match metadata.and_then(|of| of.get("finish_reason")?.as_str()) {
            Some("length") => Self::Length,
            Some("content_filter") => Self::Filter,
            _ => Self::Whole,
        }
    }
}

/// The answer of a run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) items: Vec<Item>,
    pub(crate) tokens: Tokens,
    pub(crate) end: End,
}

/// A message that is being produced.
#[derive(Debug)]
struct OpenMessage {
    id: String,
    at: PieceAt,
    text: String,
}

/// Reads the events of a run.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    run: RunRef,
    page: PageAddress,
    items: Vec<Item>,
    open: Option<OpenMessage>,
    finals: BTreeSet<MessageId>,
    /// Number of void messages.
    void: usize,
    tokens: Tokens,
    cut: Cut,
}

impl AnswerReader {
    pub(crate) fn new(run: RunRef, page: PageAddress) -> Self {
        Self {
            run,
            page,
            items: Vec::new(),
            open: None,
            finals: BTreeSet::new(),
            void: 0,
            tokens: Tokens::default(),
            cut: Cut::default(),
        }
    }

    /// Reads the next event.
    pub(crate) fn read(&mut self, event: &RunEvent) -> Vec<Step> {
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(at)) => self.piece(at, delta),
            (AiEvent::AttemptReset(reset), _) => self.make_void(|at| reset.voids(at)),
            (AiEvent::TakenOver { .. } | AiEvent::Requeued { .. }, _) => self.make_void(|_| true),
            (AiEvent::MessageFinal { message }, _) => self.finish(message),
            (AiEvent::UsageReport { fact, .. }, _) => {
                self.tokens = self.tokens + fact.tokens;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Reads the outcome, after all events.
    pub(crate) fn end(mut self, outcome: RunOutcome) -> (Vec<Step>, Answer) {
        // Text of no message is that of a message that the run did not finish.
        let mut steps = match outcome {
            RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. } => self.close(),
            _ => self.make_void(|_| true),
        };
        let end = match outcome {
            RunOutcome::Completed { output } => {
                if self.items.is_empty() {
                    steps.extend(self.whole(&content_of(&output)));
                }
                End::Answered(self.cut)
            }
            RunOutcome::Interrupted { questions, .. } => {
                for question in questions.iter().filter(|question| question.asks()) {
                    steps.extend(self.ask(question));
                }
                End::Answered(Cut::Whole)
            }
            RunOutcome::LimitReached { step_limit } => End::Limit(step_limit),
            RunOutcome::Cancelled { .. } => End::Cancelled,
            RunOutcome::Failed { fault } => End::Failed(fault),
        };
        let Self { items, tokens, .. } = self;
        (steps, Answer { items, tokens, end })
    }

    fn piece(&mut self, at: &PieceAt, delta: &str) -> Vec<Step> {
        let is_final = at.message.as_ref().is_some_and(|id| self.finals.contains(id));
        if !at.ns.is_empty() || delta.is_empty() || is_final {
            return Vec::new();
        }
        let mut steps = Vec::new();
        match &mut self.open {
            // One message at a time: the others are emitted when they are final.
            Some(open) if TextSource::of(&open.at) != TextSource::of(at) => return steps,
            Some(open) => {
                open.at = at.clone();
                open.text.push_str(delta);
            }
            None => {
                let id = self.next_id();
                steps.push(Step::Begins { id: id.clone() });
                self.open = Some(OpenMessage { id, at: at.clone(), text: delta.to_owned() });
            }
        }
        steps.push(Step::Text(delta.to_owned()));
        steps
    }

    fn finish(&mut self, message: &Message) -> Vec<Step> {
        if message.role != Role::Assistant || !self.finals.insert(message.id.clone()) {
            return Vec::new();
        }
        self.cut = Cut::of(message);
        let text = message.joined_text();
        let is_of = |open: &OpenMessage| open.at.message.as_ref() == Some(&message.id);
        if !self.open.as_ref().is_some_and(is_of) {
            // The log has this message before the one that is being emitted, which comes again.
            let mut steps = self.make_void(|_| true);
            steps.extend(self.whole(&text));
            return steps;
        }
        let emitted = self.open.as_ref().map_or("", |open| open.text.as_str());
        let Some(rest) = text.strip_prefix(emitted).map(str::to_owned) else {
            // The parts were of an attempt of which the log has no reset.
            let mut steps = self.make_void(|_| true);
            steps.extend(self.whole(&text));
            return steps;
        };
        let mut steps = Vec::new();
        if let Some(open) = self.open.as_mut().filter(|_| !rest.is_empty()) {
            open.text.push_str(&rest);
            steps.push(Step::Text(rest));
        }
        steps.extend(self.close());
        steps
    }

    /// Emits a message at once.
    fn whole(&mut self, text: &str) -> Vec<Step> {
        if text.trim().is_empty() {
            return Vec::new();
        }
        let id = self.next_id();
        let text = text.to_owned();
        self.items.push(Item::Message { id: id.clone(), text: text.clone() });
        vec![Step::Begins { id: id.clone() }, Step::Text(text.clone()), Step::Ends { id, text }]
    }

    fn close(&mut self) -> Vec<Step> {
        let Some(OpenMessage { id, text, .. }) = self.open.take() else { return Vec::new() };
        self.items.push(Item::Message { id: id.clone(), text: text.clone() });
        vec![Step::Ends { id, text }]
    }

    fn make_void(&mut self, is_void: impl Fn(&PieceAt) -> bool) -> Vec<Step> {
        let Some(OpenMessage { id, text, .. }) = self.open.take_if(|open| is_void(&open.at)) else {
            return Vec::new();
        };
        self.void += 1;
        vec![Step::Void { id, text }]
    }

    fn ask(&mut self, question: &Interrupt) -> Vec<Step> {
        let text = question.ask.to_string();
        let Some(request) = question.approval() else {
            return self.whole(&self.page.invite(&text, &self.run.thread));
        };
        let item = Item::Approval {
            id: ApprovalId::new(&self.run.run, question.id),
            tool: request.tool.clone(),
            args: request.args.to_string(),
            question: text,
        };
        self.items.push(item.clone());
        vec![Step::Asks(item)]
    }

    /// Returns the id of the next message: by its place in the answer, and the number of void ones before
    /// it, which only streams show.
    fn next_id(&self) -> String {
        let run = self.run.run.as_str().replace('-', "");
        let place = self.items.len();
        match self.void {
            0 => format!("msg_{run}_{place}"),
            void => format!("msg_{run}_{place}_{void}"),
        }
    }
}

/// Returns the content of the answer of an agent as a text.
fn content_of(output: &serde_json::Value) -> String {
    match output.pointer("/answer/content") {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => format!("{other:#}"),
    }
}
