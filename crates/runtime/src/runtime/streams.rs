//! Streams of the frames of runs.

use super::core::Runtime;
use crate::modes::{Followed, Frame, Source, StreamOptions, frames};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::event::Position;
use weftwork_types::run::RunRef;
use weftwork_types::{BoxStream, Principal};

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
    /// [`ThreadRun::stream`](crate::ThreadRun::stream) reports those and earlier ones, but only in
    /// the process that executes the run.
    ///
    /// Followers of a run in one process share its frames: those of each event are computed once
    /// for all followers that lag by less than 256 KiB of frames. A follower that lags by more, or
    /// comes later, reads the store by itself until it has caught up.
    ///
    /// A frame that cannot be computed any more, because retention deleted its checkpoint, is
    /// replaced by [`FrameContent::Dropped`](crate::FrameContent::Dropped).
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist,
    /// [`RuntimeError::UnknownGraph`]. An error that occurs later is the last element of the stream.
    pub async fn stream(
        &self,
        who: &Principal,
        run: &RunRef,
        options: StreamOptions,
    ) -> Result<BoxStream<'static, Result<Arc<Frame>, RuntimeError>>, RuntimeError> {
        let row = self.store().run(who, run).await?;
        let graph = self.find_graph(&row.new.graph)?.1.clone();
        let events = self.watch(who, run, Position::START).await?.events;
        let (host, store) = (self.looking(who), Arc::clone(self.store()));
        let (who, thread) = (who.clone(), run.thread.clone());
        let source = Source { graph, host, store, who, thread, options: row.new.options };
        let followed = Followed { source, run: run.run.clone(), events };
        Ok(frames(self.projections(), followed, options))
    }
}
