//! Commits: everything a moment of the run leaves behind, in one transaction.

use super::{Going, Host};
use crate::error::RuntimeError;
use crate::hub::Hub;
use std::sync::Arc;
use std::time::Duration;
use weftwork_engine::channel::MessageWrite;
use weftwork_engine::record::{self, StepRecord, TaskRecord, VERSION};
use weftwork_engine::task::TaskPath;
use weftwork_engine::{Closed, Plan, Task, TaskOutput, Write};
use weftwork_store::{
    Claim, Commit, Committed, InterruptRow, Source, StepRow, StoreError, TaskWrites,
};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::Message;
use weftwork_types::run::RunFinal;
use weftwork_types::{CheckpointId, Principal};

/// The longest wait between two attempts to record the end of a run.
const RECORD_WAIT_MAX: Duration = Duration::from_secs(60);

impl Going {
    /// Commits a closed superstep and what is told of it.
    pub(super) async fn commit_step(
        &mut self,
        closed: &Closed,
        source: Source,
    ) -> Result<(), RuntimeError> {
        let plan = self.machine.plan();
        let parent = self.machine.head();
        let unique = self.run.host.clock.unique();
        // Ids of one thread sort by age, on all its branches, even when the clock went back.
        let id = CheckpointId(self.newest.map_or(unique, |p| unique.max(p.0.saturating_add(1))));
        let branch = std::mem::take(&mut self.branches);
        let record = StepRecord { branch, ..plan.record(closed)? };
        let row = StepRow {
            id,
            parent,
            ns: String::new(),
            step: closed.step,
            source,
            fingerprint: plan.fingerprint(),
            body: record::write(closed.step, &record)?,
        };
        let mut events = Vec::new();
        if source == Source::Loop {
            let tasks = closed.outputs.iter().filter_map(|(task, _)| task.as_ref());
            let nodes = tasks.map(|task| plan.node_name(task.node).to_owned()).collect();
            events.push(AiEvent::Step { step: closed.step, nodes });
        }
        if source != Source::Input {
            let messages = new_messages(plan, closed)?.into_iter();
            events.extend(messages.map(|message| AiEvent::MessageFinal { message }));
        }
        self.machine.set_head(id);
        self.newest = Some(id);
        if branch {
            self.machine.begin_branch(id);
        }
        self.commit(Commit { steps: vec![row], events, ..Commit::default() }).await?;
        // The store closed the questions of the superstep that was left.
        self.waiting.clear();
        Ok(())
    }

    /// Commits the outputs of finished tasks while their superstep is still open.
    pub(super) async fn commit_writes(
        &self,
        done: &[(Task, String, TaskOutput)],
    ) -> Result<(), RuntimeError> {
        let writes = self.task_writes(done)?;
        self.commit(Commit { writes, ..Commit::default() }).await
    }

    fn task_writes(
        &self,
        done: &[(Task, String, TaskOutput)],
    ) -> Result<Vec<TaskWrites>, RuntimeError> {
        let of = self.machine.head().unwrap_or(CheckpointId(0));
        let plan = self.machine.plan();
        done.iter()
            .map(|(task, node, output)| {
                let handled = task.path == TaskPath::Handled;
                let record = TaskRecord { handled, ..plan.task_record(node, output)? };
                let body = record::write(VERSION.into(), &record)?;
                Ok(TaskWrites { of, task: task.id, body })
            })
            .collect()
    }

    /// Ends the run between two supersteps. Questions that nobody answered stay open while their
    /// superstep is the thread's.
    pub(super) async fn finish(&self, outcome: RunFinal) -> Result<RunFinal, RuntimeError> {
        let interrupts = self.waiting.values().flatten().cloned().collect();
        let events = vec![AiEvent::Done { outcome: outcome.status() }];
        let finish = Some(stored(&outcome));
        self.commit(Commit { interrupts, events, finish, ..Commit::default() }).await?;
        Ok(outcome)
    }

    /// Ends the run within a superstep, with questions that are open.
    pub(super) async fn stop(
        &self,
        outcome: RunFinal,
        interrupts: Vec<Interrupt>,
    ) -> Result<RunFinal, RuntimeError> {
        let mut events: Vec<_> = interrupts.iter().map(AiEvent::asked).collect();
        events.push(AiEvent::Done { outcome: outcome.status() });
        let finish = Some(stored(&outcome));
        self.commit(Commit { interrupts, events, finish, ..Commit::default() }).await?;
        Ok(outcome)
    }

    pub(super) async fn commit(&self, commit: Commit) -> Result<(), RuntimeError> {
        let run = &self.run;
        let finish = Finish { host: &run.host, hub: &run.hub, who: &run.who, claim: &run.claim };
        let committed = finish.commit(commit).await?;
        if committed.cancel_requested {
            // Whoever asked may be another process.
            run.cancel.send_replace(true);
        }
        Ok(())
    }
}

/// What is needed to commit when there is no state to commit.
pub(super) struct Finish<'a> {
    pub(super) host: &'a Host,
    pub(super) hub: &'a Hub,
    pub(super) who: &'a Principal,
    pub(super) claim: &'a Claim,
}

impl Finish<'_> {
    /// Ends a run that failed outside of its tasks. Open questions stay open: the thread stands
    /// where it stood.
    pub(super) async fn failed(&self, outcome: RunFinal) -> Result<(), StoreError> {
        let interrupts = match self.host.store.interrupts(self.who, &self.claim.at.thread).await {
            Ok(rows) => open_questions(rows),
            Err(error) => {
                tracing::warn!(%error, run = %self.claim.at.run, "cannot read the open questions");
                Vec::new()
            }
        };
        let events = vec![AiEvent::Done { outcome: outcome.status() }];
        let finish = Some(outcome);
        self.commit(Commit { interrupts, events, finish, ..Commit::default() }).await?;
        Ok(())
    }

    /// Commits what waits to be told and after it the commit's own events, which are told only
    /// when it is on disk.
    async fn commit(&self, mut commit: Commit) -> Result<Committed, StoreError> {
        let own = std::mem::replace(&mut commit.events, self.hub.uncommitted());
        let count = commit.events.len();
        commit.events.extend(own.iter().cloned());
        commit.at = self.host.clock.now();
        let committed = self.host.store.commit(self.who, self.claim, commit).await?;
        self.hub.committed(committed.first_seq, count, own);
        Ok(committed)
    }
}

fn open_questions(rows: Vec<InterruptRow>) -> Vec<Interrupt> {
    let open = rows.into_iter().filter(|row| row.answer.is_none() && !row.closed);
    open.map(|row| row.interrupt).collect()
}

/// A run that failed and whose store did not take its end.
pub(crate) struct Unrecorded {
    pub(super) host: Arc<Host>,
    pub(super) who: Principal,
    pub(super) claim: Claim,
    pub(super) outcome: RunFinal,
}

impl Unrecorded {
    /// Tries until the store takes the end, so that the thread does not stay busy as long as this
    /// process lives, or until the store says that it never will.
    pub(crate) async fn record(self) {
        let hub = Hub::default();
        let (host, who, claim) = (&self.host, &self.who, &self.claim);
        let mut wait = Duration::from_secs(1);
        loop {
            host.clock.sleep(wait).await;
            tokio::task::yield_now().await;
            match (Finish { host, hub: &hub, who, claim }).failed(self.outcome.clone()).await {
                Err(error) if error.is_retriable() => wait = (wait * 2).min(RECORD_WAIT_MAX),
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, run = %claim.at.run, "the end of the run stays unrecorded");
                    return;
                }
            }
        }
    }
}

/// The outcome as it is stored: the state is in the checkpoints and not stored a second time.
fn stored(outcome: &RunFinal) -> RunFinal {
    match outcome {
        RunFinal::Completed { .. } => RunFinal::Completed { output: serde_json::Value::Null },
        other => other.clone(),
    }
}

/// The messages a superstep added to or replaced in conversations.
fn new_messages(plan: &Plan, closed: &Closed) -> Result<Vec<Message>, RuntimeError> {
    let mut messages = Vec::new();
    for (channel, write) in closed.outputs.iter().flat_map(|(_, output)| &output.writes) {
        let read;
        let changes = match write {
            Write::Typed(value) => value.get::<Vec<MessageWrite>>().map(Vec::as_slice),
            // What a task left behind before this process had the run, or somebody from outside.
            Write::Json(json) => {
                read = plan.message_writes(*channel, json)?;
                Some(read.as_slice())
            }
            Write::Overwrite(_) => None,
        };
        for change in changes.unwrap_or_default() {
            if let MessageWrite::Put(message) = change {
                messages.push(message.clone());
            }
        }
    }
    Ok(messages)
}
