//! An assistant's message, made from the events of the runs that it spans.

mod text;

use super::calls::{CallEnd, Calls, Maker, Named, Origin};
use super::cut::cut_value;
use super::part::{ChatPart, FinishReason, TextKind};
use super::question::{Asked, REQUEST_APPROVAL};
use super::speech::Speech;
use super::usage::CallUsage;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::code::Fault;
use weftwork_types::event::{
    AiEvent, CheckpointStored, Delta, PieceAt, RunEvent, TaskDue, TaskEnd, TextSource,
};
use weftwork_types::id::to_key;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{InterruptId, TaskId};

/// Code of the result with which a call ends that was cut off.
const CUT_OFF: &str = "W0412";

/// The state of a message. It spans a run and the runs that continue it: answers to the questions at
/// which it ended, and wakes. Feed each run in order: [`run`](Self::run), its events, and
/// [`pause`](Self::pause) or [`end`](Self::end).
#[derive(Debug)]
pub(crate) struct ChatMessage {
    id: String,
    run: RunRef,
    /// Parts that were not taken yet.
    parts: Vec<ChatPart>,
    speech: Speech,
    calls: Calls,
    /// Open questions, with the calls that stand for them.
    asked: BTreeMap<InterruptId, Waiting>,
    /// Ids in frames of the calls that stand for questions, of answered ones too.
    cards: BTreeMap<InterruptId, String>,
    /// Namespaces of the graphs of tasks.
    places: BTreeMap<TaskId, Arc<str>>,
    block: Option<Block>,
    blocks: usize,
    /// Number of texts of this response, and the messages of those that are not void.
    texts: usize,
    texts_of: Vec<(TextSource, usize)>,
    /// Text that was the last part that readers show.
    last_text: Option<LastText>,
    step: Option<Step>,
    /// Reason for which the provider cut the text of the last message of a model.
    cut: Option<FinishReason>,
    /// Texts that were being produced when the run was stopped.
    stopped: Vec<(PieceAt, String)>,
    /// Usage of this response, and of the whole message.
    usage: (CallUsage, CallUsage),
}

/// A call that stands for a question: one of its own, or that of the model.
#[derive(Debug)]
struct Waiting {
    call: String,
    /// Task that asks.
    task: TaskId,
    is_own: bool,
}

#[derive(Debug)]
struct Block {
    kind: TextKind,
    id: String,
    by: TextSource,
}

/// The last text of a message.
#[derive(Debug)]
struct LastText {
    by: TextSource,
    /// `true` once the attempt that emitted it has failed.
    is_void: bool,
}

/// The present step.
#[derive(Debug, Default)]
struct Step {
    usage: CallUsage,
    /// Message that the step belongs to, once one speaks.
    by: Option<TextSource>,
}

impl ChatMessage {
    /// Creates the message that begins with a run.
    pub(crate) fn new(first: &RunRef) -> Self {
        Self {
            id: first.run.to_string(),
            run: first.clone(),
            parts: Vec::new(),
            speech: Speech::default(),
            calls: Calls::default(),
            asked: BTreeMap::new(),
            cards: BTreeMap::new(),
            places: BTreeMap::new(),
            block: None,
            blocks: 0,
            texts: 0,
            texts_of: Vec::new(),
            last_text: None,
            step: None,
            cut: None,
            stopped: Vec::new(),
            usage: Default::default(),
        }
    }

    /// Sets the id of the message.
    pub(crate) fn with_id(mut self, id: String) -> Self {
        self.id = id;
        self
    }

    /// Sets the calls of earlier responses that the message has in the client.
    pub(crate) fn with_held(mut self, held: BTreeSet<String>) -> Self {
        self.calls.hold(held);
        self
    }

    /// Returns the ids in frames of the calls that stand for questions.
    pub(crate) fn into_cards(self) -> BTreeMap<InterruptId, String> {
        self.cards
    }

    /// Takes the parts that were added since the last call.
    pub(crate) fn take(&mut self) -> Vec<ChatPart> {
        std::mem::take(&mut self.parts)
    }

    /// Begins a response with a run: later parts belong to it, and open parts to an earlier response.
    pub(crate) fn begin_response(&mut self, first: &RunRef) {
        self.run = first.clone();
        self.parts.clear();
        self.calls.begin_response();
        self.usage.0 = CallUsage::default();
        self.last_text = None;
        self.texts = 0;
        self.texts_of.clear();
        let metadata = json!({"threadId": self.run.thread, "runId": self.run.run});
        self.parts.push(ChatPart::Start { message: self.id.clone(), metadata: metadata.clone() });
        self.add_fact("run", metadata, false);
    }

    /// Begins a run of the message, with the answers to questions of the run before it.
    pub(crate) fn run(&mut self, at: &RunRef, answers: &BTreeMap<InterruptId, Value>) {
        self.run = at.clone();
        // A run that goes on produces the answer anew.
        self.stopped.clear();
        for (id, answer) in answers {
            let Some(Waiting { call, task, is_own }) = self.asked.remove(id) else { continue };
            // The client that answered has the result of a call of an earlier response.
            self.calls.answered(&call, task);
            if is_own {
                let reference = self.reference_of(&call);
                let value = cut_value(answer.clone(), &reference);
                let end = CallEnd { value, is_error: false, at: None };
                self.calls.result(&call, Some(task), end, &mut self.parts);
            }
        }
    }

    /// Adds an event of the present run.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        if let (Some(Delta { kind, text }), Some(at)) = (event.event.delta(), &event.piece) {
            return self.piece(at, kind, text);
        }
        match &event.event {
            AiEvent::AttemptReset(reset) => self.reset(reset),
            AiEvent::MessageFinal { message } => self.message(message),
            AiEvent::TextStopped { at, text } => self.stopped.push((at.clone(), text.clone())),
            AiEvent::ToolCallStart { tool_call_id, tool_name, args, task, ns, charged } => {
                self.open_step();
                let named = Named { id: tool_call_id.as_str(), name: tool_name, args };
                self.add_call(Origin { maker: Maker::Run(*task), ns: Some(ns) }, named);
                self.calls.begin(named.id, *task, event.at, *charged);
            }
            // The call was cut off. Its result may come with a later run of the message.
            AiEvent::ToolCallResult { result, is_error: true, .. } if result["code"] == CUT_OFF => {
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, task } => {
                let end = CallEnd { value: result.clone(), is_error: *is_error, at: event.at };
                self.result(tool_call_id.as_str(), *task, end);
            }
            AiEvent::UsageReport { fact, .. } => self.add_usage(fact.into()),
            AiEvent::Checkpoint(stored) => self.note_checkpoint(stored),
            AiEvent::TasksEnded { ns, ended, .. } => self.end_tasks(ns, ended),
            AiEvent::TasksStarted { ns, tasks, .. } => self.start_tasks(ns, tasks),
            AiEvent::Custom { ns, node, tool_call_id, value } => {
                let mut data = json!({"node": node, "ns": ns, "value": value});
                if let Some(call) = tool_call_id {
                    let call = call.as_str();
                    data["toolCallId"] = json!(self.calls.shown_in(call, ns).unwrap_or(call));
                }
                self.add_fact("custom", data, true);
            }
            AiEvent::StoreUnavailable { fault } => {
                self.add_fact("store", json!({"available": false, "code": fault.code}), false);
            }
            AiEvent::StoreAvailable => self.add_fact("store", json!({"available": true}), false),
            // Questions are added with the outcome, which has all that a person needs to know.
            _ => {}
        }
    }

    /// Ends a run of the message that another one continues, or may continue.
    pub(crate) fn pause(&mut self, questions: &[Interrupt]) {
        self.end_texts();
        self.calls.pause(&mut self.parts);
        let new = |asked: &Asked| !self.asked.contains_key(&asked.interrupt);
        let asked: Vec<_> = questions.iter().filter_map(Asked::of).filter(new).collect();
        for asked in &asked {
            self.open_waiting(asked);
        }
        for asked in asked.iter().filter(|asked| !asked.is_own()) {
            self.open_step();
            self.ask_question(asked);
        }
        self.close_step(FinishReason::ToolCalls);
        for asked in asked.iter().filter(|asked| asked.is_own()) {
            // A step of their own: clients continue once all calls of the last step have results,
            // and the calls that wait for approval have none.
            self.open_step();
            self.ask_question(asked);
        }
        for question in questions {
            if let Ask::Timer { until } = question.ask {
                self.add_fact("timer", json!({"node": question.node, "until": until}), true);
            }
        }
        self.close_step(FinishReason::ToolCalls);
    }

    /// Opens the call that waits for an approval, unless the message that requested it was seen: the log
    /// has no messages of members.
    fn open_waiting(&mut self, asked: &Asked) {
        let Some(call) = asked.waiting.as_ref().filter(|call| call.args.is_object()) else {
            return;
        };
        let place = self.places.get(&asked.task).cloned();
        let at = Origin::task(asked.task, place.as_deref());
        if self.calls.asked(call.named(), at).is_none() {
            self.open_step();
            self.add_call(at, call.named());
        }
    }

    fn ask_question(&mut self, asked: &Asked) {
        let task = asked.task;
        let place = self.places.get(&task).cloned();
        let at = Origin::task(task, place.as_deref());
        let waiting = asked.waiting.as_ref();
        let waiting = waiting.and_then(|call| self.calls.asked(call.named(), at));
        let mut card = asked.call.clone();
        if let Some(members) = card.args.as_object_mut().filter(|_| card.name == REQUEST_APPROVAL) {
            members.insert("toolCallId".to_owned(), json!(waiting));
        }
        // A card of its own is of no graph.
        let at = if asked.is_own() { Origin { ns: Some(""), ..at } } else { at };
        self.add_call(at, card.named());
        let shown = self.calls.asked(card.named(), at).unwrap_or_else(|| card.id.clone());
        let is_approval = card.name == REQUEST_APPROVAL;
        let own = Waiting { call: card.id, task, is_own: asked.is_own() };
        self.asked.insert(asked.interrupt, own);
        self.cards.insert(asked.interrupt, shown.clone());
        // The card of the approval waits too: clients of the AI SDK continue once no call of the last
        // step waits, and the card is a step of its own.
        let card = Some(shown.clone()).filter(|_| is_approval);
        for call in waiting.into_iter().chain(card) {
            if self.calls.is_with_client(&call) {
                self.parts.push(ChatPart::ApprovalRequest { id: asked.id.clone(), call });
            }
        }
        let mut fact = asked.fact.clone();
        fact["toolCallId"] = json!(shown);
        self.add_fact("question", fact, true);
    }

    /// Ends the response with the outcome of its last run.
    pub(crate) fn end(&mut self, outcome: &RunOutcome) {
        let reason = match outcome {
            RunOutcome::Interrupted { questions, .. } => {
                self.pause(questions);
                let asks = questions.iter().any(Interrupt::asks);
                if asks { FinishReason::ToolCalls } else { FinishReason::Other }
            }
            RunOutcome::Completed { .. } => self.ended_with(self.cut.unwrap_or(FinishReason::Stop)),
            RunOutcome::Cancelled { reason } => {
                self.speak_stopped();
                let end = self.ended_with(FinishReason::Other);
                let reason = reason.clone().unwrap_or_else(|| "the run was cancelled".to_owned());
                self.parts.push(ChatPart::Abort { reason });
                end
            }
            RunOutcome::LimitReached { step_limit } => {
                let end = self.ended_with(FinishReason::Error);
                let text = format!("the run reached its limit of {step_limit} supersteps");
                self.parts.push(ChatPart::Error { text });
                end
            }
            RunOutcome::Failed { fault } => {
                let end = self.ended_with(FinishReason::Error);
                self.parts.push(ChatPart::Error { text: error_text(fault) });
                end
            }
        };
        self.finish_with(reason);
    }

    /// Ends a message that no run made.
    pub(crate) fn finish(&mut self) {
        let reason = self.ended_with(self.cut.unwrap_or(FinishReason::Stop));
        self.finish_with(reason);
    }

    fn finish_with(&mut self, reason: FinishReason) {
        let (usage, all) = self.usage;
        let metadata = json!({
            "threadId": self.run.thread,
            "runId": self.run.run,
            "usage": all.with_total(),
        });
        self.parts.push(ChatPart::Finish { reason, usage, metadata });
    }

    fn ended_with(&mut self, reason: FinishReason) -> FinishReason {
        self.end_texts();
        if self.calls.are_open() {
            self.open_step();
            self.calls.end(&mut self.parts);
        }
        self.close_step(reason);
        reason
    }

    fn add_call(&mut self, origin: Origin<'_>, named: Named<'_>) {
        self.close_block();
        self.last_text = None;
        let reference = self.reference_of(named.id);
        self.calls.ready(origin, named, &reference, &mut self.parts);
    }

    fn result(&mut self, id: &str, task: Option<TaskId>, end: CallEnd) {
        if !self.calls.awaits_result(id, task) {
            return;
        }
        self.close_block();
        self.last_text = None;
        self.open_step();
        let value = cut_value(end.value, &self.reference_of(id));
        self.calls.result(id, task, CallEnd { value, ..end }, &mut self.parts);
    }

    /// Returns the place where the whole value of a call is read.
    fn reference_of(&self, call: &str) -> String {
        format!("{}/{}/{}", self.run.thread.to_key(), self.run.run, to_key(call))
    }

    fn note_checkpoint(&mut self, stored: &CheckpointStored) {
        self.end_tasks(&stored.ns, &stored.ended);
        let CheckpointStored { id, ns, step, source, due, .. } = stored;
        let data = json!({"checkpointId": id, "ns": ns, "step": step, "source": source});
        self.add_fact("checkpoint", data, false);
        self.start_tasks(ns, due);
    }

    fn start_tasks(&mut self, ns: &str, tasks: &[TaskDue]) {
        let place = Arc::<str>::from(ns);
        self.places.extend(tasks.iter().map(|task| (task.id, Arc::clone(&place))));
        for task in tasks.iter().filter(|task| !task.finished) {
            self.note_node(ns, &task.node, "started");
        }
    }

    fn end_tasks(&mut self, ns: &str, ended: &[TaskEnd]) {
        for end in ended {
            self.speech.end_task(end.id);
            self.note_node(ns, &end.node, "ended");
        }
        self.speak_held();
    }

    fn note_node(&mut self, ns: &str, node: &str, status: &str) {
        self.add_fact("node", json!({"node": node, "ns": ns, "status": status}), false);
    }

    fn add_fact(&mut self, name: &'static str, data: Value, lasting: bool) {
        if lasting {
            self.close_block();
        }
        let data = cut_value(data, self.run.run.as_str());
        self.parts.push(ChatPart::Data { name, data, lasting });
    }

    fn add_usage(&mut self, usage: CallUsage) {
        self.usage.0 = self.usage.0 + usage;
        self.usage.1 = self.usage.1 + usage;
        self.open_step();
        if let Some(step) = &mut self.step {
            step.usage = step.usage + usage;
        }
    }

    /// Begins the step of a message, unless it is the present one. Members of a team that request calls
    /// at a time share a step: readers look for a call whose arguments become complete in the last one.
    fn begin_step_of(&mut self, who: &TextSource) {
        let other = |step: &Step| step.by.as_ref().is_some_and(|by| by != who);
        if self.step.as_ref().is_some_and(other) && !self.calls.await_arguments() {
            self.close_step(FinishReason::ToolCalls);
        }
        self.open_step();
        if let Some(step) = &mut self.step {
            step.by.get_or_insert_with(|| who.clone());
        }
    }

    fn open_step(&mut self) {
        if self.step.is_none() {
            self.step = Some(Step::default());
            self.parts.push(ChatPart::StepStart { message: self.id.clone() });
        }
    }

    fn close_step(&mut self, reason: FinishReason) {
        self.close_block();
        if let Some(step) = self.step.take() {
            self.parts.push(ChatPart::StepFinish { reason, usage: step.usage });
        }
    }
}

/// Returns the text of a failure for a user: its safe message and its code.
fn error_text(fault: &Fault) -> String {
    format!("{} ({})", fault.message, fault.code)
}
