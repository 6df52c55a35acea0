//! The projection of a run: it turns the events of its log into the frames of its streams.

use super::frame::{Frame, FrameContent, FramePosition};
use super::incident::{Incident, TaskOutcome};
use super::messages::{Messages, OfMessage};
use super::stream::StreamOptions;
use super::{checkpoints, custom, debug, tasks, updates, values};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_graph::run_loop::{
    Host, LoopBounds, Modes, StateForm, StateQuery, StepOrigin, StoredStep, StreamEvent, StreamItem,
};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::Store;
use weftwork_types::event::{
    AiEvent, CheckpointSource, CheckpointStored, OutsideWrites, RunEvent, TaskDue, TaskEnd,
    TaskStatus,
};
use weftwork_types::run::{RunOptions, RunStatus};
use weftwork_types::{CheckpointId, Principal, TaskId, ThreadId, Timestamp};

/// Parts of an event that belong to one incident, and to one mode of it.
const PARTS_OF_INCIDENT: u64 = 1 << 20;
const PARTS_OF_MODE: u64 = 1 << 16;

/// The run, and the resources to read it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) graph: CompiledGraph,
    pub(super) host: Host,
    pub(super) store: Arc<dyn Store>,
    pub(super) who: Principal,
    pub(super) thread: ThreadId,
    pub(super) options: RunOptions,
}

/// State of the projection of one run.
#[derive(Debug)]
pub(super) struct Projection {
    source: Source,
    modes: Modes,
    /// Form of the mode `values`.
    form: StateForm,
    loops: BTreeMap<String, OpenLoop>,
    messages: Messages,
    /// `true` if the run asked a question.
    asked: bool,
    /// Frames up to this position are not emitted.
    after: FramePosition,
}

/// A loop of the run, and its open superstep.
#[derive(Debug)]
struct OpenLoop {
    /// Checkpoint from which the loop began.
    first: (CheckpointId, StepOrigin),
    /// Checkpoint from which the open superstep starts.
    open: (CheckpointId, StepOrigin),
    bounds: Option<LoopBounds>,
    /// Tasks of the open superstep whose end was reported.
    ended: BTreeMap<TaskId, TaskStatus>,
}

/// Frames of one event.
struct Frames<'a> {
    modes: Modes,
    form: StateForm,
    messages: &'a mut Messages,
    event: FramePosition,
    at: Timestamp,
    /// Number of incidents so far.
    incidents: u64,
    found: Vec<Frame>,
}

impl Projection {
    pub(super) fn new(source: Source, options: StreamOptions) -> Self {
        Self {
            source,
            modes: options.modes,
            form: options.form,
            loops: BTreeMap::new(),
            messages: Messages::default(),
            asked: false,
            after: options.after,
        }
    }

    /// The frames of the next event of the log, in order.
    pub(super) async fn frames(&mut self, event: &RunEvent) -> Result<Vec<Frame>, RuntimeError> {
        // An event without a position is not in the log.
        let Some(position) = event.position() else { return Ok(Vec::new()) };
        let mut messages = std::mem::take(&mut self.messages);
        let at = FramePosition { event: position, part: 0 };
        let mut frames = Frames {
            modes: self.modes,
            form: self.form,
            messages: &mut messages,
            event: at,
            at: event.at.unwrap_or_default(),
            incidents: 0,
            found: Vec::new(),
        };
        // Messages that were emitted before are known from all events of the run.
        let is_read = position < self.after.event && !self.modes.any_of(Modes::MESSAGES);
        let read = self.read(event, is_read, &mut frames).await;
        let mut found = frames.found;
        self.messages = messages;
        read?;
        found.retain(|frame| frame.position > self.after);
        Ok(found)
    }

    /// Adds the frames of an event; only follows it if the client has read it.
    async fn read(
        &mut self,
        event: &RunEvent,
        is_read: bool,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        match &event.event {
            AiEvent::Checkpoint(stored) => {
                if is_read {
                    self.note_checkpoint(stored);
                } else {
                    self.checkpoint(stored, frames).await?;
                }
            }
            AiEvent::TasksStarted { ns, checkpoint, tasks, outside } => {
                let again = self.begin_again(ns, (*checkpoint, *outside));
                if !is_read {
                    self.continued((ns, tasks), again, frames).await?;
                }
                self.note_reused(ns, tasks);
            }
            AiEvent::TasksEnded { ns, ended, .. } => {
                if !is_read {
                    self.ended((ns, ended), frames).await?;
                }
                self.note_ended(ns, ended);
            }
            AiEvent::HumanInputRequired { .. } => self.asked = true,
            AiEvent::Requeued { .. } => self.asked = false,
            AiEvent::Done { outcome: RunStatus::Interrupted } if !is_read => {
                self.stopped(frames).await?;
            }
            _ => frames.outside(event),
        }
        Ok(())
    }

    /// Follows a checkpoint without reading it.
    fn note_checkpoint(&mut self, stored: &CheckpointStored) {
        let at = (stored.id, StepOrigin::Made);
        if stored.source == CheckpointSource::Empty {
            return;
        }
        self.close_within(&stored.ns);
        match self.loops.get_mut(&stored.ns) {
            Some(known) if stored.source == CheckpointSource::Loop => {
                known.open = at;
                known.ended.clear();
            }
            _ => drop(self.loops.insert(stored.ns.clone(), OpenLoop::new(at))),
        }
    }

    /// Removes the loops of subgraphs of a superstep that is closed.
    fn close_within(&mut self, ns: &str) {
        self.loops.retain(|other, _| {
            let within = match ns {
                "" => !other.is_empty(),
                ns => other.strip_prefix(ns).is_some_and(|rest| rest.starts_with('|')),
            };
            !within
        });
    }

    /// Begins a loop at a checkpoint that was stored before. Returns `true` if the superstep was
    /// open in this run already, so that its tasks run again.
    fn begin_again(
        &mut self,
        ns: &str,
        (checkpoint, outside): (CheckpointId, OutsideWrites),
    ) -> bool {
        if let Some(known) = self.loops.get_mut(ns)
            && known.open.0 == checkpoint
        {
            known.ended.retain(|_, status| matches!(status, TaskStatus::Ok | TaskStatus::Cached));
            return true;
        }
        let at = (checkpoint, StepOrigin::Continued(outside));
        self.loops.insert(ns.to_owned(), OpenLoop::new(at));
        false
    }

    fn note_reused(&mut self, ns: &str, tasks: &[TaskDue]) {
        if let Some(known) = self.loops.get_mut(ns) {
            let reused = tasks.iter().filter(|task| task.finished);
            known.ended.extend(reused.map(|task| (task.id, TaskStatus::Cached)));
        }
    }

    fn note_ended(&mut self, ns: &str, ended: &[TaskEnd]) {
        if let Some(known) = self.loops.get_mut(ns) {
            known.ended.extend(ended.iter().map(|end| (end.id, end.status)));
        }
    }

    async fn checkpoint(
        &mut self,
        stored: &CheckpointStored,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        if stored.source == CheckpointSource::Loop && self.loops.contains_key(&stored.ns) {
            self.close(stored, frames).await?;
        }
        self.note_checkpoint(stored);
        let Some(step) = self.open_step(&stored.ns, frames).await? else { return Ok(()) };
        // The tasks of a branch start in the order of the checkpoint that it leaves.
        let step = step.in_order(stored.due.iter().map(|task| &task.id));
        if stored.source == CheckpointSource::Fork {
            frames.incident(&stored.ns, &step, &Incident::Continued);
        }
        if stored.source != CheckpointSource::Empty {
            frames.incident(&stored.ns, &step, &Incident::Checkpoint);
            let ran: Vec<_> = stored.ended.iter().map(|end| end.node.clone()).collect();
            self.starts(&stored.ns, &step, (&ran, &stored.due), frames);
        }
        Ok(())
    }

    /// Adds the ends of the tasks of a superstep that is closed, and the values after it.
    async fn close(
        &mut self,
        stored: &CheckpointStored,
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step(&stored.ns, frames).await? else { return Ok(()) };
        let Some(open) = self.loops.get(&stored.ns) else { return Ok(()) };
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

    async fn continued(
        &mut self,
        (ns, tasks): (&str, &[TaskDue]),
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
        if self.starts(ns, &step, (&[], tasks), frames) {
            for id in &reused {
                let (id, status) = (*id, TaskStatus::Cached);
                let outcome = TaskOutcome { id, status, fault: None, questions: Vec::new() };
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
        (ran, due): (&[String], &[TaskDue]),
        frames: &mut Frames<'_>,
    ) -> bool {
        let Some(open) = self.loops.get(ns) else { return false };
        if !open.bounds.as_ref().is_some_and(|bounds| step.starts(bounds, ran)) {
            return false;
        }
        let ended = |task: &&TaskDue| open.ended.contains_key(&task.id) && !task.finished;
        for task in due.iter().filter(|task| !ended(task)) {
            frames.incident(ns, step, &Incident::Started(task.id));
        }
        true
    }

    async fn ended(
        &mut self,
        (ns, ended): (&str, &[TaskEnd]),
        frames: &mut Frames<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step(ns, frames).await? else { return Ok(()) };
        let Some(open) = self.loops.get(ns) else { return Ok(()) };
        for end in ended.iter().filter(|end| !open.has(end)) {
            let outcome = self.source.outcome(&step, end).await?;
            frames.incident(ns, &step, &Incident::Ended(outcome));
        }
        Ok(())
    }

    /// Adds the values with the writes of finished tasks when the run stopped within a superstep.
    async fn stopped(&mut self, frames: &mut Frames<'_>) -> Result<(), RuntimeError> {
        let Some(step) = self.open_step("", frames).await? else { return Ok(()) };
        let Some(open) = self.loops.get("") else { return Ok(()) };
        let finished = finished_of(open.ended.iter().map(|(id, status)| (*id, *status)));
        if !finished.is_empty() {
            let values = step.values_after(&finished)?;
            frames.incident("", &step, &Incident::Applied(values));
        }
        if !self.asked {
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
        let Some(open) = self.loops.get_mut(ns) else { return Ok(None) };
        if open.bounds.is_none() {
            let first = self.source.load(ns, open.first).await;
            let Some(first) = frames.found_or_dropped(ns, first)? else { return Ok(None) };
            let options = &self.source.options;
            let stops = (options.interrupt_before.clone(), options.interrupt_after.clone());
            open.bounds = Some(first.bounds(options.step_limit, stops));
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

impl OpenLoop {
    fn new(at: (CheckpointId, StepOrigin)) -> Self {
        Self { first: at, open: at, bounds: None, ended: BTreeMap::new() }
    }

    /// Returns `true` if the end of a task was reported, in this run or before it.
    fn has(&self, end: &TaskEnd) -> bool {
        let known = self.ended.get(&end.id);
        known.is_some_and(|status| *status == end.status || *status == TaskStatus::Cached)
    }
}

impl Source {
    async fn load(
        &self,
        ns: &str,
        (checkpoint, origin): (CheckpointId, StepOrigin),
    ) -> Result<Option<StoredStep>, RuntimeError> {
        let at =
            StateQuery { checkpoint: Some(checkpoint), ..StateQuery::thread(self.thread.as_str()) };
        StoredStep::load(&self.graph, &self.host, &at.within(ns), origin).await
    }

    /// The outcome of a task when it ended. Its record may be that of a later run, which got
    /// answers or failed again.
    async fn outcome(&self, step: &StoredStep, end: &TaskEnd) -> Result<TaskOutcome, RuntimeError> {
        let (id, status) = (end.id, end.status);
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
        Ok(TaskOutcome { id, status, fault, questions })
    }
}

impl Frames<'_> {
    /// Adds the frames of an incident, one mode after another.
    fn incident(&mut self, ns: &str, step: &StoredStep, incident: &Incident) {
        let modes = [
            (Modes::UPDATES, updates::event as fn(&StoredStep, &Incident) -> Option<StreamEvent>),
            (Modes::VALUES, values::event),
            (Modes::CHECKPOINTS, checkpoints::event),
            (Modes::TASKS, tasks::event),
            (Modes::DEBUG, debug::event),
        ];
        if self.modes.any_of(Modes::MESSAGES) {
            let messages = self.messages.events(step, incident);
            self.of_messages(messages);
        }
        for ((mode, event), slot) in modes.into_iter().zip(1..) {
            if self.modes.any_of(mode)
                && let Some(event) = event(step, incident)
            {
                self.push(ns, (slot, 0), event);
            }
        }
        self.incidents += 1;
    }

    /// Adds the frames of an event that belongs to no superstep.
    fn outside(&mut self, event: &RunEvent) {
        if self.modes.any_of(Modes::MESSAGES) {
            let partial = self.messages.partial(event);
            self.of_messages(partial);
        }
        if self.modes.any_of(Modes::CUSTOM)
            && let Some((ns, event)) = custom::event(&event.event)
        {
            self.push(ns, (1, 0), event);
        }
    }

    fn of_messages(&mut self, messages: Vec<OfMessage>) {
        for ((ns, event), index) in messages.into_iter().zip(0..) {
            self.push(&ns, (0, index), event);
        }
    }

    fn push(&mut self, ns: &str, (slot, index): (u64, u64), event: StreamEvent) {
        let item = StreamItem { ns: parts(ns), event }.in_form(self.form);
        self.add((slot, index), FrameContent::Item(item));
    }

    fn add(&mut self, (slot, index): (u64, u64), content: FrameContent) {
        let index = index.min(PARTS_OF_MODE - 2);
        let part = self.incidents * PARTS_OF_INCIDENT + slot * PARTS_OF_MODE + index + 1;
        let position = FramePosition { part, ..self.event };
        self.found.push(Frame { position, at: self.at, content });
    }

    /// Returns the superstep that was found, and adds a frame if there is none.
    fn found_or_dropped(
        &mut self,
        ns: &str,
        found: Result<Option<StoredStep>, RuntimeError>,
    ) -> Result<Option<StoredStep>, RuntimeError> {
        let reason = match found {
            Ok(Some(step)) => return Ok(Some(step)),
            Ok(None) => "the checkpoint is not stored any more".to_owned(),
            Err(error @ RuntimeError::UnknownNamespace { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.add((0, 0), FrameContent::Dropped { ns: ns.to_owned(), reason });
        self.incidents += 1;
        Ok(None)
    }
}

/// The parts of a namespace.
fn parts(ns: &str) -> Vec<String> {
    if ns.is_empty() { Vec::new() } else { ns.split('|').map(str::to_owned).collect() }
}
