//! The events of a run, made from the events of its log in their order.
//!
//! Only messages and calls of the outermost graph are part of it: the agents that an agent asks are its own
//! matter. The text of an attempt that failed is void, and no event takes text back; a snapshot of the
//! messages does.

use crate::event::{self, Call, CallResult};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::event::{AiEvent, CheckpointStored, PieceAt, RunEvent, TaskDue, TaskEnd};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::message::{Message, Role, ToolCall};
use weftwork_types::run::{RunOutcome, RunRef, RunStatus};
use weftwork_types::usage::{Tokens, UsageFact};
use weftwork_types::{MessageId, TaskId};

/// A step of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Event(Value),
    /// Text that was emitted is void: the messages of the conversation are due.
    Snapshot,
}

/// Calls that a client has, and those of which it has the results.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenCalls {
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
}

/// A message that is not final.
#[derive(Debug)]
struct OpenMessage {
    /// Origin of its last part.
    at: PieceAt,
    text: String,
    /// Id of the reasoning before the text, as long as it goes on.
    reasoning: Option<String>,
    /// Number of the attempt that emits it.
    attempt: usize,
}

/// Usage of a model.
#[derive(Debug)]
struct ModelUsage {
    provider: String,
    model: String,
    tokens: Tokens,
}

/// Reads the events of a run.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: RunRef,
    seen: SeenCalls,
    /// Messages of the run, as the protocol has them.
    messages: Vec<Value>,
    open: BTreeMap<MessageId, OpenMessage>,
    /// Numbers of the attempts whose text is void, by message.
    void: BTreeMap<MessageId, usize>,
    finals: BTreeSet<MessageId>,
    steps: BTreeMap<TaskId, String>,
    usage: Vec<ModelUsage>,
}

impl RunReader {
    /// Creates the reader of a run for a client that has these calls.
    pub(crate) fn new(run: RunRef, seen: SeenCalls) -> Self {
        Self {
            run,
            seen,
            messages: Vec::new(),
            open: BTreeMap::new(),
            void: BTreeMap::new(),
            finals: BTreeSet::new(),
            steps: BTreeMap::new(),
            usage: Vec::new(),
        }
    }

    /// Reads the next event.
    pub(crate) fn read(&mut self, event: &RunEvent) -> Vec<Step> {
        let mut steps = Vec::new();
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(at)) => self.text(at, delta, &mut steps),
            (AiEvent::ReasoningDelta { delta }, Some(at)) => self.reason(at, delta, &mut steps),
            (AiEvent::AttemptReset(reset), _) => self.make_void(|at| reset.voids(at), &mut steps),
            (AiEvent::TakenOver { .. } | AiEvent::Requeued { .. }, _) => {
                self.make_void(|_| true, &mut steps);
            }
            (AiEvent::MessageFinal { message }, _) => self.finish(message, &mut steps),
            (AiEvent::ToolCallStart { tool_call_id, tool_name, args, ns, .. }, _)
                if ns.is_empty() =>
            {
                let call = Call { id: tool_call_id.as_str(), name: tool_name, args };
                self.call_alone(call, &mut steps);
            }
            (AiEvent::ToolCallResult { tool_call_id, result, is_error, .. }, _) => {
                let call = tool_call_id.as_str();
                let result = CallResult { call, value: result, is_error: *is_error };
                self.result(result, &mut steps);
            }
            (AiEvent::Checkpoint(stored), _) => self.superstep(stored, &mut steps),
            (AiEvent::TasksStarted { ns, tasks, .. }, _) if ns.is_empty() => {
                self.begin_tasks(tasks, &mut steps);
            }
            (AiEvent::TasksEnded { ns, ended, .. }, _) if ns.is_empty() => {
                self.end_tasks(ended, &mut steps);
            }
            (AiEvent::UsageReport { fact, .. }, _) => self.count(fact),
            _ => {}
        }
        steps
    }

    /// Reads the outcome, after all events. What was begun ends here.
    pub(crate) fn end(&mut self, outcome: &RunOutcome) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_kept =
            matches!(outcome, RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. });
        for (id, open) in std::mem::take(&mut self.open) {
            let text = close(&id, &open, &mut steps);
            if is_kept && !text.is_empty() {
                self.messages.push(assistant(id.as_str(), text, Vec::new()));
            }
        }
        if let RunOutcome::Completed { output } = outcome {
            self.answer(output, &mut steps);
        }
        for question in outcome.questions().iter().filter(|question| question.asks()) {
            if let Some(request) = question.approval() {
                let id = request.tool_call_id.as_str();
                self.call_alone(Call { id, name: &request.tool, args: &request.args }, &mut steps);
            }
        }
        let names: BTreeSet<_> = std::mem::take(&mut self.steps).into_values().collect();
        let finished = names.iter().map(|name| Step::Event(event::step("STEP_FINISHED", name)));
        steps.extend(finished);
        steps
    }

    /// Returns `true` if the outcome of a run with this status has messages that its events do not have.
    pub(crate) fn needs_outcome(&self, status: RunStatus) -> bool {
        match status {
            RunStatus::Completed => !self.open.is_empty() || !self.has_answer(),
            RunStatus::Interrupted => true,
            _ => false,
        }
    }

    fn has_answer(&self) -> bool {
        let has_text =
            |message: &Value| message["role"] == "assistant" && message.get("content").is_some();
        self.messages.iter().any(has_text)
    }

    /// Returns the messages of the run, also those that are not final.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let open = self.open.iter().filter(|(_, open)| !open.text.is_empty());
        let open = open.map(|(id, open)| assistant(id.as_str(), &open.text, Vec::new()));
        self.messages.iter().cloned().chain(open).collect()
    }

    /// Returns the messages of a run that has ended, and the calls up to it.
    pub(crate) fn into_messages(self) -> (Vec<Value>, SeenCalls) {
        (self.messages, self.seen)
    }

    /// Returns the usage by model.
    pub(crate) fn usage(&self) -> Vec<Value> {
        let usage = self.usage.iter().map(|ModelUsage { provider, model, tokens }| {
            json!({
                "provider": provider,
                "model": model,
                "inputTokens": tokens.input,
                "outputTokens": tokens.output,
                "totalTokens": tokens.total(),
                "reasoningTokens": tokens.reasoning,
                "cachedInputTokens": tokens.cached,
                "cacheWriteInputTokens": tokens.cache_written,
            })
        });
        usage.collect()
    }

    /// Returns the call that an interrupt is about, if the client has it.
    pub(crate) fn call_of(&self, question: &Interrupt) -> Option<String> {
        let call = match &question.ask {
            Ask::Approval(request) => request.tool_call_id.as_str(),
            Ask::Question { tool_call_id, .. } => tool_call_id.as_str(),
            Ask::Value { .. } | Ask::Timer { .. } => return None,
        };
        self.seen.calls.contains(call).then(|| call.to_owned())
    }

    /// Returns the message that a part belongs to; `None` for parts that clients do not see.
    fn open_at(&mut self, at: &PieceAt) -> Option<(&MessageId, &mut OpenMessage)> {
        let id = at.message.as_ref().filter(|_| at.ns.is_empty())?;
        if self.finals.contains(id) {
            return None;
        }
        let attempt = self.void.get(id).copied().unwrap_or_default();
        if !self.open.contains_key(id) {
            let open =
                OpenMessage { at: at.clone(), text: String::new(), reasoning: None, attempt };
            self.open.insert(id.clone(), open);
        }
        self.open.iter_mut().find(|(open, _)| *open == id)
    }

    fn text(&mut self, at: &PieceAt, delta: &str, steps: &mut Vec<Step>) {
        if delta.is_empty() {
            return;
        }
        let Some((id, open)) = self.open_at(at) else { return };
        open.at = at.clone();
        end_reasoning(open, steps);
        if open.text.is_empty() {
            steps.push(Step::Event(event::text_start(id.as_str())));
        }
        open.text.push_str(delta);
        steps.push(Step::Event(event::text_content(id.as_str(), delta)));
    }

    fn reason(&mut self, at: &PieceAt, delta: &str, steps: &mut Vec<Step>) {
        let Some((id, open)) = self.open_at(at) else { return };
        open.at = at.clone();
        // Reasoning that goes on after text has begun has no place before it.
        if delta.is_empty() || !open.text.is_empty() {
            return;
        }
        if open.reasoning.is_none() {
            let reasoning = format!("{id}-reasoning-{}", open.attempt);
            steps.push(Step::Event(event::of_message("REASONING_START", &reasoning)));
            steps.push(Step::Event(event::reasoning_start(&reasoning)));
            open.reasoning = Some(reasoning);
        }
        if let Some(reasoning) = &open.reasoning {
            steps.push(Step::Event(event::reasoning_content(reasoning, delta)));
        }
    }

    fn make_void(&mut self, is_void: impl Fn(&PieceAt) -> bool, steps: &mut Vec<Step>) {
        let void: Vec<_> = self.open.extract_if(.., |_, open| is_void(&open.at)).collect();
        let mut is_seen = false;
        for (id, open) in void {
            is_seen |= !close(&id, &open, steps).is_empty();
            self.void.insert(id, open.attempt + 1);
        }
        if is_seen {
            steps.push(Step::Snapshot);
        }
    }

    fn finish(&mut self, message: &Message, steps: &mut Vec<Step>) {
        match message.role {
            Role::Assistant => self.finish_answer(message, steps),
            Role::Tool => {
                for result in message.tool_results() {
                    let call = result.tool_call_id.as_str();
                    let is_error = result.is_error;
                    self.result(CallResult { call, value: &result.value, is_error }, steps);
                }
            }
            Role::System | Role::User => {}
        }
    }

    fn finish_answer(&mut self, message: &Message, steps: &mut Vec<Step>) {
        if !self.finals.insert(message.id.clone()) {
            return;
        }
        let id = message.id.as_str();
        let text = message.joined_text();
        let open = self.open.remove(&message.id);
        let emitted = open.as_ref().map_or("", |open| open.text.as_str());
        match (open.as_ref(), text.strip_prefix(emitted)) {
            (Some(open), Some(rest)) if !emitted.is_empty() => {
                if !rest.is_empty() {
                    steps.push(Step::Event(event::text_content(id, rest)));
                }
                close(&message.id, open, steps);
            }
            (open, rest) => {
                if let Some(open) = open {
                    close(&message.id, open, steps);
                }
                // The parts were of an attempt of which the log has no reset.
                if rest.is_none() {
                    steps.push(Step::Snapshot);
                }
                whole(id, &text, steps);
            }
        }
        let mut calls = Vec::new();
        for ToolCall { id: call, name, args, .. } in message.tool_calls() {
            let call = Call { id: call.as_str(), name, args };
            calls.push(call.in_message());
            self.call(call, Some(id), steps);
        }
        if !text.is_empty() || !calls.is_empty() {
            self.messages.push(assistant(id, &text, calls));
        }
    }

    /// Emits a call that no message has.
    fn call_alone(&mut self, call: Call<'_>, steps: &mut Vec<Step>) {
        if self.call(call, None, steps) {
            // Clients make a message with the id of the call.
            self.messages.push(assistant(call.id, "", vec![call.in_message()]));
        }
    }

    /// Emits a call unless the client has it.
    fn call(&mut self, call: Call<'_>, parent: Option<&str>, steps: &mut Vec<Step>) -> bool {
        let is_new = self.seen.calls.insert(call.id.to_owned());
        if is_new {
            steps.extend(call.events(parent).map(Step::Event));
        }
        is_new
    }

    /// Emits the result of a call that the client has.
    fn result(&mut self, result: CallResult<'_>, steps: &mut Vec<Step>) {
        let is_known = self.seen.calls.contains(result.call);
        if is_known && self.seen.results.insert(result.call.to_owned()) {
            steps.push(Step::Event(result.event()));
            self.messages.push(result.message());
        }
    }

    fn superstep(&mut self, stored: &CheckpointStored, steps: &mut Vec<Step>) {
        if stored.ns.is_empty() {
            self.end_tasks(&stored.ended, steps);
            self.begin_tasks(&stored.due, steps);
        }
    }

    fn begin_tasks(&mut self, due: &[TaskDue], steps: &mut Vec<Step>) {
        for TaskDue { id, node, finished, .. } in due {
            if *finished || node.starts_with("__") || self.steps.contains_key(id) {
                continue;
            }
            // A name is open once, however many tasks have it.
            if !self.steps.values().any(|open| open == node) {
                steps.push(Step::Event(event::step("STEP_STARTED", node)));
            }
            self.steps.insert(*id, node.clone());
        }
    }

    fn end_tasks(&mut self, ended: &[TaskEnd], steps: &mut Vec<Step>) {
        for TaskEnd { id, .. } in ended {
            let Some(node) = self.steps.remove(id) else { continue };
            if !self.steps.values().any(|open| *open == node) {
                steps.push(Step::Event(event::step("STEP_FINISHED", &node)));
            }
        }
    }

    fn count(&mut self, fact: &UsageFact) {
        let of =
            self.usage.iter_mut().find(|of| of.provider == fact.provider && of.model == fact.model);
        match of {
            Some(of) => of.tokens = of.tokens + fact.tokens,
            None => self.usage.push(ModelUsage {
                provider: fact.provider.clone(),
                model: fact.model.clone(),
                tokens: fact.tokens,
            }),
        }
    }

    /// Emits the content of an answer of which there is no message.
    fn answer(&mut self, output: &Value, steps: &mut Vec<Step>) {
        if self.has_answer() {
            return;
        }
        let text = match output.pointer("/answer/content") {
            None | Some(Value::Null) => return,
            Some(Value::String(text)) => text.clone(),
            Some(other) => format!("{other:#}"),
        };
        if !text.is_empty() {
            let id = format!("{}-answer", self.run.run);
            whole(&id, &text, steps);
            self.messages.push(assistant(&id, &text, Vec::new()));
        }
    }
}

/// Emits a message at once.
fn whole(id: &str, text: &str, steps: &mut Vec<Step>) {
    if !text.is_empty() {
        steps.push(Step::Event(event::text_start(id)));
        steps.push(Step::Event(event::text_content(id, text)));
        steps.push(Step::Event(event::of_message("TEXT_MESSAGE_END", id)));
    }
}

/// Ends what was begun of a message, and returns its text.
fn close<'o>(id: &MessageId, open: &'o OpenMessage, steps: &mut Vec<Step>) -> &'o str {
    if let Some(reasoning) = &open.reasoning {
        push_reasoning_end(reasoning, steps);
    }
    if !open.text.is_empty() {
        steps.push(Step::Event(event::of_message("TEXT_MESSAGE_END", id.as_str())));
    }
    &open.text
}

fn end_reasoning(open: &mut OpenMessage, steps: &mut Vec<Step>) {
    if let Some(reasoning) = open.reasoning.take() {
        push_reasoning_end(&reasoning, steps);
    }
}

fn push_reasoning_end(reasoning: &str, steps: &mut Vec<Step>) {
    steps.push(Step::Event(event::of_message("REASONING_MESSAGE_END", reasoning)));
    steps.push(Step::Event(event::of_message("REASONING_END", reasoning)));
}

/// A message of the agent as the protocol has it.
fn assistant(id: &str, text: &str, calls: Vec<Value>) -> Value {
    let mut message = json!({"id": id, "role": "assistant"});
    if !text.is_empty() {
        message["content"] = text.into();
    }
    if !calls.is_empty() {
        message["toolCalls"] = calls.into();
    }
    message
}
