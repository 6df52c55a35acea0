//! Streams of frames.

use super::frame::{Frame, FrameContent};
use super::frames::{FrameList, OfMode};
use super::messages::PartialText;
use super::progress::Progress;
use super::projection::{Membership, Projections};
use super::reader::{Source, refers_to_checkpoints};
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::Modes;
use weftwork_types::event::{Position, RunEvent, TextPart, TextSource};
use weftwork_types::shown::StateForm;
use weftwork_types::{BoxStream, RunId};

/// Selection of the output of a run or a thread. By default, it has the events without frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Selection {
    /// Events of the log and partial text.
    pub events: Events,
    /// Modes of the frames; none for no frames.
    pub modes: Modes,
    /// Frames of subgraphs.
    pub subgraphs: Subgraphs,
    /// Form of the frames of the mode `values`, as for the threads of the reader
    /// ([`Thread::whole_state`](crate::Thread::whole_state)). Frames of other modes always have the
    /// shown form.
    pub form: StateForm,
    /// Form of partial text.
    pub texts: Texts,
    /// End of the output of a thread.
    pub until: Until,
}

impl Selection {
    /// Selects the frames of these modes, without those of subgraphs.
    #[must_use]
    pub fn frames(modes: Modes) -> Self {
        Self { events: Events::Omit, modes, ..Self::default() }
    }

    /// Includes the frames of subgraphs.
    #[must_use]
    pub fn with_subgraphs(self) -> Self {
        Self { subgraphs: Subgraphs::Include, ..self }
    }

    /// Delivers partial text as the log has it.
    #[must_use]
    pub fn with_logged_texts(self) -> Self {
        Self { texts: Texts::Logged, ..self }
    }

    /// Ends the output of a thread when no run of the thread is unfinished.
    #[must_use]
    pub fn until_rest(self) -> Self {
        Self { until: Until::Rest, ..self }
    }
}

/// Events in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Events {
    /// The stream has events.
    #[default]
    Include,
    /// The stream has frames only.
    Omit,
}

/// Form of partial text in a stream with events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Texts {
    /// The text of answers as [`RunOutput::Text`], of which a client that reconnects gets the part
    /// that it lacks.
    #[default]
    Resumed,
    /// As the log has it: events of partial text as long as they are stored. A client that
    /// reconnects takes what it lacks from the final message.
    Logged,
}

/// End of the output of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// The stream goes on with runs that begin later, until it is dropped.
    #[default]
    Dropped,
    /// The stream ends when no run of the thread is unfinished.
    Rest,
}

/// Frames of subgraphs in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subgraphs {
    /// The stream has the frames of the outermost graph only.
    #[default]
    Omit,
    /// The stream has the frames of all graphs that store checkpoints.
    Include,
}

/// Output of a run: an event of its log, what it changes in texts, or a frame that is derived from it.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOutput {
    /// A part of the text of an answer. The parts since the last reset are the text of the message,
    /// all of it before the event with the final message.
    Text(Box<TextPart>),
    /// The text that the client has of this message or task is void: the attempt failed that emitted
    /// it, or the process died.
    Reset(TextSource),
    /// An event of the log, or partial text of another kind: reasoning, and arguments of calls. It
    /// precedes the frames that are derived from it.
    Event(Box<RunEvent>),
    /// A frame.
    Frame(Arc<Frame>),
}

/// A run whose frames are wanted.
pub(crate) struct Followed {
    pub(crate) source: Source,
    pub(crate) run: RunId,
    /// The events of the run from its first one on.
    pub(crate) events: BoxStream<'static, RunEvent>,
}

/// The events of a run after a position with their frames, until its last event.
pub(crate) fn follow_output(
    projections: &Arc<Projections>,
    followed: Followed,
    select: Selection,
    after: Position,
) -> BoxStream<'static, Result<RunOutput, RuntimeError>> {
    let Followed { source, run, events } = followed;
    let projection = projections.join(source, &run, select.modes, select.form);
    let follower = FrameFollower {
        events,
        projection,
        seq: 0,
        progress: Arc::default(),
        text: PartialText::default(),
        next: VecDeque::new(),
        select,
        after,
    };
    let output = futures_util::stream::unfold(Some(follower), async |follower| {
        let mut follower = follower?;
        match follower.next().await? {
            Ok(output) => Some((Ok(output), Some(follower))),
            Err(error) => Some((Err(error), None)),
        }
    });
    output.boxed()
}

/// A follower of the frames of a run.
struct FrameFollower {
    events: BoxStream<'static, RunEvent>,
    projection: Membership,
    /// Number of the last event.
    seq: u64,
    /// Progress after the last event.
    progress: Arc<Progress>,
    text: PartialText,
    /// Events and frames that wait for the client.
    next: VecDeque<RunOutput>,
    select: Selection,
    /// Position of the last output that the client received.
    after: Position,
}

impl FrameFollower {
    async fn next(&mut self) -> Option<Result<RunOutput, RuntimeError>> {
        loop {
            if let Some(output) = self.next.pop_front() {
                return Some(Ok(output));
            }
            let event = self.events.next().await?;
            // Of a text that the client has a part of, it gets the rest.
            let is_within = |at: &Position| at.seq == self.after.seq && at.bytes > self.after.bytes;
            let event = match event.position().filter(is_within) {
                Some(_) => event.rest(self.after)?,
                None => event,
            };
            if event.position().is_some_and(|position| position > self.after) {
                self.next.push_back(RunOutput::Event(Box::new(event.clone())));
            }
            if let Err(error) = self.read_event(&event).await {
                return Some(Err(error));
            }
        }
    }

    /// Adds the frames of the next event of the log.
    async fn read_event(&mut self, event: &RunEvent) -> Result<(), RuntimeError> {
        let Some(mut list) = FrameList::new(event, self.select.form) else { return Ok(()) };
        let Some(seq) = event.seq.filter(|_| refers_to_checkpoints(&event.event)) else {
            list.event(event, &mut self.text);
            self.add_frames(&list.into_frames());
            if let Some(seq) = event.seq {
                self.projection.pass(self.seq, seq);
                self.follow(event, seq);
            }
            return Ok(());
        };
        if self.has_read(event, seq) {
            self.follow(event, seq);
            return Ok(());
        }
        // The future is large, and a follower waits for events most of the time.
        let frames = self.projection.frames(&self.progress, self.seq, event, seq);
        let found = Box::pin(frames).await?;
        (self.seq, self.progress) = (seq, Arc::clone(&found.next));
        self.text.end(&found.returned);
        self.add_frames(&found.frames);
        Ok(())
    }

    /// Returns `true` if the frames of an event are not needed: neither by the client, nor to know
    /// which messages were emitted before.
    fn has_read(&self, event: &RunEvent, seq: u64) -> bool {
        let Self { select: Selection { modes, .. }, after, .. } = self;
        let knows_messages = || self.text.is_empty() && self.projection.knows_messages(seq);
        event.position().is_some_and(|position| position < after.event())
            && (!modes.any_of(Modes::MESSAGES) || knows_messages())
    }

    fn follow(&mut self, event: &RunEvent, seq: u64) {
        self.seq = seq;
        if Progress::changes_with(&event.event) {
            Arc::make_mut(&mut self.progress).follow(&event.event);
        }
    }

    /// Adds the frames that the client selected and has not received.
    fn add_frames(&mut self, frames: &[OfMode]) {
        let Selection { modes, subgraphs, .. } = self.select;
        let after = self.after;
        let is_shown = |(mode, frame): &&OfMode| {
            let nested = match &frame.content {
                FrameContent::Item(item) => !item.ns.is_empty(),
                FrameContent::Dropped { ns, .. } => !ns.is_empty(),
            };
            mode.is_none_or(|mode| modes.any_of(mode))
                && (!nested || subgraphs == Subgraphs::Include)
                && frame.position > after
        };
        let shown = frames.iter().filter(is_shown);
        self.next.extend(shown.map(|(_, frame)| RunOutput::Frame(Arc::clone(frame))));
    }
}
