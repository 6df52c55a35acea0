//! Commits: everything a moment of the run leaves behind, in one transaction.

use super::{Going, Host};
use crate::error::RuntimeError;
use crate::hub::Hub;
use weftwork_engine::channel::MessageWrite;
use weftwork_engine::record::{self, StepRecord, TaskRecord, VERSION};
use weftwork_engine::task::TaskPath;
use weftwork_engine::{Closed, Task, TaskOutput, Write};
use weftwork_store::{Claim, Commit, Source, StepRow, TaskWrites};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::Message;
use weftwork_types::port::Emit;
use weftwork_types::run::RunFinal;
use weftwork_types::{CheckpointId, Principal};

impl Going {
    /// Commits a closed superstep, and the end of the run when nothing is due any more.
    pub(super) async fn commit_step(
        &mut self,
        closed: &Closed,
        source: Source,
    ) -> Result<(), RuntimeError> {
        let plan = self.machine.plan();
        let parent = self.machine.head();
        let unique = self.run.host.clock.unique();
        // Ids of one thread sort by age even when the clock went back.
        let id = CheckpointId(parent.map_or(unique, |p| unique.max(p.0 + 1)));
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
        if source != Source::Input {
            for message in new_messages(closed) {
                self.run.hub.emit(AiEvent::MessageFinal { message });
            }
        }
        self.machine.set_head(id);
        if branch {
            self.machine.begin_branch(id);
        }
        self.commit(Commit { steps: vec![row], ..Commit::default() }).await
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

    /// Ends the run at the end of a superstep.
    pub(super) async fn finish(&self, outcome: RunFinal) -> Result<RunFinal, RuntimeError> {
        self.stop(outcome, Vec::new()).await
    }

    /// Ends the run, with questions that stay open.
    pub(super) async fn stop(
        &self,
        outcome: RunFinal,
        interrupts: Vec<Interrupt>,
    ) -> Result<RunFinal, RuntimeError> {
        for interrupt in &interrupts {
            self.run.hub.emit(AiEvent::asked(interrupt));
        }
        self.run.hub.emit(AiEvent::Done { outcome: outcome.status() });
        let finish = Some(stored(&outcome));
        self.commit(Commit { interrupts, finish, ..Commit::default() }).await?;
        Ok(outcome)
    }

    pub(super) async fn commit(&self, commit: Commit) -> Result<(), RuntimeError> {
        let run = &self.run;
        let finish = Finish { host: &run.host, hub: &run.hub, who: &run.who, claim: &run.claim };
        finish.commit(commit).await
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
    pub(super) async fn failed(&self, outcome: RunFinal) -> Result<(), RuntimeError> {
        self.hub.emit(AiEvent::Done { outcome: outcome.status() });
        self.commit(Commit { finish: Some(outcome), ..Commit::default() }).await
    }

    async fn commit(&self, mut commit: Commit) -> Result<(), RuntimeError> {
        commit.events = self.hub.uncommitted();
        commit.at = self.host.clock.now();
        let count = commit.events.len();
        let committed = self.host.store.commit(self.who, self.claim, commit).await?;
        self.hub.committed(committed.first_seq, count);
        Ok(())
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
fn new_messages(closed: &Closed) -> Vec<Message> {
    let mut messages = Vec::new();
    for (_, write) in closed.outputs.iter().flat_map(|(_, output)| &output.writes) {
        let Write::Typed(value) = write else { continue };
        for change in value.get::<Vec<MessageWrite>>().into_iter().flatten() {
            if let MessageWrite::Put(message) = change {
                messages.push(message.clone());
            }
        }
    }
    messages
}
