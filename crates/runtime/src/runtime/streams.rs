//! Streams of the frames of runs and threads.

use super::core::Runtime;
use crate::follow::{FollowFrom, ThreadRuns};
use crate::modes::{Followed, Frame, RunOutput, Source, StreamOptions};
use crate::modes::{frames, output};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::event::Position;
use weftwork_types::run::RunRef;
use weftwork_types::{BoxStream, Principal, ThreadId};

/// Output of one of the runs of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadOutput {
    /// The run.
    pub run: RunRef,
    /// Its output.
    pub output: RunOutput,
}

/// Follows the output of the runs of a thread.
struct OutputFollower {
    runtime: Runtime,
    who: Principal,
    options: StreamOptions,
    runs: ThreadRuns,
    current: Option<Current>,
}

/// The run that is followed, and the position in its log: at first, and of the last event.
struct Current {
    run: RunRef,
    from: Position,
    at: Position,
    output: BoxStream<'static, Result<RunOutput, RuntimeError>>,
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
        let followed = self.followed(who, run).await?;
        Ok(frames(self.projections(), followed, options))
    }

    /// Follows a run: the events of its log, each followed by its frames in stream modes, as in
    /// [`stream`](Self::stream). A client that reconnects gets the events after the position of its
    /// last one.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn output(
        &self,
        who: &Principal,
        run: &RunRef,
        options: StreamOptions,
    ) -> Result<BoxStream<'static, Result<RunOutput, RuntimeError>>, RuntimeError> {
        let followed = self.followed(who, run).await?;
        Ok(output(self.projections(), followed, options))
    }

    /// Follows all runs of a thread, one after another: the events of their logs, each followed by
    /// its frames in stream modes, as in [`stream`](Self::stream). Runs that begin later or that
    /// other processes execute are included, and the thread need not exist yet. The stream ends
    /// when this process shuts down; `after` of the options is not used.
    ///
    /// An error, such as [`RuntimeError::UnknownGraph`], is the last element of the stream.
    #[must_use]
    pub fn stream_thread(
        &self,
        who: &Principal,
        thread: &ThreadId,
        from: FollowFrom,
        options: StreamOptions,
    ) -> BoxStream<'static, Result<ThreadOutput, RuntimeError>> {
        let context = Arc::clone(&self.0.context);
        let shutdown = Arc::clone(&context.shutdown);
        let runs = ThreadRuns::new(context, who.clone(), thread.clone(), from);
        let runtime = self.clone();
        let who = who.clone();
        let follower = OutputFollower { runtime, who, options, runs, current: None };
        let output = unfold(Some(follower), async |follower| {
            let mut follower = follower?;
            match follower.next().await {
                Ok(output) => Some((Ok(output?), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        });
        output.take_until(Box::pin(async move { shutdown.closed().await })).boxed()
    }

    /// Returns the position of a thread from which [`stream_thread`](Self::stream_thread) reports
    /// everything that happens from now on: the run that is unfinished, or the end of the last one.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn position(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<FollowFrom, RuntimeError> {
        let context = Arc::clone(&self.0.context);
        let runs = ThreadRuns::new(context, who.clone(), thread.clone(), FollowFrom::Now);
        runs.position().await
    }

    async fn followed(&self, who: &Principal, run: &RunRef) -> Result<Followed, RuntimeError> {
        let row = self.store().run(who, run).await?;
        let graph = self.find_graph(&row.new.graph)?.1;
        let events = self.watch(who, run, Position::START).await?.events;
        let host = self.looking(who);
        let store = Arc::clone(self.store());
        let who = who.clone();
        let thread = run.thread.clone();
        let source = Source { graph, host, store, who, thread, options: row.new.options };
        Ok(Followed { source, run: run.run.clone(), events })
    }
}

impl OutputFollower {
    /// Waits for the next output; `None` if the process shuts down.
    async fn next(&mut self) -> Result<Option<ThreadOutput>, RuntimeError> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(output) = current.output.next().await {
                    let output = output?;
                    if let RunOutput::Event(event) = &output {
                        current.at = event.position().unwrap_or(current.at);
                    }
                    return Ok(Some(ThreadOutput { run: current.run.clone(), output }));
                }
                let is_stuck = current.at == current.from;
                self.runs.leave(current.run.clone(), current.at);
                self.current = None;
                // A log that cannot be read for now is not read without pause.
                if is_stuck && !self.runtime.0.context.shutdown.is_closed() {
                    self.runs.wait().await;
                }
            }
            // The output of an unfinished run ends when the process shuts down.
            if self.runtime.0.context.shutdown.is_closed() {
                return Ok(None);
            }
            match self.runs.next_run().await? {
                Some((run, at)) => self.current = Some(self.open(run, at).await?),
                None => self.runs.wait().await,
            }
        }
    }

    async fn open(&mut self, run: RunRef, at: Position) -> Result<Current, RuntimeError> {
        let followed = self.runtime.followed(&self.who, &run).await?;
        let part = if at == Position::START { 0 } else { u64::MAX };
        let options = StreamOptions { after: Position { part, ..at }, ..self.options };
        let output = output(self.runtime.projections(), followed, options);
        Ok(Current { run, from: at, at, output })
    }
}
