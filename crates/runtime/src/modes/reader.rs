//! The incidents of an event: what it reports, and the checkpoints that it refers to.

use super::frames::Frames;
use super::incident::{Incident, TaskOutcome};
use super::progress::{Progress, StepStart};
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_graph::run_loop::{Host, StateQuery, StoredStep};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::Store;
use weftwork_types::event::{
    AiEvent, CheckpointSource, CheckpointStored, TaskDue, TaskEnd, TaskStatus,
};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{RunOptions, RunStatus};
use weftwork_types::{InterruptId, Principal, TaskId, ThreadId};

/// The run, and the resources to read it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) graph: CompiledGraph,
    pub(crate) host: Host,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) who: Principal,
    pub(crate) thread: ThreadId,
    pub(crate) options: RunOptions,
}

/// Reader of the checkpoints that an event refers to.
pub(super) struct EventReader<'a> {
    pub(super) source: &'a Source,
    /// Progress before the event, and afterwards after it.
    pub(super) progress: Progress,
}

/// Returns `true` if an event has frames that are computed from checkpoints.
pub(super) fn refers_to_checkpoints(event: &AiEvent) -> bool {
    matches!(
        event,
        AiEvent::Checkpoint(_)
            | AiEvent::TasksStarted { .. }
            | AiEvent::TasksEnded { .. }
            | AiEvent::Done { outcome: RunStatus::Interrupted }
    )
}

impl EventReader<'_> {
    /// Adds the frames of an event.
    pub(super) async fn read(
        &mut self,
        event: &AiEvent,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        match event {
            AiEvent::Checkpoint(stored) => self.add_checkpoint(stored, frames).await?,
            AiEvent::TasksStarted { ns, checkpoint, tasks, outside } => {
                let again = self.progress.begin_again(ns, *checkpoint, *outside);
                self.add_continued(ns, tasks, again, frames).await?;
                self.progress.note_reused(ns, tasks);
            }
            AiEvent::TasksEnded { ns, ended, .. } => {
                self.add_ends(ns, ended, frames).await?;
                self.progress.note_ended(ns, ended);
            }
            AiEvent::Done { outcome: RunStatus::Interrupted } => self.add_stop(frames).await?,
            _ => {}
        }
        Ok(())
    }

    async fn add_checkpoint(
        &mut self,
        stored: &CheckpointStored,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        if stored.source == CheckpointSource::Loop && self.progress.loops.contains_key(&stored.ns) {
            self.add_close(stored, frames).await?;
        }
        self.progress.note_checkpoint(stored);
        let Some(step) = self.open_step(&stored.ns, frames).await? else { return Ok(()) };
        // The tasks of a branch start in the order of the checkpoint that it leaves.
        let step = step.in_order(stored.due.iter().map(|task| &task.id));
        if stored.source == CheckpointSource::Fork {
            frames.incident(&stored.ns, &step, &Incident::Continued);
        }
        if stored.source != CheckpointSource::Empty {
            frames.incident(&stored.ns, &step, &Incident::Checkpoint);
            let ran: Vec<_> = stored.ended.iter().map(|end| end.node.clone()).collect();
            self.starts(&stored.ns, &step, &ran, &stored.due, frames);
        }
        Ok(())
    }

    /// Adds the ends of the tasks of a superstep that is closed, and the values after it.
    async fn add_close(
        &mut self,
        stored: &CheckpointStored,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step(&stored.ns, frames).await? else { return Ok(()) };
        let Some(open) = self.progress.loops.get(&stored.ns) else { return Ok(()) };
        for end in stored.ended.iter().filter(|end| !open.has(end)) {
            let outcome = self.source.outcome(&step, end).await?;
            frames.incident(&stored.ns, &step, &Incident::Ended(outcome));
        }
        let finished = stored.ended.iter().map(|end| (end.id, end.status));
        let finished = finished.chain(open.ended.iter().map(|(id, status)| (*id, *status)));
        let values = step.values_after(&finished_of(finished))?;
        frames.incident(&stored.ns, &step, &Incident::Applied(values));
        Ok(())
    }

    async fn add_continued(
        &mut self,
        ns: &str,
        tasks: &[TaskDue],
        again: bool,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step(ns, frames).await? else { return Ok(()) };
        if !again {
            frames.incident(ns, &step, &Incident::Continued);
            frames.incident(ns, &step, &Incident::Checkpoint);
        }
        let reused = tasks.iter().filter(|task| task.finished).map(|task| task.id);
        let reused: Vec<_> = reused.filter(|_| !again).collect();
        if self.starts(ns, &step, &[], tasks, frames) {
            for id in &reused {
                let outcome = TaskOutcome {
                    id: *id,
                    status: TaskStatus::Cached,
                    fault: None,
                    questions: Vec::new(),
                    answered: false,
                };
                frames.incident(ns, &step, &Incident::Ended(outcome));
            }
        }
        Ok(())
    }

    /// Adds the starts of tasks, unless the loop ends before them. Returns `true` if they start.
    fn starts(
        &self,
        ns: &str,
        step: &StoredStep,
        ran: &[String],
        due: &[TaskDue],
        frames: &mut Frames<'_>,
    ) -> bool {
        let Some(open) = self.progress.loops.get(ns) else { return false };
        if !open.bounds.as_deref().is_some_and(|bounds| step.starts(bounds, ran)) {
            return false;
        }
        let ended = |task: &&TaskDue| open.ended.contains_key(&task.id) && !task.finished;
        for task in due.iter().filter(|task| !ended(task)) {
            frames.incident(ns, step, &Incident::Started(task.id));
        }
        true
    }

    async fn add_ends(
        &mut self,
        ns: &str,
        ended: &[TaskEnd],
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step(ns, frames).await? else { return Ok(()) };
        let Some(open) = self.progress.loops.get(ns) else { return Ok(()) };
        for end in ended.iter().filter(|end| !open.has(end)) {
            let outcome = self.source.outcome(&step, end).await?;
            frames.incident(ns, &step, &Incident::Ended(outcome));
        }
        Ok(())
    }

    /// Adds the values with the writes of finished tasks when the run stopped within a superstep.
    async fn add_stop(&mut self, frames: &mut Frames<'_>) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step("", frames).await? else { return Ok(()) };
        let still_open = self.progress.still_open();
        if !still_open.is_empty() {
            let questions = self.source.questions(&still_open).await?;
            frames.incident("", &step, &Incident::StillOpen(questions));
        }
        let Some(open) = self.progress.loops.get("") else { return Ok(()) };
        let finished = finished_of(open.ended.iter().map(|(id, status)| (*id, *status)));
        if !finished.is_empty() {
            let values = step.values_after(&finished)?;
            frames.incident("", &step, &Incident::Applied(values));
        }
        if self.progress.open.is_empty() {
            frames.incident("", &step, &Incident::StoppedAtNode);
        }
        Ok(())
    }

    /// Loads the open superstep of a loop. Adds a frame that says so if its checkpoint is not
    /// stored any more.
    async fn open_step(
        &mut self,
        ns: &str,
        frames: &mut Frames<'_>,
    ) -> Result<Option<StoredStep>, RuntimeError> {
        let Some(open) = self.progress.loops.get_mut(ns) else { return Ok(None) };
        if open.bounds.is_none() {
            let first = self.source.load(ns, open.first).await;
            let Some(first) = frames.found_or_dropped(ns, first)? else { return Ok(None) };
            let options = &self.source.options;
            let before = options.interrupt_before.clone();
            let after = options.interrupt_after.clone();
            open.bounds = Some(Arc::new(first.bounds(options.step_limit, before, after)));
        }
        let step = self.source.load(ns, open.open).await;
        let step = frames.found_or_dropped(ns, step)?;
        Ok(step.map(|step| match &open.bounds {
            Some(bounds) => step.within(bounds),
            None => step,
        }))
    }
}

fn finished_of(ended: impl Iterator<Item = (TaskId, TaskStatus)>) -> BTreeSet<TaskId> {
    let finished =
        ended.filter(|(_, status)| matches!(status, TaskStatus::Ok | TaskStatus::Cached));
    finished.map(|(id, _)| id).collect()
}

impl Source {
    async fn load(&self, ns: &str, start: StepStart) -> Result<Option<StoredStep>, RuntimeError> {
        let StepStart { checkpoint, origin } = start;
        let at =
            StateQuery { checkpoint: Some(checkpoint), ..StateQuery::thread(self.thread.as_str()) };
        StoredStep::load(&self.graph, &self.host, &at.within(ns), origin).await
    }

    /// Reads questions of the thread.
    async fn questions(&self, ids: &[InterruptId]) -> Result<Vec<Interrupt>, RuntimeError> {
        let rows = self.store.interrupts(&self.who, &self.thread).await?;
        let find = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
        Ok(ids.iter().filter_map(find).map(|row| row.interrupt.clone()).collect())
    }

    /// The outcome of a task when it ended. Its record may be that of a later run, which got
    /// answers or failed again.
    async fn outcome(&self, step: &StoredStep, end: &TaskEnd) -> Result<TaskOutcome, RuntimeError> {
        let id = end.id;
        let status = end.status;
        let recorded = step.questions(id);
        let mut questions = Vec::new();
        let mut rows = None;
        for question in &end.questions {
            if let Some(known) = recorded.iter().find(|known| known.id == *question) {
                questions.push(known.clone());
                continue;
            }
            let rows = match &rows {
                Some(rows) => rows,
                None => rows.insert(self.store.interrupts(&self.who, &self.thread).await?),
            };
            let asked = rows.iter().find(|row| row.interrupt.id == *question);
            questions.extend(asked.map(|row| row.interrupt.clone()));
        }
        let fault = end.fault.as_deref().cloned();
        Ok(TaskOutcome { id, status, fault, questions, answered: end.answered })
    }
}
