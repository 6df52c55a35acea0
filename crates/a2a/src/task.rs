//! Tasks, as their runs are stored.

use crate::error::{A2aError, Result};
use crate::reader::{RunReader, Update};
use crate::wire::{self, Artifact, Message, Task, TaskState, TaskStatus, timestamp};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use weftwork_types::port::{Platform, RunHandle, TurnChain, TurnRun};
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::{Principal, RunId};

/// Member of the metadata of runs that this protocol began.
pub(crate) const METADATA: &str = "a2a";

/// Returns the metadata of the run of a message.
pub(crate) fn metadata_of(message: &Message) -> Map<String, Value> {
    Map::from_iter([(METADATA.to_owned(), json!({"message": message}))])
}

/// The runs of a task.
#[derive(Debug, Clone)]
pub(crate) struct TaskRuns {
    /// The first one, whose id is that of the task, and those that answer its questions.
    pub(crate) chain: TurnChain,
}

impl TaskRuns {
    /// Returns the tasks of the runs of a conversation that this protocol began with an agent.
    pub(crate) fn all_of(turns: &[TurnRun], agent: &str) -> Vec<Self> {
        let firsts = turns.iter().filter(|turn| {
            turn.answers.is_none() && turn.agent == agent && turn.metadata.contains_key(METADATA)
        });
        let chains = firsts.filter_map(|first| TurnChain::of(turns, &first.at.run));
        chains.map(|chain| Self { chain }).collect()
    }

    /// Returns a task of an agent.
    ///
    /// # Errors
    /// An error for a task that does not exist, is another principal's or another agent's, or was not
    /// begun by this protocol.
    pub(crate) async fn find(
        platform: &dyn Platform,
        who: &Principal,
        agent: &str,
        id: &str,
    ) -> Result<Self> {
        let Ok(uuid) = uuid::Uuid::try_parse(id) else { return Err(A2aError::task_missing()) };
        let first = RunId::from_uuid(uuid);
        let chain = platform.chain(who, &first).await.map_err(|fault| {
            let error = A2aError::of_fault(fault);
            if error.is_missing() { A2aError::task_missing() } else { error }
        })?;
        let is_of_agent = |turn: &TurnRun| {
            turn.agent == agent && turn.answers.is_none() && turn.metadata.contains_key(METADATA)
        };
        match is_of_agent(chain.first()) && first.as_str() == id {
            true => Ok(Self { chain }),
            false => Err(A2aError::task_missing()),
        }
    }

    /// Returns the task as it is now.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn reload(&self, platform: &dyn Platform, who: &Principal) -> Result<Self> {
        let chain = platform.chain(who, &self.chain.first().at.run).await;
        Ok(Self { chain: chain.map_err(A2aError::of_fault)? })
    }

    pub(crate) fn id(&self) -> String {
        self.chain.first().at.run.to_string()
    }

    pub(crate) fn context(&self) -> &str {
        &self.chain.first().conversation
    }

    /// Returns the number of its runs that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.chain.iter().filter(|run| run.status.is_final()).count()
    }

    /// Returns the place of the run that a message of a client began.
    pub(crate) fn place_of_message(&self, id: &str) -> Option<usize> {
        let is_of = |message: Message| message.message_id == id;
        self.chain.iter().position(|run| message_of(run).is_some_and(is_of))
    }

    /// Returns the status of a task that has not ended, if it is known without its log.
    fn known_status(&self) -> Option<TaskStatus> {
        let status = |state, at| TaskStatus { state, message: None, timestamp: timestamp(at) };
        if let Some(at) = self.chain.rolled_back_at() {
            return Some(status(TaskState::Canceled, at));
        }
        let last = self.chain.last();
        match last.status {
            RunStatus::Queued | RunStatus::Pending if self.chain.count() == 1 => {
                Some(status(TaskState::Submitted, last.created_at))
            }
            RunStatus::Queued | RunStatus::Pending | RunStatus::Running => {
                Some(status(TaskState::Working, last.created_at))
            }
            _ => None,
        }
    }

    /// Returns the status.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn status(
        &self,
        platform: &dyn Platform,
        who: &Principal,
    ) -> Result<TaskStatus> {
        if let Some(known) = self.known_status() {
            return Ok(known);
        }
        let last = self.chain.last();
        let RunHandle { mut events, outcome, .. } = follow(platform, who, last).await?;
        let outcome = outcome.await;
        let mut reader = RunReader::new(last, &self.id());
        if matches!(outcome, RunOutcome::Cancelled { .. }) {
            // The status names the calls that were under way.
            while let Some(event) = events.next().await {
                reader.read(&event);
            }
        }
        let updates = reader.end(&outcome, last.ended_at);
        let status = updates.into_iter().rev().find_map(|update| match update {
            Update::Status(status) => Some(status),
            Update::Artifact { .. } => None,
        });
        status.ok_or_else(|| A2aError::internal("the run has no status"))
    }

    /// Returns the questions that wait for an answer.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn outcome(
        &self,
        platform: &dyn Platform,
        who: &Principal,
    ) -> Result<RunOutcome> {
        Ok(follow(platform, who, self.chain.last()).await?.outcome.await)
    }

    /// Returns the task with what its first `runs` runs made, all of which have ended.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn snapshot(
        &self,
        platform: &dyn Platform,
        who: &Principal,
        runs: usize,
    ) -> Result<Task> {
        let id = self.id();
        let mut task = TaskFold::default();
        if self.chain.rolled_back_at().is_none() {
            for turn in self.chain.iter().take(runs) {
                task.say(turn, &id);
                let RunHandle { mut events, outcome, .. } = follow(platform, who, turn).await?;
                let mut reader = RunReader::new(turn, &id);
                while let Some(event) = events.next().await {
                    reader.read(&event).into_iter().for_each(|update| task.add(update));
                }
                let updates = reader.end(&outcome.await, turn.ended_at);
                updates.into_iter().for_each(|update| task.add(update));
            }
            self.chain.iter().skip(runs).for_each(|turn| task.say(turn, &id));
        } else {
            self.chain.iter().for_each(|turn| task.say(turn, &id));
        }
        let is_current = runs >= self.chain.count();
        let status = match self.known_status() {
            Some(status) => Some(status),
            None if is_current => task.status.take(),
            None => {
                let at = self.chain.last().created_at;
                let message = None;
                Some(TaskStatus { state: TaskState::Working, message, timestamp: timestamp(at) })
            }
        };
        let status = status.ok_or_else(|| A2aError::internal("the run has no status"))?;
        Ok(Task {
            id,
            context_id: self.context().to_owned(),
            status,
            artifacts: Some(task.artifacts),
            history: task.history,
            metadata: Map::new(),
        })
    }
}

/// Returns the message that began a run; `None` for a run that another protocol began.
fn message_of(turn: &TurnRun) -> Option<Message> {
    let own = turn.metadata.get(METADATA)?.get("message")?;
    serde_json::from_value(own.clone()).ok()
}

/// Follows a run of a principal from its first event.
///
/// # Errors
/// Those of the store.
pub(crate) async fn follow(
    platform: &dyn Platform,
    who: &Principal,
    turn: &TurnRun,
) -> Result<RunHandle> {
    platform.follow(who, &turn.at.run).await.map_err(A2aError::of_fault)
}

/// A task that is put together from its updates, as clients do it.
#[derive(Debug, Default)]
struct TaskFold {
    status: Option<TaskStatus>,
    artifacts: Vec<Artifact>,
    history: Vec<Message>,
}

impl TaskFold {
    /// Adds the message that began a run, after the question that it answers.
    fn say(&mut self, turn: &TurnRun, task: &str) {
        self.history.extend(self.status.take().and_then(|status| status.message));
        if let Some(mut message) = message_of(turn) {
            message.task_id = task.to_owned();
            message.context_id.clone_from(&turn.conversation);
            self.history.push(message);
        }
    }

    fn add(&mut self, update: Update) {
        match update {
            Update::Status(status) => self.status = Some(status),
            Update::Artifact { artifact, append, .. } => {
                let same = |known: &&mut Artifact| known.artifact_id == artifact.artifact_id;
                match self.artifacts.iter_mut().find(same) {
                    Some(known) if append => append_parts(&mut known.parts, artifact.parts),
                    Some(known) => *known = artifact,
                    None => self.artifacts.push(artifact),
                }
            }
        }
    }
}

/// Adds parts; a text continues the text before it.
fn append_parts(known: &mut Vec<wire::Part>, more: Vec<wire::Part>) {
    for part in more {
        let last = known.last_mut().map(|last| &mut last.content);
        match (last, part.content) {
            (Some(wire::PartContent::Text(text)), wire::PartContent::Text(rest)) => {
                text.push_str(&rest);
            }
            (_, content) => known.push(wire::Part { content, ..part }),
        }
    }
}

/// Cuts the history of a task.
pub(crate) fn cut_history(task: &mut Task, length: Option<i64>) {
    if let Some(length) = length {
        let keep = usize::try_from(length).unwrap_or(0);
        let drop = task.history.len().saturating_sub(keep);
        task.history.drain(..drop);
    }
}

/// Checks a length of the history.
///
/// # Errors
/// An error for a negative one.
pub(crate) fn check_history(length: Option<i64>) -> Result<Option<i64>> {
    match length {
        Some(length) if length < 0 => {
            Err(A2aError::wrong("historyLength", &length.to_string(), "a number from 0"))
        }
        length => Ok(length),
    }
}
