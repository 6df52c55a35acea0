//! Construction of a run, and its outcome.

mod check;
mod waiting;

use crate::clock::millis;
use crate::compiled::CompiledGraph;
use crate::ended::Ended;
use crate::error::{Drain, RuntimeError};
use crate::input::IntoInput;
use crate::run_loop::context::{Host, LoopContext, RunContext};
use crate::run_loop::event::{CheckpointRef, Modes, StreamItem};
use crate::run_loop::options::{Continued, LoopInput, LoopOutcome, Options, Start};
use crate::run_loop::panics::out_of_node;
use crate::run_loop::sink::{Destination, Sink};
use crate::run_loop::spans::{record_error, run_span};
use crate::run_loop::supersteps::RunLoop;
use crate::run_loop::sync::lock;
use crate::run_loop::values::output_json;
use crate::state::{Seen, State, StateSpec};
use check::check_run;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{Instrument as _, Span};
use weftwork_engine::pregel::StartInput;
use weftwork_engine::{NodeIdx, Slots};
use weftwork_types::code::Fault;
use weftwork_types::run::{Durability, RunInput, RunOutcome, RunStatus, Stops};
use weftwork_types::shown::StateForm;
use weftwork_types::{BoxFuture, CheckpointId, telemetry};

/// Builder of a run. Nothing happens before it is awaited or streamed.
#[derive(Debug)]
#[must_use]
pub struct Run {
    host: Host,
    graph: CompiledGraph,
    start: Start,
    enclosing: BTreeMap<String, CheckpointId>,
    modes: Modes,
    sink: Option<Sink>,
    form: StateForm,
    span: RunSpan,
    pub(crate) options: Options,
}

/// Span of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunSpan {
    /// A span of its own.
    Own,
    /// The current span of its caller.
    Current,
}

impl CompiledGraph {
    /// Builds a run in this process.
    pub fn run(&self, host: &Host, start: impl Into<Start>) -> Run {
        Run {
            host: host.clone(),
            graph: self.clone(),
            start: start.into(),
            enclosing: BTreeMap::new(),
            modes: Modes::NONE,
            sink: None,
            form: StateForm::Shown,
            span: RunSpan::Own,
            options: Options::fresh(),
        }
    }

    /// Runs to its end without a thread: no checkpoint is stored, and the run leaves nothing
    /// behind. Durable runs are those of a `Runtime`. The output has the shown form of results of
    /// tools; [`Run::whole_state`] returns it as it is.
    ///
    /// # Errors
    /// [`RuntimeError`] when a node fails or the input does not fit.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run.
    pub async fn invoke(&self, input: impl IntoInput) -> Result<Ended, RuntimeError> {
        let outcome = self.run(&Host::new(), self.start_from_input(input)?).outcome().await?;
        Ok(Ended::new(self.name(), outcome, self.clone()))
    }

    /// The start of a run of this process from new input or a command.
    fn start_from_input(&self, input: impl IntoInput) -> Result<Start, RuntimeError> {
        match input.into_input(self)? {
            RunInput::Start { input } => Ok(Start::Input(input)),
            RunInput::Command(command) => Ok(Start::Command(command.into())),
            RunInput::Continue => Ok(Start::Continue),
            RunInput::Update { .. } => {
                Err(RuntimeError::NoCheckpointer { what: "a change from outside" })
            }
        }
    }
}

impl Run {
    /// Sets the thread whose checkpoints the run continues from and adds to; without this, the
    /// thread whose name is empty. It has no effect on a host without a checkpointer.
    pub fn thread(mut self, thread: impl Into<Arc<str>>) -> Self {
        self.options.thread = thread.into();
        self
    }

    /// Starts from this checkpoint rather than the thread's newest.
    pub fn at(mut self, checkpoint: CheckpointId) -> Self {
        self.options.at = Some(checkpoint);
        self
    }

    /// Starts from this place. For a checkpoint of a subgraph, the graphs around it start from
    /// their own checkpoints.
    pub fn from(mut self, config: &CheckpointRef) -> Self {
        self.options.at = match config.map.get("") {
            Some(id) => Some(*id),
            None => config.id,
        };
        self.enclosing.clone_from(&config.map);
        self
    }

    /// The most supersteps the run may take.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.options.step_limit = Some(steps);
        self
    }

    /// Stops before these nodes rather than those of the graph.
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.options.before = Some(stops);
        self
    }

    /// Stops after these nodes rather than those of the graph.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.options.after = Some(stops);
        self
    }

    /// Gives nodes something besides the input: [`Ctx::context`](crate::Ctx::context).
    pub fn context(mut self, context: Json) -> Self {
        self.options.context = context;
        self
    }

    /// Gives nodes named settings: [`Ctx::configurable`](crate::Ctx::configurable).
    pub fn configurable(mut self, settings: Map<String, Json>) -> Self {
        self.options.configurable = Arc::new(settings);
        self
    }

    /// Runs at most so many tasks of a superstep concurrently, in place of the limit of the graph.
    pub fn concurrency(mut self, tasks_max: usize) -> Self {
        self.options.concurrency = Some(tasks_max);
        self
    }

    /// Sets when checkpoints are stored.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Cuts the run off, nodes included, after this long.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.options.deadline = Some(limit);
        self
    }

    /// Continues a run on which an earlier process made progress. Its supersteps count against the
    /// limit, and the run stops where it would have stopped without a change of process.
    pub fn continued(mut self, earlier: Continued) -> Self {
        self.options.continued = Some(earlier);
        self
    }

    /// Sets the modes of the stream.
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// Returns the output, and streams the mode `values`, as they are, with the values of results of
    /// tools that only models read. Everything else has the shown form.
    pub fn whole_state(mut self) -> Self {
        self.form = StateForm::Whole;
        self
    }

    /// Sends the events of these modes while the run is polled, by any caller.
    pub fn report_to(mut self, modes: Modes, items: UnboundedSender<StreamItem>) -> Self {
        let values = StateForm::Shown;
        let to = Destination::Channel(items);
        self.sink = Some(Sink { modes, values, to });
        self
    }

    /// Emits no span for the run: its supersteps are within the current span, in which the caller
    /// records the end of the run.
    pub fn in_current_span(mut self) -> Self {
        self.span = RunSpan::Current;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`RuntimeError`] when a node fails, the input does not fit, or a checkpoint cannot be read
    /// or stored.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run; stored checkpoints stay.
    pub async fn outcome(self) -> Result<RunOutcome, RuntimeError> {
        let form = self.form;
        Ok(self.finish().await?.try_outcome()?.in_form(form))
    }

    /// Runs as the stream is read: the run makes no progress while it is not read.
    pub fn stream(mut self) -> RunStream {
        let queue = Arc::default();
        let modes = self.modes;
        let form = self.form;
        let to = Destination::Queue(Arc::clone(&queue));
        self.sink = Some(Sink { modes, values: form, to });
        let ended = self.finish();
        let run: BoxFuture<'static, _> =
            Box::pin(async move { Ok(ended.await?.try_outcome()?.in_form(form)) });
        RunStream { run: Some(run), queue, outcome: None }
    }

    /// Runs to the end, and returns the state as it is: nothing is converted to JSON.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    ///
    /// # Cancel safety
    /// As [`outcome`](Self::outcome).
    pub async fn finish(self) -> Result<Finished, RuntimeError> {
        let span = match self.span {
            RunSpan::Own => run_span(self.graph.name(), &self.options.thread),
            RunSpan::Current => Span::none(),
        };
        if span.is_disabled() {
            return self.run_to_end().await;
        }
        // Boxed, so that a run without a subscriber does not carry the future twice.
        let ended = Box::pin(self.run_to_end()).instrument(span.clone()).await;
        record_run_end(&span, ended.as_ref().map(|finished| &finished.outcome));
        ended
    }

    async fn run_to_end(self) -> Result<Finished, RuntimeError> {
        check_run(&self.graph, &self.host, &self.start, &self.options)?;
        let Self { host, graph, start, enclosing, modes: _, sink, form, span: _, options } = self;
        let sink = sink.map(|sink| Sink { values: form, ..sink });
        let deadline = options.deadline;
        let clock = Arc::clone(host.clock());
        let waits = options.waiting;
        let shared = Arc::new(RunContext::new(host, options, sink));
        let hidden = Arc::clone(&shared.hidden);
        let loop_context = LoopContext::outermost(Arc::clone(&shared), graph, enclosing);
        let loop_context = Arc::new(loop_context);
        // Types of users are written, read and dropped outside of nodes too, and may panic there.
        let run = async {
            match waits {
                false => RunLoop::run(loop_context, loop_input(start), &shared.options).await,
                true => Box::pin(waiting::run_to_end(loop_context, loop_input(start))).await,
            }
        };
        let run = AssertUnwindSafe(run).catch_unwind();
        let run = run.map(|ran| ran.unwrap_or_else(|panic| Err(out_of_node(&*panic))));
        let ended = match deadline {
            None => run.await,
            Some(limit) => match select(Box::pin(run), clock.sleep(limit)).await {
                Either::Left((ended, _)) => ended,
                // Dropping the run cuts its tasks off at their await points; stored checkpoints
                // stay.
                Either::Right(_) => {
                    return Err(RuntimeError::DeadlinePassed { limit_ms: millis(limit) });
                }
            },
        };
        // Errors outside of nodes quote values too, such as one that a channel refused.
        let (ended, run_loop) = ended.map_err(|error| error.shaped(&hidden))?;
        // A shutdown is no end: another process continues the run.
        let is_released = matches!(
            ended,
            LoopOutcome::Drained(Drain::Shutdown) | LoopOutcome::TaskDrained(Drain::Shutdown)
        );
        let outcome = match ended {
            // The output is converted on request.
            LoopOutcome::Completed => RunOutcome::Completed { output: Json::Null },
            LoopOutcome::Interrupted(questions) => RunOutcome::interrupted(questions),
            LoopOutcome::LimitReached => RunOutcome::LimitReached {
                step_limit: (shared.options.step_limit)
                    .unwrap_or(run_loop.loop_context.graph.step_limit()),
            },
            // A graph that a task called stops between its supersteps, and the task goes on with it.
            LoopOutcome::Drained(drain) | LoopOutcome::TaskDrained(drain @ Drain::Shutdown) => {
                RunOutcome::Cancelled { reason: Some(drain.into_reason()) }
            }
            LoopOutcome::Parent(_) => return Err(RuntimeError::NoParent),
            LoopOutcome::TaskDrained(drain) => {
                let fault = Fault::new(crate::error::NODE_FAILED, drain.into_reason());
                return Err(RuntimeError::Node(fault.of_kind("Drained")));
            }
        };
        let (graph, slots) = run_loop.into_state();
        Ok(Finished { outcome, is_released, graph, slots })
    }
}

/// A run that ended, with the state at its end as it is, in the whole form.
#[derive(Debug)]
pub struct Finished {
    /// The outcome, without the output.
    outcome: RunOutcome,
    is_released: bool,
    graph: CompiledGraph,
    slots: Slots,
}

impl Finished {
    /// Returns `true` if nothing is left to do.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self.outcome, RunOutcome::Completed { .. })
    }

    /// Returns `true` if the run stopped because its process shuts down.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.is_released
    }

    /// The state; none when the graph's is another than `S`.
    #[must_use]
    pub fn state<S: StateSpec>(&self) -> Option<State<S>> {
        let seen = || Seen {
            slots: self.slots.clone(),
            plan: self.graph.plan(),
            node: NodeIdx::START,
            returned: None,
        };
        self.graph.is_over::<S>().then(|| State::over(seen()))
    }

    /// Returns the value of a channel as JSON; `None` if the graph has no such channel or the channel
    /// has no value.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<Json> {
        let plan = self.graph.plan();
        plan.value_json(&self.slots, plan.channel_idx(name)?)
    }

    /// Returns the outcome of the run, with its output as JSON.
    #[must_use]
    pub fn outcome(self) -> RunOutcome {
        match self.outcome {
            RunOutcome::Completed { .. } => {
                RunOutcome::Completed { output: output_json(self.graph.plan(), &self.slots) }
            }
            other => other,
        }
    }

    /// Returns the outcome as [`outcome`](Self::outcome) does. The output is made by types of users,
    /// which may panic.
    ///
    /// # Errors
    /// The panic of a type.
    pub fn try_outcome(self) -> Result<RunOutcome, RuntimeError> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome()));
        outcome.map_err(|panic| out_of_node(&*panic))
    }
}

/// Records the end of a run in its span.
fn record_run_end(span: &Span, ended: Result<&RunOutcome, &RuntimeError>) {
    match ended {
        Ok(outcome) => {
            span.record(telemetry::OUTCOME, outcome.status().name());
            if let RunOutcome::Failed { fault } = outcome {
                record_error(span, &fault.code);
            }
        }
        Err(error) => {
            span.record(telemetry::OUTCOME, RunStatus::Failed.name());
            record_error(span, &error.fault().code);
        }
    }
}

fn loop_input(start: Start) -> LoopInput {
    match start {
        Start::Input(json) => LoopInput::Input(StartInput::Json(Arc::new(json))),
        Start::Typed(output, _) => LoopInput::Input(StartInput::Writes(Arc::new(output))),
        Start::Continue => LoopInput::Nothing,
        Start::Command(command) => LoopInput::Command(command),
        Start::Resumed(answers) => LoopInput::Resumed(answers),
    }
}

/// A run that makes progress as its events are read. After the last event,
/// [`outcome`](Self::outcome) returns its outcome.
pub struct RunStream {
    run: Option<BoxFuture<'static, Result<RunOutcome, RuntimeError>>>,
    queue: Arc<Mutex<VecDeque<StreamItem>>>,
    outcome: Option<Result<RunOutcome, RuntimeError>>,
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl RunStream {
    /// Returns the outcome of the run; `None` before the last event was read.
    #[must_use]
    pub fn outcome(&self) -> Option<&Result<RunOutcome, RuntimeError>> {
        self.outcome.as_ref()
    }

    /// The next event; `None` when the run has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<StreamItem> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        loop {
            // Before the run is polled: it makes no progress while its events are not read.
            if let Some(item) = lock(&self.queue).pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(run) = &mut self.run else { return Poll::Ready(None) };
            let polled = run.as_mut().poll(cx);
            if let Poll::Ready(outcome) = polled {
                self.outcome = Some(outcome);
                self.run = None;
            } else if lock(&self.queue).is_empty() {
                return Poll::Pending;
            }
        }
    }
}

impl futures_core::Stream for RunStream {
    type Item = StreamItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        self.poll_item(cx)
    }
}
