//! Calls with effects that new input leaves behind: those of the runs that it replaces, and those that
//! a thread has made after the checkpoint at which it was forked.
//!
//! The state from which such input begins does not have them, and nothing takes their effects back. So
//! they are added to the conversation after the input, each with its outcome, and the model reads that
//! they were made. They are read from the logs of the runs: checkpoints of what was left may be
//! deleted.

use super::claimed::ClaimedRun;
use crate::fork::fork_origins;
use crate::thread_snapshot::ThreadSnapshot;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::StateQuery;
use weftwork_store::{Base, RunRow, StoreError, by_execution};
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::port::CallKind;
use weftwork_types::run::{Durability, RunInput};
use weftwork_types::tool::{Effect, ToolFailure, wire_name};
use weftwork_types::{CheckpointId, MessageId, RunId, ThreadId, Timestamp, ToolCallId};

/// Maximum number of events read at once.
const EVENTS_AT_ONCE: usize = 1_000;

/// Work that a run with new input leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftWork {
    thread: ThreadId,
    runs: LeftRuns,
}

/// The runs that did some work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LeftRuns {
    /// All.
    All,
    /// Runs that made checkpoints after one.
    After(CheckpointId),
    /// A run that stores its checkpoints at its end, and whose process died before.
    Lost(RunId),
}

impl LeftRuns {
    fn include(&self, row: &RunRow) -> bool {
        match self {
            Self::All => true,
            // A run that has not ended is newer than what was left.
            Self::After(after) => match row.last_checkpoint {
                Some(last) => last > *after,
                None => !row.status.is_final(),
            },
            Self::Lost(run) => row.new.at.run == *run,
        }
    }
}

impl From<Option<CheckpointId>> for LeftRuns {
    fn from(after: Option<CheckpointId>) -> Self {
        after.map_or(Self::All, Self::After)
    }
}

/// Returns `true` for a run that a process may have left without its checkpoints.
fn may_have_lost_checkpoints(row: &RunRow) -> bool {
    row.new.options.durability == Durability::Exit && row.fence > 1
}

/// The calls in the logs of some runs.
#[derive(Debug, Default)]
struct LoggedCalls {
    /// Messages with calls, in order.
    messages: Vec<Message>,
    started: BTreeMap<ToolCallId, ToolCall>,
    results: BTreeMap<ToolCallId, LoggedResult>,
}

/// A result of a call in a log.
#[derive(Debug)]
struct LoggedResult {
    value: Json,
    is_error: bool,
}

/// The records of the calls with effects of a thread: the times at which they were begun, by tool.
type Begun = BTreeMap<String, Vec<Timestamp>>;

/// Adds the calls that a new input leaves behind to its messages.
///
/// Only graphs whose nodes close calls that are left open take them: others need not know what calls
/// in a conversation are.
pub(super) async fn with_calls_left_behind(
    run: &ClaimedRun,
    thread: &ThreadSnapshot,
    begins_at: Option<CheckpointId>,
    mut input: Json,
) -> Result<Json, RuntimeError> {
    let graph = &run.graph;
    let mut names = graph.plan().channel_names();
    let Some(channel) = names.find(|name| graph.holds_messages(name)) else { return Ok(input) };
    if !graph.has_closers() || run.row.new.options.within.is_some() {
        return Ok(input);
    }
    let left = left_by(run, thread, begins_at).await?;
    if left.is_empty() {
        return Ok(input);
    }
    let mut messages = Vec::new();
    let known = known_calls(run, channel, begins_at).await?;
    for work in left {
        messages.extend(calls_of(run, &work, &known).await?);
    }
    if !messages.is_empty() {
        input = graph.input_by_channel(input);
        append_messages(&mut input, channel, &messages);
    }
    Ok(input)
}

/// Returns the work that a run with new input leaves behind.
async fn left_by(
    run: &ClaimedRun,
    snapshot: &ThreadSnapshot,
    begins_at: Option<CheckpointId>,
) -> Result<Vec<LeftWork>, RuntimeError> {
    let thread = &run.claim.at.thread;
    let own = |runs| LeftWork { thread: thread.clone(), runs };
    let mut left = Vec::new();
    if begins_at.is_some() || run.row.clears() {
        left.push(own(begins_at.into()));
    } else if let Some(last) = snapshot.last_ended().await?
        && matches!(last.new.input, RunInput::Start { .. })
        && last.rolled_back_by.is_none()
        && !may_have_lost_checkpoints(last)
    {
        // Most runs: what there was to add was added to the input of the one before.
        return Ok(left);
    }
    let runs = snapshot.runs().await?;
    let before = runs.iter().take_while(|row| row.new.at != run.claim.at);
    let before: Vec<&RunRow> =
        before.filter(|row| row.fence > 0 && row.rolled_back_by.is_none()).collect();
    let mut is_first_input = true;
    for row in before.iter().rev() {
        if may_have_lost_checkpoints(row) {
            left.push(own(LeftRuns::Lost(row.new.at.run.clone())));
        }
        match (&row.new.input, row.base) {
            (RunInput::Start { .. }, _) => {
                is_first_input = false;
                break;
            }
            // A run that took the thread back, without input of its own.
            (RunInput::Update { .. }, Some(base)) if row.new.options.roll_back.is_some() => {
                left.push(own(match base {
                    Base::At(id) => LeftRuns::After(id),
                    Base::Nothing => LeftRuns::All,
                }));
            }
            _ => {}
        }
    }
    if begins_at.is_some() || is_first_input {
        left.extend(left_by_forks(run, snapshot, begins_at).await?);
    }
    left.dedup();
    Ok(left)
}

/// Returns the work of the threads from which the thread of a run was forked, if the run begins at a
/// checkpoint that came with the fork.
async fn left_by_forks(
    run: &ClaimedRun,
    snapshot: &ThreadSnapshot,
    begins_at: Option<CheckpointId>,
) -> Result<Vec<LeftWork>, RuntimeError> {
    let store = run.context.store.as_ref();
    let thread = snapshot.existing_row().await?.clone();
    let position = begins_at.or(thread.head);
    let origins = fork_origins(store, &run.who, thread, position).await?.threads;
    let work = |thread| LeftWork { thread, runs: position.into() };
    Ok(origins.into_iter().map(work).collect())
}

/// Returns the ids of the calls in the state from which a run begins.
async fn known_calls(
    run: &ClaimedRun,
    channel: &str,
    begins_at: Option<CheckpointId>,
) -> Result<BTreeSet<ToolCallId>, RuntimeError> {
    if run.row.clears() {
        return Ok(BTreeSet::new());
    }
    let host = run.context.looking(&run.who);
    let thread = StateQuery::thread(run.claim.at.thread.as_str());
    let at = StateQuery { checkpoint: begins_at, ..thread };
    let state = run.graph.state(&host, &at, false).await?;
    let messages = state.values.get(channel).cloned().unwrap_or_default();
    let messages: Option<Vec<Message>> = serde_json::from_value(messages).ok();
    let messages = messages.unwrap_or_default();
    let calls = messages.iter().flat_map(Message::tool_calls);
    Ok(calls.map(|call| call.id.clone()).collect())
}

/// Returns messages with the calls that were made in some work, and with their results.
async fn calls_of(
    run: &ClaimedRun,
    work: &LeftWork,
    known: &BTreeSet<ToolCallId>,
) -> Result<Vec<Message>, RuntimeError> {
    let store = run.context.store.as_ref();
    let who = &run.who;
    let records = match store.calls(who, &work.thread).await {
        // A thread from which this one was forked was deleted, with its records.
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        records => records?,
    };
    let mut begun = Begun::new();
    for call in records {
        if call.kind == CallKind::Tool && call.effect != Effect::ReadOnly {
            begun.entry(wire_name(&call.name)).or_default().push(call.opened_at);
        }
    }
    // Most threads: their logs need not be read.
    if begun.is_empty() {
        return Ok(Vec::new());
    }
    let mut logged = LoggedCalls::default();
    let mut since = None;
    for row in by_execution(store.runs(who, &work.thread).await?) {
        if row.new.at != run.claim.at && row.fence > 0 && work.runs.include(&row) {
            since = since.or(Some(row.new.created_at));
            logged.read_run(run, &row).await?;
        }
    }
    // Calls before the first of these runs belong to other work.
    begun.values_mut().for_each(|times| times.retain(|at| since.is_some_and(|since| *at >= since)));
    let new_id = || MessageId::from_uuid(Uuid::from_u128(run.context.clock.unique()));
    if let LeftRuns::Lost(_) = work.runs {
        logged.add_lost(&begun, new_id);
    }
    Ok(logged.made(&begun, known, new_id))
}

impl LoggedCalls {
    /// Reads the log of a run, as far as it is retained.
    async fn read_run(&mut self, run: &ClaimedRun, row: &RunRow) -> Result<(), StoreError> {
        let store = run.context.store.as_ref();
        let who = &run.who;
        let mut after = 0;
        loop {
            let page = match store.events(who, &row.new.at, after, EVENTS_AT_ONCE).await {
                // Retention has deleted the first events; the remaining ones are read.
                Err(StoreError::Dropped { oldest, .. }) => {
                    store.events(who, &row.new.at, oldest - 1, EVENTS_AT_ONCE).await?
                }
                page => page?,
            };
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            page.into_iter().for_each(|logged| self.read_event(logged.event));
        }
    }

    fn read_event(&mut self, event: AiEvent) {
        match event {
            AiEvent::MessageFinal { message } => {
                for ToolResult { tool_call_id, value, is_error, .. } in message.tool_results() {
                    let result = LoggedResult { value: value.clone(), is_error: *is_error };
                    self.results.insert(tool_call_id.clone(), result);
                }
                let is_new = self.messages.iter().all(|known| known.id != message.id);
                if is_new && message.tool_calls().next().is_some() {
                    self.messages.push(message);
                }
            }
            AiEvent::ToolCallStart {
                tool_call_id: id,
                tool_name: name,
                args,
                charged: true,
                ..
            } => {
                self.started.insert(id.clone(), ToolCall { id, name, args, shown: None });
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, .. } => {
                self.results.insert(tool_call_id, LoggedResult { value: result, is_error });
            }
            _ => {}
        }
    }

    /// Returns the calls that were made or may have been made, in the order of their messages, each
    /// message followed by the results of its calls.
    fn made(
        &self,
        begun: &Begun,
        known: &BTreeSet<ToolCallId>,
        new_id: impl Fn() -> MessageId,
    ) -> Vec<Message> {
        let mut made = Vec::new();
        for message in &self.messages {
            let new = message.tool_calls().filter(|call| !known.contains(&call.id));
            let results: Vec<ToolResult> =
                new.filter_map(|call| self.outcome_of_call(call, begun)).collect();
            if results.is_empty() {
                continue;
            }
            let is_made = |call: &ToolCall| results.iter().any(|of| of.tool_call_id == call.id);
            let parts = message.parts.iter().filter(|part| match part {
                Part::ToolCall(call) => is_made(call),
                // Some providers accept calls only with the reasoning that led to them.
                Part::Reasoning { .. } => true,
                _ => false,
            });
            made.push(Message::new(new_id(), Role::Assistant, parts.cloned().collect()));
            made.extend(results.into_iter().map(|result| Message::tool_result(new_id(), result)));
        }
        made
    }

    /// Adds messages for calls that were begun and of which the logs have none: they were lost with
    /// the process. Of a call whose start is not logged either, only the tool is known.
    fn add_lost(&mut self, begun: &Begun, new_id: impl Fn() -> MessageId) {
        let calls = || self.messages.iter().flat_map(Message::tool_calls);
        let started = self.started.values();
        let mut lost: Vec<ToolCall> =
            started.filter(|call| calls().all(|known| known.id != call.id)).cloned().collect();
        for (name, records) in begun {
            let of_tool = |call: &&ToolCall| call.name == *name;
            let logged = calls().filter(of_tool).count() + lost.iter().filter(of_tool).count();
            for number in logged..records.len() {
                let Ok(id) = ToolCallId::new(format!("lost-{number}-{name}")) else { continue };
                lost.push(ToolCall { id, name: name.clone(), args: json!({}), shown: None });
            }
        }
        let message = |call| Message::new(new_id(), Role::Assistant, vec![Part::ToolCall(call)]);
        self.messages.extend(lost.into_iter().map(message));
    }

    /// Returns the outcome of a call with an effect; `None` if the call has none, or was not made.
    fn outcome_of_call(&self, call: &ToolCall, begun: &Begun) -> Option<ToolResult> {
        let records = begun.get(&call.name)?;
        let (value, is_error) = match self.results.get(&call.id) {
            Some(found) => {
                let failure = || serde_json::from_value::<ToolFailure>(found.value.clone()).ok();
                if found.is_error && failure().is_some_and(|failure| failure.is_before_call()) {
                    return None;
                }
                (found.value.clone(), found.is_error)
            }
            // The process may have died after the call was begun and before that was logged.
            None if self.started.contains_key(&call.id) || self.logs_less_than(call, records) => {
                (json!(ToolFailure::outcome_unknown(&call.name)), true)
            }
            None => return None,
        };
        let tool_call_id = call.id.clone();
        Some(ToolResult { tool_call_id, name: call.name.clone(), value, shown: None, is_error })
    }

    /// Returns `true` if more calls of a tool were begun than the logs have.
    fn logs_less_than(&self, call: &ToolCall, records: &[Timestamp]) -> bool {
        let started = self.started.values().filter(|other| other.name == call.name);
        records.len() > started.count()
    }
}

/// Appends messages to those of an input.
fn append_messages(input: &mut Json, channel: &str, messages: &[Message]) {
    let Json::Object(members) = input else { return };
    let present = members.entry(channel).or_insert_with(|| json!([]));
    if !present.is_array() {
        *present = json!([present.take()]);
    }
    if let Json::Array(present) = present {
        present.extend(messages.iter().map(|message| json!(message)));
    }
}
