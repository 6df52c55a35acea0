//! Tasks: what agents were asked to do, and what became of it.

use super::Result;
use super::record::RecordId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weftwork_store::sequence::{TASKS, of_thread};
use weftwork_store::{
    Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite, Store, StoreError,
};
use weftwork_types::{Principal, ThreadId, Timestamp};

const FORMAT: u32 = 1;
/// Maximum number of messages of a task that are read.
const MESSAGES_MAX: usize = 1_000;

/// States of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskState {
    /// It was accepted.
    Submitted,
    /// It is being executed.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// It has a result.
    Completed,
    /// It ended with an error. It can be executed again.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskState {
    /// Returns `true` if no other state follows. A failed task can be executed again.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// A change of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskChange {
    /// State after the change.
    pub state: TaskState,
    /// Message for people, such as a question or an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Agent that has the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Subject of the principal for whom the task is done.
    pub by: String,
    /// Time of the change.
    pub at: Timestamp,
}

impl TaskChange {
    /// Creates a change to a state.
    pub fn new(state: TaskState, by: impl Into<String>, at: Timestamp) -> Self {
        Self { state, message: None, result: None, agent: None, by: by.into(), at }
    }
}

/// A task. Usually it is a run and has its id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// Id within the thread.
    pub id: RecordId,
    /// Thread that the task belongs to.
    pub thread: ThreadId,
    /// Subject of the first change, to which the task belongs.
    pub subject: String,
    /// Agent that has the task.
    pub agent: Option<String>,
    /// State after the last change.
    pub state: TaskState,
    /// Result, if it has one.
    pub result: Option<Value>,
    /// Time of the first change.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Changes, oldest first. After a final state there are none.
    pub changes: Vec<TaskChange>,
}

impl Task {
    fn read(thread: &ThreadId, rows: &[SequenceRow]) -> Result<Option<Self>> {
        let mut task: Option<Self> = None;
        for row in rows.iter().take(MESSAGES_MAX) {
            let change: TaskChange = row.json()?;
            match &mut task {
                None => task = Self::begin(thread, row, change),
                Some(task) => task.apply(change),
            }
        }
        Ok(task)
    }

    fn begin(thread: &ThreadId, row: &SequenceRow, change: TaskChange) -> Option<Self> {
        let id = row.sequence.key.strip_prefix(thread.to_key().as_ref())?.strip_prefix('/')?;
        Some(Self {
            id: RecordId::new(id).ok()?,
            thread: thread.clone(),
            subject: change.by.clone(),
            agent: change.agent.clone(),
            state: change.state,
            result: change.result.clone(),
            created_at: change.at,
            updated_at: change.at,
            changes: vec![change],
        })
    }

    fn apply(&mut self, change: TaskChange) {
        if self.state.is_final() || self.changes.last() == Some(&change) {
            return;
        }
        self.state = change.state;
        self.updated_at = change.at;
        self.result.clone_from(&change.result);
        if change.agent.is_some() {
            self.agent.clone_from(&change.agent);
        }
        self.changes.push(change);
    }
}

fn sequence(thread: &ThreadId, id: &RecordId) -> Sequence {
    Sequence::new(TASKS, format!("{}/{id}", thread.to_key()))
}

/// Returns the write that adds a change to a task, or creates the task with it. It expects no
/// version and so never conflicts: a run adds it to its commit. A change that follows an equal one,
/// or a final state, has no effect.
///
/// # Errors
/// Never, because a change has a JSON form.
pub fn task_write(thread: &ThreadId, id: &RecordId, change: &TaskChange) -> Result<SequenceWrite> {
    Ok(SequenceWrite::append(sequence(thread, id), Content::json(FORMAT, change)?))
}

/// Returns a task.
///
/// # Errors
/// [`StoreError::NotFound`] if it does not exist or belongs to another subject.
pub async fn read_task(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
    id: &RecordId,
) -> Result<Task> {
    let rows = store.sequence_rows(who, SequenceQuery::of(sequence(thread, id), 0)).await?;
    let found = Task::read(thread, &rows)?.filter(|task| task.subject == who.subject);
    Ok(found.ok_or_else(|| StoreError::NotFound { kind: "task", id: id.to_string() })?)
}

/// Returns the tasks of a thread, oldest first.
///
/// # Errors
/// Only those of the store.
pub async fn read_tasks(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<Task>> {
    let (first, last) = of_thread(thread);
    let mut query = SequenceQuery { first, last: Some(last), ..SequenceQuery::all(TASKS) };
    let mut all: Vec<SequenceRow> = Vec::new();
    loop {
        let rows = store.sequence_rows(who, query.clone()).await?;
        let Some(last) = rows.last() else { break };
        query = query.following(last);
        all.extend(rows);
    }
    let mut tasks = Vec::new();
    for rows in all.chunk_by(|a, b| a.sequence == b.sequence) {
        tasks.extend(Task::read(thread, rows)?.filter(|task| task.subject == who.subject));
    }
    tasks.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(tasks)
}
