//! Requests for evaluations.

use super::error::ErrorContext;
use super::request::{Ended, EvaluationRequest, Nested, Starting};
use super::{Evaluated, EvaluationError, Evaluator};
use crate::prompt::{Overrides, Prompt};
use crate::session::Session;
use futures_util::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weftwork_graph::RuntimeError;
use weftwork_runtime::Output;
use weftwork_types::event::StreamPosition;
use weftwork_types::port::{Budget, CallContext, LimitedBudget, Limits};
use weftwork_types::run::Answers;
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, ThreadId, Timestamp};

/// The budget of an evaluation.
#[derive(Debug, Clone)]
pub enum Allowance {
    /// Limits of this evaluation and its continuations together, stored with its runs. Evaluations
    /// within its tool calls are included, with one exception: their tool calls count only in the
    /// run that makes them, and not in its continuations.
    Limits(Limits),
    /// A budget that the evaluation shares with others in this process.
    Shared(Arc<dyn Budget>),
}

impl From<Limits> for Allowance {
    fn from(limits: Limits) -> Self {
        Self::Limits(limits)
    }
}

impl From<LimitedBudget> for Allowance {
    fn from(budget: LimitedBudget) -> Self {
        Self::Shared(Arc::new(budget))
    }
}

impl From<Arc<dyn Budget>> for Allowance {
    fn from(budget: Arc<dyn Budget>) -> Self {
        Self::Shared(budget)
    }
}

/// Starting point of an evaluation.
#[derive(Debug)]
pub(super) enum Start<P> {
    /// A new evaluation with these parameters.
    Params(P),
    /// A new evaluation with parameters as they are stored.
    Stored(Value),
    /// A thread that waits.
    Answers { thread: ThreadId, answers: Option<Answers> },
}

/// An evaluation of a prompt that is not yet requested. Await it for its outcome,
/// [`stream`](Self::stream) its output, or block with [`blocking`](Self::blocking).
///
/// # Errors
/// [`EvaluationError`] with its kind, the phase that failed, and the usage up to then.
///
/// # Cancel safety
/// Dropping the future cancels the run. Over a checkpointer, its committed supersteps stay.
#[must_use = "nothing happens until the evaluation is awaited, streamed or blocked on"]
pub struct Evaluation<'a, P, T> {
    evaluator: Evaluator,
    prompt: Prompt<P, T>,
    start: Start<P>,
    session: Option<&'a Session>,
    deadline: Option<Timestamp>,
    budget: Option<Allowance>,
    overrides: Overrides,
}

impl<P, T> fmt::Debug for Evaluation<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluation").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl<'a, P, T> Evaluation<'a, P, T> {
    pub(super) fn new(evaluator: &Evaluator, prompt: &Prompt<P, T>, start: Start<P>) -> Self {
        Self {
            evaluator: evaluator.clone(),
            prompt: prompt.clone(),
            start,
            session: None,
            deadline: None,
            budget: None,
            overrides: Overrides::new(),
        }
    }

    /// Sets the session; a new one by default. A continuation opens that of its evaluation, and
    /// refuses another one (W0619).
    pub fn session(mut self, session: &'a Session) -> Self {
        self.session = Some(session);
        self
    }

    /// Cuts the evaluation off after this long: the running node and its request are dropped. A
    /// continuation that takes over the run of a dead process, or requeues a failed one, has the
    /// deadline and the limits of that run.
    pub fn deadline(self, limit: Duration) -> Self {
        let at = self.evaluator.runtime.clock().now().plus(limit);
        self.until(at)
    }

    /// Cuts the evaluation off at this time.
    pub fn until(mut self, at: Timestamp) -> Self {
        self.deadline = Some(at);
        self
    }

    /// Sets the budget: [`Limits`] of this evaluation, or a [`LimitedBudget`] that it shares.
    pub fn budget(mut self, budget: impl Into<Allowance>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// Sets the overrides of sections. A continuation has those that it began with.
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }
}

impl<'a, P, T> Evaluation<'a, P, T>
where
    P: Serialize + DeserializeOwned + Send + 'static,
    T: DeserializeOwned,
{
    /// Evaluates, and delivers the output of the run as it occurs: text, calls, usage.
    pub fn stream(self) -> EvaluationStream<'a, T>
    where
        T: 'a,
    {
        let (sender, output) = unbounded_channel();
        let future: BoxFuture<'a, _> = Box::pin(self.run(Some(sender), None));
        EvaluationStream {
            future: Some(future),
            output,
            outcome: None,
            position: StreamPosition::default(),
        }
    }

    /// Evaluates, and blocks the thread until the outcome. It may be called within an asynchronous
    /// runtime, whose thread it blocks.
    ///
    /// # Errors
    /// As the evaluation.
    pub fn blocking(self) -> Result<Evaluated<T>, EvaluationError>
    where
        T: Send,
    {
        let errors = ErrorContext {
            prompt: self.prompt.id().clone(),
            thread: None,
            usage: Usage::default(),
        };
        let no_thread = |error: std::io::Error| errors.no_thread(&error);
        let block = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(&no_thread)?.block_on(self.into_future())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, block);
            match thread.map_err(&no_thread)?.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Evaluates within a tool call: in its budget, until its deadline, and once for each key.
    pub(super) fn nested(
        mut self,
        key: String,
        call: &CallContext,
    ) -> BoxFuture<'a, Result<Evaluated<T>, EvaluationError>>
    where
        T: 'a,
    {
        self.deadline = call.deadline;
        self.budget = Some(Allowance::Shared(Arc::clone(&call.budget)));
        Box::pin(self.run(None, Some(Nested::new(key, call))))
    }

    async fn run(
        self,
        output: Option<UnboundedSender<Result<Output, RuntimeError>>>,
        nested: Option<Nested>,
    ) -> Result<Evaluated<T>, EvaluationError> {
        let Self { evaluator, prompt, start, session, deadline, budget, overrides } = self;
        let request = EvaluationRequest {
            evaluator,
            id: prompt.id().clone(),
            prompt: prompt.erased(),
            deadline,
            budget,
            overrides,
            output,
            nested,
        };
        let own = request.evaluator.new_session();
        let new = session.unwrap_or(&own);
        let start = match start {
            Start::Params(params) => Starting::New { params: prompt.json(&params), session: new },
            Start::Stored(params) => Starting::New { params: Ok(params), session: new },
            Start::Answers { thread, answers } => Starting::Continued { thread, answers, session },
        };
        match request.run(start).await? {
            Ended::Done(response, value) => response.typed(value),
            Ended::Interrupted(interrupted) => Ok(Evaluated::Interrupted(interrupted)),
        }
    }
}

impl<'a, P, T> IntoFuture for Evaluation<'a, P, T>
where
    P: Serialize + DeserializeOwned + Send + 'static,
    T: DeserializeOwned + 'a,
{
    type Output = Result<Evaluated<T>, EvaluationError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run(None, None))
    }
}

/// An evaluation that makes progress as its output is read: that of its run, as a
/// [`StartedRun`](weftwork_runtime::StartedRun) delivers it. Await it for its outcome, for which it
/// reads what is left. Dropping it cancels the run.
#[must_use = "the evaluation makes progress only as it is read"]
pub struct EvaluationStream<'a, T> {
    future: Option<BoxFuture<'a, Result<Evaluated<T>, EvaluationError>>>,
    output: UnboundedReceiver<Result<Output, RuntimeError>>,
    outcome: Option<Result<Evaluated<T>, EvaluationError>>,
    position: StreamPosition,
}

impl<T> fmt::Debug for EvaluationStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationStream").finish_non_exhaustive()
    }
}

impl<T> EvaluationStream<'_, T> {
    /// Position after the last output that the stream delivered. A client that loses its connection
    /// continues with the run of the evaluation after it.
    #[must_use]
    pub fn position(&self) -> &StreamPosition {
        &self.position
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Output, RuntimeError>>> {
        if let Some(future) = &mut self.future
            && let Poll::Ready(outcome) = future.as_mut().poll(cx)
        {
            self.outcome = Some(outcome);
            self.future = None;
        }
        let next = ready!(self.output.poll_recv(cx));
        if let Some(Ok(next)) = &next {
            self.position.clone_from(&next.position);
        }
        Poll::Ready(next)
    }

    async fn read_to_end(mut self) -> Result<Evaluated<T>, EvaluationError> {
        while poll_fn(|cx| self.poll_output(cx)).await.is_some() {}
        match (self.outcome, self.future) {
            (Some(outcome), _) => outcome,
            (None, Some(future)) => future.await,
            (None, None) => unreachable!("a future that ended has left its outcome"),
        }
    }
}

/// The output, until the evaluation has ended. An error is its last element.
impl<T: Unpin> Stream for EvaluationStream<'_, T> {
    type Item = Result<Output, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_output(cx)
    }
}

impl<'a, T: Send + 'a> IntoFuture for EvaluationStream<'a, T> {
    type Output = Result<Evaluated<T>, EvaluationError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    /// Reads the remaining output, and returns the outcome.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read_to_end())
    }
}
