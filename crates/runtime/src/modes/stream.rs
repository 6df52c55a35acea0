//! Streams of frames.

use super::frame::{Frame, FrameContent, FramePosition};
use super::projection::{Projection, Source};
use crate::runtime::Runtime;
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;
use weftwork_engine::fault_injection::{self, Bug};
use weftwork_graph::run_loop::Modes;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::event::{Position, RunEvent};
use weftwork_types::run::{RunOptions, RunRef};
use weftwork_types::shown::StateForm;
use weftwork_types::{BoxStream, Principal};

/// Number of the event that a follower misses with an injected bug.
const MISSED: u64 = 3;

/// Selection of the frames of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Modes of the frames.
    pub modes: Modes,
    /// Frames of subgraphs.
    pub subgraphs: Subgraphs,
    /// Only frames after this position: that of the last frame that the client received.
    pub after: FramePosition,
    /// Form of the frames of the mode `values`, as for the threads of the reader
    /// ([`Thread::whole_state`](crate::Thread::whole_state)). Frames of other modes always have the
    /// shown form.
    pub form: StateForm,
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

/// A run whose frames are computed.
pub(crate) struct Followed {
    pub(crate) graph: CompiledGraph,
    pub(crate) who: Principal,
    pub(crate) run: RunRef,
    pub(crate) options: RunOptions,
    /// The events of the run from its first one on.
    pub(crate) events: BoxStream<'static, RunEvent>,
}

/// The frames of a run, until its last event.
pub(crate) fn frames(
    runtime: &Runtime,
    followed: Followed,
    options: StreamOptions,
) -> BoxStream<'static, Result<Frame, RuntimeError>> {
    let Followed { graph, who, run, options: of_run, events } = followed;
    let host = runtime.looking(&who);
    let (store, thread) = (Arc::clone(runtime.store()), run.thread);
    let source = Source { graph, host, store, who, thread, options: of_run };
    let projection = Projection::new(source, options);
    let reader = Reader { events, projection, next: VecDeque::new(), options };
    let frames = futures_util::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        match reader.next().await? {
            Ok(frame) => Some((Ok(frame), Some(reader))),
            Err(error) => Some((Err(error), None)),
        }
    });
    frames.boxed()
}

struct Reader {
    events: BoxStream<'static, RunEvent>,
    projection: Projection,
    next: VecDeque<Frame>,
    options: StreamOptions,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Frame, RuntimeError>> {
        loop {
            while let Some(frame) = self.next.pop_front() {
                if self.shows(&frame) {
                    return Some(Ok(frame));
                }
            }
            let event = self.events.next().await?;
            let reconnects = self.options.after != FramePosition::START;
            if fault_injection::has(Bug::MissesEvent) && reconnects && event.seq == Some(MISSED) {
                continue;
            }
            match self.projection.frames(&event).await {
                Ok(frames) => self.next.extend(frames),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn shows(&self, frame: &Frame) -> bool {
        let nested = match &frame.content {
            FrameContent::Item(item) => !item.ns.is_empty(),
            FrameContent::Dropped { ns, .. } => !ns.is_empty(),
        };
        !nested || self.options.subgraphs == Subgraphs::Include
    }
}

impl Runtime {
    /// Follows a run in stream modes: a run that is executed here or in another process, or one
    /// that has ended.
    ///
    /// The frames are computed from the log of the run and its checkpoints: everyone receives the
    /// same ones in the same order, and a client that reconnects with the position of the last
    /// frame it received continues after it. They arrive when their event is committed; those of a
    /// run with durability `exit` at its end. Only frames of partial text are not repeated once
    /// their message is final: its frame follows under the same id. Subgraphs that store no
    /// checkpoints have no frames but those of custom values.
    ///
    /// A frame that cannot be computed any more, because retention deleted its checkpoint, is
    /// replaced by [`FrameContent::Dropped`].
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist,
    /// [`RuntimeError::UnknownGraph`]. An error that occurs later is the last element of the stream.
    pub async fn stream(
        &self,
        who: &Principal,
        run: &RunRef,
        options: StreamOptions,
    ) -> Result<BoxStream<'static, Result<Frame, RuntimeError>>, RuntimeError> {
        let row = self.store().run(who, run).await?;
        let graph = self.find_graph(&row.new.graph)?.1.clone();
        let events = self.watch(who, run, Position::START).await?.events;
        let (who, run, of_run) = (who.clone(), run.clone(), row.new.options);
        Ok(frames(self, Followed { graph, who, run, options: of_run, events }, options))
    }
}
