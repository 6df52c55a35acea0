//! Following the output of runs and threads.

use super::core::Runtime;
use super::output::{LoggedOutput, OutputStream, complete_texts};
use crate::follow::{FollowFrom, Follower, ThreadRuns, ThreadStart, last_seq};
use crate::modes::{Followed, RunOutput, Selection, Source, Until, follow_output};
use futures_util::stream::{once, unfold};
use futures_util::{StreamExt, TryStreamExt};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::Modes;
use weftwork_store::invariants;
use weftwork_types::event::{Position, RunEvent};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, BoxStream, Principal, ThreadId};

/// The output of runs as their logs have it.
type LoggedStream = BoxStream<'static, Result<LoggedOutput, RuntimeError>>;

/// A run or a thread, whose output can be followed.
pub trait FollowTarget: sealed::Opens {}

impl FollowTarget for RunRef {}
impl FollowTarget for ThreadId {}

mod sealed {
    use super::{BoxFuture, FollowFrom, LoggedStream, Principal, Runtime, RuntimeError, Selection};

    pub trait Opens {
        fn open<'a>(
            &'a self,
            runtime: &'a Runtime,
            who: &'a Principal,
            from: &'a FollowFrom,
            select: Selection,
        ) -> BoxFuture<'a, Result<LoggedStream, RuntimeError>>;
    }
}

impl sealed::Opens for RunRef {
    fn open<'a>(
        &'a self,
        runtime: &'a Runtime,
        who: &'a Principal,
        from: &'a FollowFrom,
        select: Selection,
    ) -> BoxFuture<'a, Result<LoggedStream, RuntimeError>> {
        Box::pin(async move {
            let after = match from {
                FollowFrom::Start => Position::START,
                FollowFrom::Now => {
                    let store = runtime.store().as_ref();
                    match store.run(who, self).await?.status.is_final() {
                        true => Position::after(last_seq(store, who, self).await?).after_frames(),
                        // From the beginning of its texts.
                        false => Position::START,
                    }
                }
                FollowFrom::After(after) if after.run.as_ref().is_none_or(|of| *of == self.run) => {
                    after.at
                }
                FollowFrom::After(after) => {
                    return Err(invariants::missing("run of position", after).into());
                }
            };
            let output = runtime.output_of_run(who, self, after, select).await?;
            Ok(logged_of_run(self.clone(), output))
        })
    }
}

impl sealed::Opens for ThreadId {
    fn open<'a>(
        &'a self,
        runtime: &'a Runtime,
        who: &'a Principal,
        from: &'a FollowFrom,
        select: Selection,
    ) -> BoxFuture<'a, Result<LoggedStream, RuntimeError>> {
        let output =
            ThreadStart::of(from).map(|from| runtime.output_of_thread(who, self, from, select));
        Box::pin(async move { output })
    }
}

fn logged_of_run(
    run: RunRef,
    output: BoxStream<'static, Result<RunOutput, RuntimeError>>,
) -> LoggedStream {
    output.map(move |output| Ok(LoggedOutput { run: run.clone(), output: output? })).boxed()
}

/// Follows the output of the runs of a thread.
struct ThreadFollower {
    runtime: Runtime,
    who: Principal,
    select: Selection,
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
    /// Follows a run or all runs of a thread: the text of answers, the events of their logs, and their
    /// frames in stream modes, each after the event that it is derived from. A run is executed here
    /// or in another process, or has ended. A client that reconnects with the
    /// [position](crate::Output::position) of the last output that it received gets what follows.
    ///
    /// **Texts.** The text of an answer comes in [parts](RunOutput::Text), also if its message was not
    /// streamed or is final already. The parts since the last [reset](RunOutput::Reset) are the text of the
    /// final message, byte for byte, however often the client reconnects, and all of them come before
    /// it. A text that is void is reset. Partial text of other kinds is delivered as long as it is
    /// stored. At most one MiB of text since the last superstep is stored; what is beyond it reaches
    /// clients that receive it at once in the process of the run, and others with the final message.
    ///
    /// **Frames** are computed from the log of the run and its checkpoints: everyone receives the
    /// same ones in the same order. They arrive when their event is committed; those of a run with
    /// durability `exit` at its end. Chunks in the mode `messages` are not repeated once their message is
    /// final: it follows whole, under the same id. Subgraphs that store no checkpoints have no frames
    /// but those of custom values. [`ThreadRun::report_to`](crate::ThreadRun::report_to) sends those
    /// and earlier ones, but only in the process that executes the run. A frame that cannot be computed
    /// any more, because retention deleted its checkpoint, is replaced by
    /// [`FrameContent::Dropped`](crate::FrameContent::Dropped).
    ///
    /// **Slow clients** delay no run and no other client. Followers of a run in one process share its
    /// frames: those of each event are computed once for all followers that lag by less than 256 KiB
    /// of frames. A follower that lags by more, or by more than 64 KiB of events, or comes later, reads
    /// the store by itself until it has caught up. Text of other processes arrives when it is
    /// stored, at most a quarter of a second after it was emitted; the store is read ten times a
    /// second, and twice a second as long as there is nothing new.
    ///
    /// The runs of a thread follow one after another. Runs that begin later or that other processes
    /// execute are included, and the thread need not exist yet; graphs of runs need not be hosted
    /// here if no modes are selected. All streams end when this process shuts down.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the run does not exist, or if the position is of
    /// another run, or names none for a thread; for a run, [`RuntimeError::UnknownGraph`]. An error
    /// that occurs later is the last element of the stream.
    pub async fn follow<T: FollowTarget>(
        &self,
        who: &Principal,
        target: &T,
        from: impl Into<FollowFrom>,
        select: Selection,
    ) -> Result<OutputStream, RuntimeError> {
        let from = from.into();
        let logged = target.open(self, who, &from, select).await?;
        Ok(complete_texts(logged, from, select))
    }

    /// Returns the position of a thread from which [`follow`](Self::follow) reports everything that
    /// happens from now on: the run that is unfinished, or the end of the last one.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn position(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<FollowFrom, RuntimeError> {
        let context = Arc::clone(&self.0.context);
        let runs = ThreadRuns::new(context, who.clone(), thread.clone(), ThreadStart::Now);
        runs.position().await
    }

    async fn output_of_run(
        &self,
        who: &Principal,
        run: &RunRef,
        after: Position,
        select: Selection,
    ) -> Result<BoxStream<'static, Result<RunOutput, RuntimeError>>, RuntimeError> {
        if select.modes == Modes::NONE {
            let events = self.events_after(who, run, after).await?;
            return Ok(events.map(|event| Ok(RunOutput::Event(Box::new(event)))).boxed());
        }
        let followed = self.followed(who, run).await?;
        Ok(follow_output(self.projections(), followed, select, after))
    }

    fn output_of_thread(
        &self,
        who: &Principal,
        thread: &ThreadId,
        from: ThreadStart,
        select: Selection,
    ) -> LoggedStream {
        let context = Arc::clone(&self.0.context);
        let shutdown = Arc::clone(&context.shutdown);
        let runs = ThreadRuns::new(context, who.clone(), thread.clone(), from);
        let runtime = self.clone();
        let who = who.clone();
        let follower = ThreadFollower { runtime, who, select, runs, current: None };
        let output = unfold(Some(follower), async |follower| {
            let mut follower = follower?;
            match follower.next().await {
                Ok(output) => Some((Ok(output?), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        });
        output.take_until(Box::pin(async move { shutdown.closed().await })).boxed()
    }

    /// Follows a run whose events are at hand, from its first one on.
    pub(super) fn output_of_events(
        &self,
        who: Principal,
        run: RunRef,
        events: BoxStream<'static, RunEvent>,
        select: Selection,
    ) -> OutputStream {
        let runtime = self.clone();
        let logged = async move {
            let output = if select.modes == Modes::NONE {
                events.map(|event| Ok(RunOutput::Event(Box::new(event)))).boxed()
            } else {
                let followed = runtime.followed_by(&who, &run, events).await?;
                follow_output(runtime.projections(), followed, select, Position::START)
            };
            Ok::<_, RuntimeError>(logged_of_run(run, output))
        };
        complete_texts(once(logged).try_flatten().boxed(), FollowFrom::Start, select)
    }

    async fn followed(&self, who: &Principal, run: &RunRef) -> Result<Followed, RuntimeError> {
        let events = self.events_after(who, run, Position::START).await?;
        self.followed_by(who, run, events).await
    }

    async fn followed_by(
        &self,
        who: &Principal,
        run: &RunRef,
        events: BoxStream<'static, RunEvent>,
    ) -> Result<Followed, RuntimeError> {
        let row = self.store().run(who, run).await?;
        let graph = self.find_graph(who, &row.new.graph)?.graph;
        let host = self.looking(who);
        let store = Arc::clone(self.store());
        let who = who.clone();
        let thread = run.thread.clone();
        let source = Source { graph, host, store, who, thread, options: row.new.options };
        Ok(Followed { source, run: run.run.clone(), events })
    }
}

impl ThreadFollower {
    /// Waits for the next output; `None` if the process shuts down, or at the end of the selection.
    async fn next(&mut self) -> Result<Option<LoggedOutput>, RuntimeError> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(output) = current.output.next().await {
                    let output = output?;
                    if let RunOutput::Event(event) = &output {
                        current.at = event.position().unwrap_or(current.at);
                    }
                    return Ok(Some(LoggedOutput { run: current.run.clone(), output }));
                }
                let is_stuck = current.at == current.from && self.select.modes != Modes::NONE;
                self.runs.leave(current.run.clone(), current.at.after_frames());
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
                None if self.select.until == Until::Rest && !self.runs.is_delayed() => {
                    return Ok(None);
                }
                None => self.runs.wait().await,
            }
        }
    }

    async fn open(&mut self, run: RunRef, at: Position) -> Result<Current, RuntimeError> {
        // A client may have a follower for frames and one for events alone. Both read a run from its
        // start through the projection, so that neither is ahead of the other by what frames take.
        let has_modes = self.select.modes != Modes::NONE;
        let followed = if has_modes || at == Position::START {
            match self.runtime.followed(&self.who, &run).await {
                Err(RuntimeError::UnknownGraph { .. }) if !has_modes => None,
                followed => Some(followed?),
            }
        } else {
            None
        };
        let output = match followed {
            Some(followed) => follow_output(self.runtime.projections(), followed, self.select, at),
            None => {
                let log = self.runtime.log(self.who.clone(), run.clone());
                let events = Follower::of_run(log, at).events_or_error();
                events.map_ok(|event| RunOutput::Event(Box::new(event))).boxed()
            }
        };
        Ok(Current { run, from: at, at, output })
    }
}
