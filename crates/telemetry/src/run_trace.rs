//! The execution of a run, as its log reports it.

use crate::settings::Content;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::event::{AiEvent, CheckpointStored, TaskDue, TaskEnd, TaskStatus};
use weftwork_types::message::Message;
use weftwork_types::run::RunStatus;
use weftwork_types::tool::wire_name;
use weftwork_types::usage::UsageFact;
use weftwork_types::{CheckpointId, InvocationId, MessageId, RunId, TaskId, Timestamp, ToolCallId};

/// Most parts of a trace; further ones are left out and counted.
const PARTS_MAX: usize = 10_000;

/// The execution of a run from its start, or from the last time that it was requeued.
///
/// A task, call or attempt that the log reports more than once, because another worker repeats what was
/// not committed or found it in the journal, is one part.
#[derive(Debug)]
pub(crate) struct RunTrace {
    content: Content,
    /// Number of times that the run was requeued before.
    pub(crate) segment: u32,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) end: Option<RunEnd>,
    /// Number of the last claim.
    pub(crate) claim: u64,
    /// Run that this one continues.
    pub(crate) continues: Option<RunId>,
    pub(crate) steps: Vec<Step>,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) attempts: Vec<ModelAttempt>,
    pub(crate) tools: Vec<ToolUse>,
    /// Final messages, if content is shown.
    pub(crate) messages: BTreeMap<MessageId, Message>,
    /// The last of them.
    pub(crate) last_message: Option<MessageId>,
    /// Number of parts that were left out.
    pub(crate) left_out: u64,
    /// Attempts in the trace.
    invocations: BTreeSet<InvocationId>,
    /// Wire name of the tool whose next call is one of the journal.
    replays: Option<String>,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunEnd {
    pub(crate) at: Timestamp,
    pub(crate) status: RunStatus,
}

/// A superstep of one of the graphs of a run.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) ns: String,
    /// Checkpoint from which it starts.
    pub(crate) base: Option<CheckpointId>,
    /// Number in its graph, known at its end.
    pub(crate) number: Option<i64>,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
}

/// A task of a superstep, or of the code of a flow.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) node: String,
    /// Index of its superstep.
    pub(crate) step: usize,
    /// Task whose code called it.
    pub(crate) caller: Option<TaskId>,
    /// `None` for a task of which the log has the end only.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) end: Option<TaskOver>,
}

/// The end of a task.
#[derive(Debug)]
pub(crate) struct TaskOver {
    pub(crate) at: Timestamp,
    pub(crate) status: TaskStatus,
    /// Code of its failure.
    pub(crate) code: Option<String>,
}

/// An attempt of a model call.
#[derive(Debug)]
pub(crate) struct ModelAttempt {
    pub(crate) fact: UsageFact,
    pub(crate) task: Option<TaskId>,
    pub(crate) message: Option<MessageId>,
    pub(crate) finish: Option<String>,
}

/// A tool call.
#[derive(Debug)]
pub(crate) struct ToolUse {
    pub(crate) id: ToolCallId,
    pub(crate) name: String,
    pub(crate) task: Option<TaskId>,
    /// Number of calls with this id that the task made before.
    pub(crate) before: usize,
    /// `true` if the result is one of the journal.
    pub(crate) replayed: bool,
    pub(crate) started_at: Timestamp,
    pub(crate) end: Option<ToolOver>,
    /// Arguments in their shown form, if content is shown.
    pub(crate) args: Option<Value>,
}

/// The end of a tool call.
#[derive(Debug)]
pub(crate) struct ToolOver {
    pub(crate) at: Timestamp,
    /// Code of its failure.
    pub(crate) code: Option<String>,
    /// Result in its shown form, if content is shown.
    pub(crate) result: Option<Value>,
}

impl RunTrace {
    pub(crate) fn new(content: Content) -> Self {
        Self {
            content,
            segment: 0,
            started_at: None,
            end: None,
            claim: 1,
            continues: None,
            steps: Vec::new(),
            tasks: BTreeMap::new(),
            attempts: Vec::new(),
            tools: Vec::new(),
            messages: BTreeMap::new(),
            last_message: None,
            left_out: 0,
            invocations: BTreeSet::new(),
            replays: None,
        }
    }

    /// Reads the next event of the log.
    pub(crate) fn read(&mut self, at: Timestamp, event: AiEvent) {
        if let AiEvent::Requeued { .. } = event {
            let earlier = std::mem::replace(self, Self::new(self.content));
            self.segment = earlier.segment.saturating_add(1);
            self.claim = earlier.claim;
        }
        self.started_at.get_or_insert(at);
        match event {
            AiEvent::RunStarted { continues, .. } => self.continues = continues,
            AiEvent::TakenOver { claim } => self.claim = claim,
            AiEvent::Checkpoint(stored) => self.read_checkpoint(at, *stored),
            AiEvent::TasksStarted { ns, checkpoint, tasks, .. } => {
                self.open_step(at, ns, Some(checkpoint), tasks);
            }
            AiEvent::TasksEnded { ns, checkpoint, ended } => {
                let step = self.step_at(at, &ns, Some(checkpoint));
                ended.into_iter().for_each(|end| self.end_task(at, step, end));
            }
            AiEvent::UsageReport { fact, message, finish, task } => {
                self.add_attempt(ModelAttempt { fact, task, message, finish });
            }
            AiEvent::CallReused { kind, name } if kind == "tool" => {
                self.replays = Some(wire_name(&name));
            }
            AiEvent::ToolCallStart { tool_call_id: id, tool_name: name, args, task, .. } => {
                let replayed = self.replays.take_if(|replays| *replays == name).is_some();
                let args = (self.content == Content::Shown).then_some(args);
                self.start_tool(ToolUse {
                    id,
                    name,
                    task,
                    before: 0,
                    replayed,
                    started_at: at,
                    end: None,
                    args,
                });
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, task } => {
                let over = ToolOver::new(at, result, is_error, self.content);
                self.end_tool(&tool_call_id, task, over);
            }
            AiEvent::MessageFinal { message } if self.content == Content::Shown => {
                self.last_message = Some(message.id.clone());
                self.messages.insert(message.id.clone(), message);
            }
            AiEvent::Done { outcome } => self.end = Some(RunEnd { at, status: outcome }),
            _ => {}
        }
    }

    fn read_checkpoint(&mut self, at: Timestamp, stored: CheckpointStored) {
        let CheckpointStored { ns, id, parent, step, ended, due, .. } = stored;
        if !ended.is_empty() {
            let index = self.step_at(at, &ns, parent);
            if let Some(closed) = self.steps.get_mut(index) {
                closed.number = Some(step);
                closed.ended_at = Some(at);
            }
            ended.into_iter().for_each(|end| self.end_task(at, index, end));
        }
        if !due.is_empty() {
            self.open_step(at, ns, Some(id), due);
        }
    }

    /// Opens a superstep, unless it is open, and starts its tasks.
    fn open_step(
        &mut self,
        at: Timestamp,
        ns: String,
        base: Option<CheckpointId>,
        tasks: Vec<TaskDue>,
    ) {
        let step = self.step_at(at, &ns, base);
        for due in tasks.into_iter().filter(|due| !due.finished) {
            if let Some(task) = self.tasks.get_mut(&due.id) {
                // It runs again: a run repeats what failed for a reason that passes.
                task.end = None;
            } else if self.has_room() {
                let task =
                    Task { node: due.node, step, caller: None, started_at: Some(at), end: None };
                self.tasks.insert(due.id, task);
            }
        }
    }

    /// Returns the index of the open superstep from a checkpoint, which is opened if there is none.
    fn step_at(&mut self, at: Timestamp, ns: &str, base: Option<CheckpointId>) -> usize {
        let is_it = |step: &Step| step.ns == ns && step.base == base && step.ended_at.is_none();
        if let Some(index) = self.steps.iter().rposition(is_it) {
            return index;
        }
        let ns = ns.to_owned();
        self.steps.push(Step { ns, base, number: None, started_at: at, ended_at: None });
        self.steps.len() - 1
    }

    fn end_task(&mut self, at: Timestamp, step: usize, end: TaskEnd) {
        let is_known = self.tasks.contains_key(&end.id);
        // It did not run, in this run or at all.
        if !is_known && (end.status == TaskStatus::Cached || !self.has_room()) {
            return;
        }
        let code = end.fault.map(|fault| fault.code);
        let over = TaskOver { at, status: end.status, code };
        let new = Task { node: end.node, step, caller: end.caller, started_at: None, end: None };
        let task = self.tasks.entry(end.id).or_insert(new);
        task.caller = task.caller.or(end.caller);
        // The checkpoint that closes a superstep reports its tasks again.
        task.end.get_or_insert(over);
    }

    fn add_attempt(&mut self, attempt: ModelAttempt) {
        let is_new = self.invocations.insert(attempt.fact.invocation_id.clone());
        // An answer of the journal or of the response cache has no attempt.
        if is_new && attempt.fact.attempt > 0 && self.has_room() {
            self.attempts.push(attempt);
        }
    }

    fn start_tool(&mut self, new: ToolUse) {
        let is_it = |tool: &&mut ToolUse| tool.task == new.task && tool.id == new.id;
        let found = self.tools.iter_mut().rev().find(is_it);
        let before = match found {
            // The worker died, and the call is repeated or found in the journal.
            Some(tool) if tool.end.is_none() || new.replayed => return,
            Some(tool) => tool.before + 1,
            None => 0,
        };
        if self.has_room() {
            self.tools.push(ToolUse { before, ..new });
        }
    }

    fn end_tool(&mut self, id: &ToolCallId, task: Option<TaskId>, over: ToolOver) {
        let is_it = |tool: &&mut ToolUse| tool.task == task && tool.id == *id && tool.end.is_none();
        if let Some(tool) = self.tools.iter_mut().rev().find(is_it) {
            tool.end = Some(over);
        }
    }

    /// Returns `true` if a further part has room, and counts it as left out otherwise.
    fn has_room(&mut self) -> bool {
        let parts = self.steps.len() + self.tasks.len() + self.attempts.len() + self.tools.len();
        let has_room = parts < PARTS_MAX;
        self.left_out += u64::from(!has_room);
        has_room
    }
}

impl ToolOver {
    fn new(at: Timestamp, result: Value, is_error: bool, content: Content) -> Self {
        let code = is_error.then(|| result["code"].as_str().unwrap_or_default().to_owned());
        Self { at, code, result: (content == Content::Shown).then_some(result) }
    }
}
