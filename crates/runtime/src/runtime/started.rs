//! A run that was started: its output and its end.

use super::core::Runtime;
use super::ended::EndedRun;
use super::output::{Output, OutputStream};
use crate::modes::Selection;
use futures_util::stream::once;
use futures_util::{Stream, StreamExt, TryStreamExt};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::event::{Position, RunEvent, StreamPosition};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::{BoxFuture, BoxStream, Principal};

/// A run that was started: its output as a stream, the position of the reader, and its end, for
/// which it is awaited. The same type is returned for each run that exists, whoever started it.
///
/// Neither the stream nor the end affects the run: dropping the started run does not cancel it. The
/// stream ends after the last output of the run. It has texts and events unless
/// [`select`](Self::select) chooses other output.
///
/// ```
/// use futures_util::TryStreamExt;
/// # use serde_json::json;
/// # use weftwork_graph::{Graph, START, State};
/// use weftwork_runtime::Runtime;
///
/// # #[derive(State)]
/// # struct Note { text: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn write(_: State<Note>) -> NoteUpdate {
/// #     NoteUpdate::new().text("done".to_owned())
/// # }
/// # let graph = Graph::<Note>::new("note").node("write", write).edge(START, "write").build()?;
/// let runtime = Runtime::in_memory().graph("note", graph).open().await?;
/// let thread = runtime.thread("note", "t-1")?;
/// let mut run = thread.start(json!({})).begin().await?;
/// let first = run.try_next().await?.expect("a run reports its start");
/// assert_eq!(*run.position(), first.position);
///
/// // A client that lost its connection continues after the output that it received.
/// let id = run.position().to_string();
/// let again = thread.follow_run(run.run()).await?.after(id.parse()?);
/// let rest: Vec<_> = again.try_collect().await?;
/// assert!(rest.iter().all(|output| *output != first));
///
/// let ended = run.await;
/// assert_eq!(ended.output()?["text"], "done");
/// # Ok(())
/// # }
/// ```
pub struct StartedRun {
    runtime: Runtime,
    who: Principal,
    graph: CompiledGraph,
    run: RunRef,
    /// The events from the first one on, as they come, so that a reader of a run that it started
    /// gets the text in the parts in which it was emitted. `None` once they are read.
    events: Option<BoxStream<'static, RunEvent>>,
    outcome: BoxFuture<'static, RunOutcome>,
    select: Selection,
    position: StreamPosition,
    /// `None` before the first output after the position is read.
    output: Option<OutputStream>,
}

impl fmt::Debug for StartedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedRun")
            .field("run", &self.run)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl StartedRun {
    pub(crate) fn new(
        runtime: Runtime,
        who: Principal,
        graph: CompiledGraph,
        handle: RunHandle,
    ) -> Self {
        let select = Selection::default();
        let position = StreamPosition::default();
        let RunHandle { run, events, outcome } = handle;
        let events = Some(events);
        Self { runtime, who, graph, run, events, outcome, select, position, output: None }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunRef {
        &self.run
    }

    /// Position after the last output that the stream delivered, as a client stores it.
    #[must_use]
    pub fn position(&self) -> &StreamPosition {
        &self.position
    }

    /// Selects the output that the stream delivers after its position.
    #[must_use]
    pub fn select(self, select: Selection) -> Self {
        Self { select, output: None, ..self }
    }

    /// Continues the stream after this position. One of another run is refused by the stream, with
    /// `NotFound`.
    #[must_use]
    pub fn after(self, position: StreamPosition) -> Self {
        Self { position, output: None, ..self }
    }

    /// Returns the events after the position as the log has them, and the outcome: for executors
    /// and servers that pass both on. Programs read the stream, which resumes texts.
    #[must_use]
    pub fn into_handle(self) -> RunHandle {
        let Self { runtime, who, graph, run, events, outcome, position, .. } = self;
        let later = || runtime.handle_after(who, run.clone(), graph, position.at).events;
        let attached = events.filter(|_| position.at == Position::START);
        let events = attached.unwrap_or_else(later);
        RunHandle { run, events, outcome }
    }

    fn open(&mut self) -> OutputStream {
        let runtime = self.runtime.clone();
        let who = self.who.clone();
        let run = self.run.clone();
        let select = self.select;
        if self.position.at == Position::START
            && let Some(events) = self.events.take()
        {
            return runtime.output_of_events(who, run, events, select).fuse().boxed();
        }
        let from = self.position.clone();
        let output = async move { runtime.follow(&who, &run, from, select).await };
        once(output).try_flatten().fuse().boxed()
    }
}

/// The output of the run after the position. An error is the last element.
impl Stream for StartedRun {
    type Item = Result<Output, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut output = match self.output.take() {
            Some(output) => output,
            None => self.open(),
        };
        let polled = output.poll_next_unpin(cx);
        self.output = Some(output);
        let next = ready!(polled);
        if let Some(Ok(next)) = &next {
            self.position.clone_from(&next.position);
        }
        Poll::Ready(next)
    }
}

impl IntoFuture for StartedRun {
    type Output = EndedRun;
    type IntoFuture = BoxFuture<'static, EndedRun>;

    /// Waits for the end of the run. Output that was not read is dropped.
    ///
    /// # Cancel safety
    /// The run is not affected.
    fn into_future(self) -> Self::IntoFuture {
        let Self { graph, run, outcome, .. } = self;
        Box::pin(async move { EndedRun::new(run, outcome.await, graph) })
    }
}
