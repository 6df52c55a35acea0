//! Records of tasks: their outcomes, as far as they are stored with a checkpoint.

use crate::run_loop::calls::Calls;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use smallvec::SmallVec;
use std::sync::Arc;
use weftwork_engine::ids::{interrupt_id, task_id};
use weftwork_engine::pregel::Path;
use weftwork_engine::{NodeIdx, Plan, TaskOutput};
use weftwork_types::code::Fault;
use weftwork_types::event::TaskEnd;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::sequence::SequenceWrite;
use weftwork_types::{CheckpointId, TaskId};

/// Identity of a task within its superstep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKey {
    /// A task of a node.
    Node {
        /// The node.
        node: Arc<str>,
        /// The path by which it was scheduled.
        path: Path,
    },
    /// A task called from the code of another.
    Call {
        /// Its name.
        name: Arc<str>,
        /// The other.
        of: Arc<TaskKey>,
        /// Number of tasks that the other called before.
        index: u32,
    },
}

/// Task records: mostly of a single task.
pub type TaskRecords = SmallVec<[(TaskKey, TaskRecord); 1]>;

/// Stored outcome of a task.
///
/// Most tasks finish at their first attempt; details of the others are stored separately.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    /// Writes of the task.
    pub writes: TaskWrites,
    /// The calls it made, as far as they are stored with it: not in hosted runs.
    pub calls: Calls,
    /// Details beyond a result at the first attempt.
    pub details: Option<Box<TaskDetails>>,
    /// Its end as the log of the run reports it, if it ended since it was last stored. Not stored.
    pub ended: Option<Box<TaskEnd>>,
    /// Writes of records that are stored together with this one, if the task ended since it was last
    /// stored.
    pub records: Vec<SequenceWrite>,
}

/// Writes of a task, and their effect on the graph.
#[derive(Debug, Clone, Default)]
pub enum TaskWrites {
    /// None: the task has not finished, or wrote nothing before it failed.
    #[default]
    None,
    /// The input of the thread, as the hidden first node passes it on.
    Input(Arc<TaskOutput>),
    /// Writes of a node. The edges of the node are followed.
    Followed(Arc<TaskOutput>),
    /// Writes of an error handler, which has no edges.
    Unfollowed(Arc<TaskOutput>),
}

impl TaskWrites {
    /// Returns the writes, if there are any.
    #[must_use]
    pub fn output(&self) -> Option<&Arc<TaskOutput>> {
        match self {
            Self::None => None,
            Self::Input(output) | Self::Followed(output) | Self::Unfollowed(output) => Some(output),
        }
    }

    /// Returns `true` if the edges of the node are followed.
    #[must_use]
    pub fn follows_edges(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Followed(_))
    }

    fn output_mut(&mut self) -> Option<&mut Arc<TaskOutput>> {
        match self {
            Self::None => None,
            Self::Input(output) | Self::Followed(output) | Self::Unfollowed(output) => Some(output),
        }
    }
}

/// Details of a task that did not finish at its first attempt, or whose result is a value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "StoredDetails")]
pub struct TaskDetails {
    /// Result of the task of a flow.
    pub returned: Option<Json>,
    /// Failure of the last attempt that failed.
    pub failure: Option<TaskFailure>,
    /// Pause of the task.
    pub pause: TaskPause,
    /// Answers that the task got, in the order of its questions.
    pub answers: Option<TaskAnswers>,
}

/// Answers of a task, by the number of the question; `None` for a question without an answer that
/// was asked beside one that has it.
pub type TaskAnswers = Vec<Option<Json>>;

/// Failure of a task.
#[derive(Debug, Clone)]
pub enum TaskFailure {
    /// No error handler runs.
    Unhandled(Fault),
    /// The error handler of the node runs.
    Handled(Fault),
}

impl TaskFailure {
    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        match self {
            Self::Unhandled(fault) | Self::Handled(fault) => fault,
        }
    }
}

/// Pause of a task.
#[derive(Debug, Clone, Default)]
pub enum TaskPause {
    /// The task did not pause.
    #[default]
    None,
    /// A subgraph of the task stopped before or after a node.
    Stopped,
    /// The task waits for answers to its last questions.
    Asked(Vec<Interrupt>),
    /// The task continued past its last questions: it failed afterwards, or a subgraph of it
    /// stopped.
    Passed(Vec<Interrupt>),
    /// These questions wait for answers, and the task runs again without one: it failed or was cut
    /// off beside them, or a subgraph of it was changed.
    AskedAndDue(Vec<Interrupt>),
}

impl TaskPause {
    /// Returns the last questions.
    #[must_use]
    pub fn questions(&self) -> &[Interrupt] {
        match self {
            Self::None | Self::Stopped => &[],
            Self::Asked(questions) | Self::Passed(questions) | Self::AskedAndDue(questions) => {
                questions
            }
        }
    }

    /// Adds a newer pause, of an attempt that may have failed.
    fn merge(&mut self, newer: Self, failed: bool) {
        match newer {
            // Each attempt runs the task from its first line: its questions are all that are open.
            Self::Asked(questions) | Self::Passed(questions) if !questions.is_empty() => {
                *self = Self::Asked(questions);
            }
            newer @ Self::AskedAndDue(_) => *self = newer,
            // The questions are open no longer: the task runs again without an answer. They stay on
            // record, because another answer at this checkpoint begins a branch by their ids.
            newer if failed || matches!(newer, Self::Stopped) => {
                *self = match std::mem::take(self) {
                    Self::Asked(questions)
                    | Self::Passed(questions)
                    | Self::AskedAndDue(questions) => Self::Passed(questions),
                    Self::None | Self::Stopped => Self::Passed(Vec::new()),
                };
            }
            _ => {}
        }
    }
}

/// Members of [`TaskDetails`] as they are read from a record.
#[derive(Default, Deserialize)]
// Closed: a member of a later build is refused, rather than lost with the next write.
#[serde(default, deny_unknown_fields)]
struct StoredDetails {
    #[serde(deserialize_with = "some")]
    returned: Option<Json>,
    error: Option<Fault>,
    handled: bool,
    interrupts: Vec<Interrupt>,
    went_on: bool,
    stopped: bool,
    resume: Option<Vec<Json>>,
    unanswered: Vec<usize>,
}

/// Members of [`TaskDetails`] as they are written to a record.
#[derive(Serialize)]
struct WrittenDetails<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Fault>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    handled: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interrupts: &'a [Interrupt],
    went_on: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a TaskAnswers>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<usize>,
}

/// A member that is present has a value, even if that is `null`.
fn some<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(d).map(Some)
}

impl From<StoredDetails> for TaskDetails {
    fn from(stored: StoredDetails) -> Self {
        let failure = stored.error.map(|fault| match stored.handled {
            true => TaskFailure::Handled(fault),
            false => TaskFailure::Unhandled(fault),
        });
        let pause = match stored.interrupts {
            questions if stored.went_on => TaskPause::Passed(questions),
            // Builds that do not know this pause read questions that wait.
            questions if !questions.is_empty() && stored.stopped => {
                TaskPause::AskedAndDue(questions)
            }
            questions if !questions.is_empty() => TaskPause::Asked(questions),
            _ if stored.stopped => TaskPause::Stopped,
            _ => TaskPause::None,
        };
        let answers = stored.resume.map(|answers| {
            let numbered = answers.into_iter().enumerate();
            let open = |number| stored.unanswered.contains(&number);
            numbered.map(|(number, answer)| (!open(number)).then_some(answer)).collect()
        });
        Self { returned: stored.returned, failure, pause, answers }
    }
}

impl Serialize for TaskDetails {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenDetails {
            returned: self.returned.as_ref(),
            error: self.failure.as_ref().map(TaskFailure::fault),
            handled: matches!(self.failure, Some(TaskFailure::Handled(_))),
            interrupts: self.pause.questions(),
            went_on: matches!(self.pause, TaskPause::Passed(_)),
            stopped: matches!(self.pause, TaskPause::Stopped | TaskPause::AskedAndDue(_)),
            resume: self.answers.as_ref(),
            unanswered: self.answers.as_deref().map(unanswered_numbers).unwrap_or_default(),
        };
        written.serialize(serializer)
    }
}

/// Numbers of the questions without an answer. In the list they have `null`, which is an answer too.
fn unanswered_numbers(answers: &[Option<Json>]) -> Vec<usize> {
    let numbered = answers.iter().enumerate();
    numbered.filter(|(_, answer)| answer.is_none()).map(|(number, _)| number).collect()
}

impl From<TaskDetails> for TaskRecord {
    fn from(details: TaskDetails) -> Self {
        Self { details: Some(Box::new(details)), ..Self::default() }
    }
}

impl TaskRecord {
    /// A task that finished.
    pub(crate) fn finished(output: Arc<TaskOutput>) -> Self {
        Self { writes: TaskWrites::Followed(output), ..Self::default() }
    }

    /// Returns the writes of the task, if it made any.
    #[must_use]
    pub fn output(&self) -> Option<&Arc<TaskOutput>> {
        self.writes.output()
    }

    /// Returns the details, creating them if there are none.
    pub(crate) fn details_mut(&mut self) -> &mut TaskDetails {
        self.details.get_or_insert_default()
    }

    /// Returns the result of the task of a flow.
    #[must_use]
    pub fn returned(&self) -> Option<&Json> {
        self.details.as_deref()?.returned.as_ref()
    }

    /// Returns the failure of the last attempt that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&TaskFailure> {
        self.details.as_deref()?.failure.as_ref()
    }

    /// Returns the fault of the last attempt that failed.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.failure().map(TaskFailure::fault)
    }

    /// Returns `true` if the task failed and its error handler runs.
    #[must_use]
    pub fn is_handled(&self) -> bool {
        matches!(self.failure(), Some(TaskFailure::Handled(_)))
    }

    /// Returns the last questions of the task.
    #[must_use]
    pub fn questions(&self) -> &[Interrupt] {
        self.details.as_deref().map_or(&[], |details| details.pause.questions())
    }

    /// Returns the answers that the task got.
    #[must_use]
    pub fn answers(&self) -> Option<&TaskAnswers> {
        self.details.as_deref()?.answers.as_ref()
    }

    /// Removes the answers that the task got.
    pub(crate) fn clear_answers(&mut self) {
        if let Some(details) = &mut self.details {
            details.answers = None;
        }
    }

    /// Removes the questions of the task.
    pub(crate) fn clear_questions(&mut self) {
        if let Some(details) = &mut self.details
            && !matches!(details.pause, TaskPause::Stopped)
        {
            details.pause = TaskPause::None;
        }
    }

    /// Returns `true` if the task finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.output().is_some() || self.returned().is_some()
    }

    /// Returns `true` if a subgraph of the task stopped before or after a node.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.pause(), Some(TaskPause::Stopped))
    }

    /// Returns `true` if the task runs again although its questions have no answers.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.pause(), Some(TaskPause::AskedAndDue(_)))
    }

    /// Returns `true` if the task continued past its last questions.
    pub(crate) fn has_passed(&self) -> bool {
        matches!(self.pause(), Some(TaskPause::Passed(_)))
    }

    fn pause(&self) -> Option<&TaskPause> {
        self.details.as_deref().map(|details| &details.pause)
    }

    /// Returns `true` if the record is empty.
    pub(crate) fn is_blank(&self) -> bool {
        let open = self.failure().is_none() && self.questions().is_empty() && !self.is_stopped();
        !self.is_finished() && open
    }

    /// Returns the questions of this task and of those within it that wait for an answer.
    pub(crate) fn open_questions(&self, task: TaskId) -> Vec<Interrupt> {
        if self.is_finished() || self.has_passed() {
            return Vec::new();
        }
        let open = self.questions().iter().filter(|question| !self.has_answered(task, question));
        open.cloned().collect()
    }

    /// Returns `true` if one of the answers that this task got belongs to the question. Those of
    /// tasks within it are in their own records.
    pub(crate) fn has_answered(&self, task: TaskId, question: &Interrupt) -> bool {
        if question.task != task {
            return false;
        }
        let mut taken = (0..).zip(self.answers().into_iter().flatten());
        taken.any(|(index, answer)| answer.is_some() && interrupt_id(task, index) == question.id)
    }

    /// Removes writes to untracked channels, which are not stored. A task that wrote nothing else
    /// and has no edges has not finished then.
    pub fn untrack(&mut self, plan: &Plan, node: NodeIdx) {
        let edges = self.writes.follows_edges() && plan.has_edges(node);
        let Some(output) = self.writes.output_mut() else { return };
        if !output.writes.iter().any(|(index, _)| plan.is_untracked(*index)) {
            return;
        }
        let output = Arc::make_mut(output);
        output.writes.retain(|(index, _)| !plan.is_untracked(*index));
        // As in the reference, where a task has finished if it has a stored write: the value would
        // be lost, so the task runs again.
        if output.writes.is_empty() && output.goto.is_empty() && !edges {
            self.writes = TaskWrites::None;
        }
    }

    /// Adds a newer record of the same task. Writes that are on record stay.
    pub fn merge(&mut self, newer: Self) {
        // The first result stands, as in the reference: the current state of the thread has shown
        // it.
        if matches!(self.writes, TaskWrites::None) {
            self.writes = newer.writes;
        }
        match (&mut self.calls, newer.calls) {
            (Some(known), Some(newer)) => known.merge(*newer),
            (known, newer) => *known = known.take().or(newer),
        }
        let Some(newer) = newer.details else { return };
        let handled = self.is_handled();
        let details = self.details_mut();
        details.returned = details.returned.take().or(newer.returned);
        let failed = newer.failure.is_some();
        details.failure = match (newer.failure, details.failure.take()) {
            (Some(TaskFailure::Unhandled(fault)), _) if handled => {
                Some(TaskFailure::Handled(fault))
            }
            (newer, older) => newer.or(older),
        };
        details.pause.merge(newer.pause, failed);
        // An attempt begins with the answers before it, so that its list contains them.
        details.answers = newer.answers.or_else(|| details.answers.take());
    }
}

impl TaskKey {
    /// Name of the node or of the called task.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Node { node, .. } => node,
            Self::Call { name, .. } => name,
        }
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Self::Node { path, .. } => path.to_string(),
            Self::Call { of, index, .. } => format!("call:{}:{}:{index}", of.name(), of.path()),
        }
    }

    /// The id of the task in the superstep that starts from a checkpoint.
    pub(crate) fn id(&self, ns: &str, checkpoint: CheckpointId, step: i64) -> TaskId {
        let name = format_args!("{ns}|{}", self.name());
        match self {
            Self::Node { path, .. } => task_id(checkpoint, step, name, path),
            Self::Call { .. } => task_id(checkpoint, step, name, self.path()),
        }
    }
}
