//! Context of a task, and data that it retains across its attempts.

use super::{EventSource, Given, LoopContext, RunEntry, TaskRecorder};
use crate::run_loop::calls::{Calls, TaskCalls};
use crate::run_loop::checkpointer::{TaskAnswers, TaskKey};
use crate::run_loop::namespace::task_ns;
use crate::run_loop::sync::lock;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::port::Dependencies;
use weftwork_types::secret::HiddenValues;
use weftwork_types::{CheckpointId, InterruptId, MessageId, TaskId};

/// Earlier attempts that may have made calls of a task, so that the calls may be on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Earlier {
    /// None: its superstep was begun by this loop, and this is its first attempt.
    Nobody,
    /// An attempt of this loop.
    Attempts,
    /// A process before this one, or this one before it continued the thread: the superstep was
    /// open when the loop began.
    Processes,
}

/// Data that a task retains across its attempts.
#[derive(Debug)]
pub(crate) struct TaskState {
    /// Answers, in the order of the questions.
    pub(crate) resume: Mutex<TaskAnswers>,
    /// `true` if a question took one of them.
    pub(crate) resumed: AtomicBool,
    pub(crate) asked: AtomicU32,
    /// The questions that something on record took, which are not asked again.
    taken: Mutex<BTreeSet<u32>>,
    /// Open questions of graphs that it called and that failed.
    left_open: Mutex<Vec<Interrupt>>,
    pub(crate) graphs: AtomicU32,
    pub(crate) called: AtomicU32,
    pub(crate) calls: TaskCalls,
    /// The messages of which the task emitted chunks. No `Transcript`: all are of one task, which
    /// voids them by name, and nobody reads their text here.
    pub(crate) chunked: Mutex<Vec<MessageId>>,
    /// `true` if the loop had an unassigned answer when the task began.
    offered: bool,
    /// The task's id, computed on first use: most nodes do not need it, and it is a hash.
    id: OnceLock<TaskId>,
    pub(crate) loop_context: Arc<LoopContext>,
}

impl TaskState {
    pub(crate) fn new(loop_context: Arc<LoopContext>, resume: TaskAnswers, calls: &Calls) -> Self {
        let offered = lock(&loop_context.answer).is_some();
        Self {
            resume: Mutex::new(resume),
            resumed: false.into(),
            asked: AtomicU32::new(0),
            taken: Mutex::default(),
            left_open: Mutex::default(),
            graphs: AtomicU32::new(0),
            called: AtomicU32::new(0),
            calls: TaskCalls::known(calls),
            chunked: Mutex::default(),
            offered,
            id: OnceLock::new(),
            loop_context,
        }
    }

    /// The number of the next question.
    pub(crate) fn next_question(&self) -> u32 {
        loop {
            let index = self.asked.fetch_add(1, Ordering::Relaxed);
            // The result on record took the answer. Its number is passed over, so that later
            // questions have the ids under which they were asked.
            if !lock(&self.taken).contains(&index) {
                return index;
            }
        }
    }

    /// Leaves out questions that something on record took.
    pub(crate) fn take_questions(&self, taken: &[u32]) {
        lock(&self.taken).extend(taken);
    }

    /// Puts the answer of a question in its place.
    pub(crate) fn put_answer(&self, answers: &mut TaskAnswers, number: usize, answer: Json) {
        while answers.len() <= number {
            // Questions that something on record took are not asked again; others before this one
            // are still open.
            let taken = self.is_taken(answers.len());
            answers.push(taken.then_some(Json::Null));
        }
        if let Some(place) = answers.get_mut(number) {
            *place = Some(answer);
        }
    }

    pub(crate) fn is_taken(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|index| lock(&self.taken).contains(&index))
    }

    /// Adds open questions of a graph that failed.
    pub(crate) fn leave_open(&self, questions: Vec<Interrupt>) {
        lock(&self.left_open).extend(questions);
    }

    /// Takes the open questions of graphs that failed.
    pub(crate) fn take_left_open(&self) -> Vec<Interrupt> {
        std::mem::take(&mut *lock(&self.left_open))
    }

    /// The loop of the task.
    pub(crate) fn loop_context(&self) -> &Arc<LoopContext> {
        &self.loop_context
    }

    /// An answer that belongs to no task yet. It can be taken once.
    pub(crate) fn take_answer(&self) -> Option<Json> {
        // Decided when the task began, as in the reference: if another task has taken the answer,
        // this one does not take that of the loop around.
        if self.offered {
            return self.loop_context.take_answer();
        }
        self.loop_context.outer.as_ref()?.take_answer()
    }

    /// The answers, when a question took one.
    pub(crate) fn answers(&self) -> Option<TaskAnswers> {
        self.resumed.load(Ordering::Relaxed).then(|| lock(&self.resume).clone())
    }
}

/// A task in its loop.
#[derive(Debug, Clone)]
pub struct TaskContext {
    pub(crate) loop_context: Arc<LoopContext>,
    pub(crate) task_state: Arc<TaskState>,
    pub(crate) key: TaskKey,
    /// Namespace of its origin: its graph, or the task whose code or failure it serves.
    pub(crate) from: Arc<str>,
    /// The checkpoint its superstep starts from.
    pub(crate) checkpoint: CheckpointId,
    pub(crate) step: i64,
    /// Entry of the run into its superstep.
    pub(crate) entry: RunEntry,
    pub(crate) earlier: Earlier,
    /// Recorder of its calls, when it is another task: that of the outermost graph around it.
    pub(crate) recorder: Option<Arc<TaskRecorder>>,
    /// The state its superstep starts from.
    pub(crate) slots: weftwork_engine::Slots,
    pub(crate) purpose: Purpose,
}

/// Purpose for which the code of a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To finish the task.
    Finish,
    /// To close the task, which is left open: its code reads what is on record.
    Close,
}

impl TaskContext {
    /// Returns the values of the run that nodes take before those of their graph.
    pub(crate) fn dependencies(&self) -> &Dependencies {
        self.loop_context.run.host.dependencies()
    }

    /// Returns the secret arguments and hidden results that the run has seen.
    pub(crate) fn hidden_values(&self) -> &Arc<HiddenValues> {
        &self.loop_context.run.hidden
    }

    /// Removes what the run hides from a fault of the task. The node has read the state, so that its
    /// error may repeat hidden results of earlier runs too.
    pub(crate) fn shape_fault(&self, fault: &mut Fault) {
        self.loop_context.shape_fault(&self.slots, fault);
    }

    /// Id of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        let id = || self.key.id(&self.loop_context.address.ns, self.checkpoint, self.step);
        *self.task_state.id.get_or_init(id)
    }

    /// Checkpoint from which the outermost graph of the run continued; `None` if there was none.
    #[must_use]
    pub fn run_base(&self) -> Option<CheckpointId> {
        self.loop_context.run.since.get().copied()
    }
}

impl TaskContext {
    /// Path of the task from the outermost graph on: nodes, paths and supersteps, never ids that
    /// another attempt of the run would generate anew.
    pub(crate) fn task_path(&self) -> Vec<(String, String, i64)> {
        let mut path = match &self.loop_context.outer_path {
            Some(outer) => outer.clone(),
            None => Vec::new(),
        };
        path.push((self.key.name().to_string(), self.key.path(), self.step));
        path
    }

    /// Path of the graph that an attempt calls after `nth` others; distinguishes graphs that it
    /// calls with the same input.
    pub(crate) fn path_to_graph(&self, nth: u32) -> Vec<(String, String, i64)> {
        let mut path = self.task_path();
        if let Some((_, path, _)) = path.last_mut().filter(|_| nth > 0) {
            path.push_str(&format!("|{nth}"));
        }
        path
    }

    /// Namespace of the graphs that the task runs.
    pub(crate) fn ns(&self) -> String {
        task_ns(&self.from, self.key.name(), self.id())
    }

    /// The task as source of an event.
    pub(crate) fn event_source(&self) -> EventSource {
        let outer = self.loop_context.outer_path.as_ref().and_then(|outer| outer.first());
        let step = outer.map_or(self.step, |(_, _, step)| *step);
        EventSource {
            node: Arc::clone(self.key.name()),
            task: self.id(),
            step,
            ns: Arc::clone(&self.from),
            graph_step: self.step,
            message: None,
        }
    }

    /// The answer to a question of the task, as the environment recorded it; otherwise an answer
    /// that is given locally, now.
    pub(crate) fn answered(&self, id: InterruptId, ask: &Ask, given: Given<'_>) -> Answer {
        let host = &self.loop_context.run.host;
        host.environment().takes(id, ask, given);
        let (Given::Answer(value) | Given::Default(value)) = given;
        let known = host.environment().answer(id);
        // An answer on record with another value is not the one that the task takes.
        known.filter(|known| known.value == *value).unwrap_or_else(|| Answer {
            value: value.clone(),
            answered_by: "local".to_owned(),
            answered_at: host.clock().now(),
        })
    }
}
