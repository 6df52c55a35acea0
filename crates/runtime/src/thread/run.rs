//! Runs of threads: their requests, their streams and their ends.

use super::Thread;
use crate::hosted::ModeReceiver;
use crate::runtime::{Admit, EndedRun, Runtime, StartedRun, check_key};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{CheckpointRef, Modes, StreamItem};
use weftwork_types::BoxFuture;
use weftwork_types::caller::Caller;
use weftwork_types::message::Message;
use weftwork_types::port::Limits;
use weftwork_types::run::{
    Durability, Multitask, ReuseFrom, RunInput, RunOptions, RunRequest, Stops, Within,
};
use weftwork_types::telemetry::ParentSpan;

/// A run of a thread that is not yet requested. Await it for its end, or [`begin`](Self::begin) it,
/// to follow its output or to leave.
#[derive(Debug)]
#[must_use = "nothing happens until the run is awaited or begun"]
pub struct ThreadRun {
    thread: Thread,
    input: Input,
    caller: Option<Caller>,
    deadline: Option<Duration>,
    options: RunOptions,
    receiver: Option<ModeReceiver>,
}

/// The input of a run that is not yet requested.
#[derive(Debug)]
enum Input {
    Given(Result<RunInput, RuntimeError>),
    /// Text of a message of the user, whose id is that of the request.
    Message(String),
}

impl ThreadRun {
    pub(super) fn new(thread: &Thread, input: Result<RunInput, RuntimeError>) -> Self {
        Self::with_input(thread, Input::Given(input))
    }

    /// A run with a message of the user.
    pub(super) fn with_message(thread: &Thread, text: String) -> Self {
        Self::with_input(thread, Input::Message(text))
    }

    fn with_input(thread: &Thread, input: Input) -> Self {
        let options = RunOptions::clone(&thread.options);
        let deadline = thread.deadline;
        Self { thread: thread.clone(), input, caller: None, deadline, options, receiver: None }
    }

    /// Replaces all options that were set before. The checkpoint chosen with [`Thread::at`] stays,
    /// and a deadline unless the options have one.
    pub fn options(mut self, options: RunOptions) -> Self {
        let RunOptions { at, within, .. } = self.options;
        self.deadline = self.deadline.filter(|_| options.deadline.is_none());
        let at = at.or(options.at);
        let within = within.or(options.within);
        self.options = RunOptions { at, within, ..options };
        self
    }

    /// Starts from this place of the thread, of which a view gave the config: also a checkpoint of
    /// a subgraph. An update changes the subgraph.
    pub fn from(mut self, config: &CheckpointRef) -> Self {
        let changes = matches!(self.input, Input::Given(Ok(RunInput::Update { .. })));
        let outermost = config.map.get("").copied().filter(|_| !changes);
        self.options.at = outermost.or(config.id);
        self.options.within = (!config.ns.is_empty())
            .then(|| Within { namespace: config.ns.clone(), checkpoints: config.map.clone() });
        self
    }

    /// Billing account, request and trace of the run; the local ones by default.
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Span of the caller in which the run is requested; none by default.
    pub fn parent_span(mut self, parent: Option<ParentSpan>) -> Self {
        self.options.parent_span = parent;
        self
    }

    /// Maximum number of supersteps.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.options.step_limit = Some(steps);
        self
    }

    /// Stops before these nodes, in place of those of the graph.
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.options.interrupt_before = Some(stops);
        self
    }

    /// Stops after these nodes, in place of those of the graph.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.options.interrupt_after = Some(stops);
        self
    }

    /// Cuts the run off, nodes included, this long after it was accepted. The deadline is stored
    /// with the run: another process that continues the run observes it too.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// Limits what the run uses, together with the runs that it continues.
    pub fn budget(mut self, limits: Limits) -> Self {
        self.options.budget = Some(limits);
        self
    }

    /// Runs at most so many tasks of a superstep concurrently.
    pub fn concurrency(mut self, tasks_max: u32) -> Self {
        self.options.concurrency = Some(tasks_max);
        self
    }

    /// Gives nodes a value besides the state: `Ctx::context`.
    pub fn context(mut self, context: Json) -> Self {
        self.options.context = context;
        self
    }

    /// Gives nodes named settings: `Ctx::configurable`.
    pub fn configurable(mut self, settings: Map<String, Json>) -> Self {
        self.options.configurable = settings;
        self
    }

    /// Stores data about the run with it.
    pub fn metadata(mut self, metadata: Map<String, Json>) -> Self {
        self.options.metadata = metadata;
        self
    }

    /// Stores labels with the run.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.options.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Time at which checkpoints are stored.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Behaviour on a thread that has a run which has not ended.
    pub fn multitask(mut self, multitask: Multitask) -> Self {
        self.options.multitask = multitask;
        self
    }

    /// Branches from which recorded calls are reused.
    pub fn reuse_from(mut self, reuse_from: ReuseFrom) -> Self {
        self.options.reuse_from = reuse_from;
        self
    }

    /// Key under which a repeated request returns the first one's run. It is unique within the
    /// organisation, not empty, and does not begin with `weft:`. Times are not compared: those of the
    /// first request hold.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.options.idempotency_key = Some(key.into());
        self
    }

    /// Sends the events of the run in these modes to a channel, while this process executes it.
    ///
    /// They are for programs that show the progress of a run which they start and execute. They are
    /// sent before their superstep is committed: also those of a run with durability `exit`, of
    /// subgraphs that store no checkpoints, and of channels whose values are not stored. A run that
    /// another process executes sends none. Events of a superstep are sent again if the run is
    /// repeated because its store could not be read.
    ///
    /// Clients that reconnect, that are in another process or that come later select the
    /// [frames](crate::Selection::frames) of a [`StartedRun`], as do several clients of one run:
    /// these are committed, each with its position.
    pub fn report_to(mut self, modes: Modes, items: UnboundedSender<StreamItem>) -> Self {
        self.receiver = Some(ModeReceiver { modes, form: self.thread.form, items });
        self
    }

    /// Requests the run. When the future completes, the run is stored and is executed until it
    /// ends, even if the started run is dropped.
    ///
    /// # Errors
    /// [`RuntimeError`] when the run was not accepted; nothing was stored.
    pub async fn begin(mut self) -> Result<StartedRun, RuntimeError> {
        let graph = self.thread.compiled.clone();
        let receiver = self.receiver.take();
        let (runtime, request) = self.into_request()?;
        let who = request.principal.clone();
        let handle = runtime.accept(request, Admit::Run(receiver)).await?.into_handle();
        Ok(StartedRun::new(runtime, who, graph, handle))
    }

    fn into_request(self) -> Result<(Runtime, RunRequest), RuntimeError> {
        let Self { thread, input, caller, deadline, mut options, receiver: _ } = self;
        options.idempotency_key.as_deref().map_or(Ok(()), check_key)?;
        let input = match input {
            Input::Given(input) => input?,
            Input::Message(text) => message_input(text, options.idempotency_key.as_deref()),
        };
        let clock = thread.runtime.clock();
        if let Some(limit) = deadline {
            options.deadline = Some(clock.now().plus(limit));
        }
        let caller = match caller {
            Some(caller) => caller,
            None => Caller::local(uuid::Uuid::from_u128(clock.unique()).to_string())?,
        };
        let request = RunRequest {
            principal: thread.who,
            caller,
            graph: thread.graph,
            thread: thread.id,
            input,
            options,
        };
        Ok((thread.runtime, request))
    }
}

/// The input with a message of the user. A request that is repeated under a key has the same message.
fn message_input(text: String, key: Option<&str>) -> RunInput {
    let message = match key {
        Some(key) => Message::user_of_request(text, key),
        None => Message::user(text),
    };
    RunInput::Start { input: json!({"messages": [message]}) }
}

impl IntoFuture for ThreadRun {
    type Output = Result<EndedRun, RuntimeError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    /// Requests the run and waits for its end.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a run that was accepted.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.begin().await?.await) })
    }
}
