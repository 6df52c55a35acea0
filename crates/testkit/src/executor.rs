//! An executor of runs that plays outcomes and records what it is asked.

use futures_util::stream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{ExecuteError, GraphExecutor, RunHandle};
use weftwork_types::run::{RunOutcome, RunRef, RunRequest};
use weftwork_types::{BoxFuture, Principal, RunId, Timestamp};

/// A stand-in for the runtime behind code that executes graphs or agents: it plays outcomes in
/// order, the last one for all further requests, and records the requests.
///
/// ```
/// use weftwork_testkit::ScriptedExecutor;
/// use weftwork_types::caller::Caller;
/// use weftwork_types::port::GraphExecutor;
/// use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
/// use weftwork_types::{Principal, ThreadId};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let output = serde_json::json!({"answer": 4});
/// let executor = ScriptedExecutor::new([RunOutcome::Completed { output }]);
/// let request = RunRequest {
///     principal: Principal::local(),
///     caller: Caller::local("r")?,
///     graph: "app:calculator".to_owned(),
///     thread: ThreadId::new("t")?,
///     input: RunInput::Continue,
///     options: RunOptions::default(),
/// };
/// let handle = executor.execute(request).await?;
/// assert_eq!(handle.outcome.await.output().map(|output| output["answer"] == 4), Some(true));
/// assert_eq!(executor.requests()[0].graph, "app:calculator");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScriptedExecutor {
    outcomes: Vec<RunOutcome>,
    requests: Mutex<Vec<RunRequest>>,
    cancelled: Mutex<Vec<RunRef>>,
}

impl ScriptedExecutor {
    /// Creates an executor with these outcomes; without any, runs are cancelled.
    #[must_use]
    pub fn new(outcomes: impl IntoIterator<Item = RunOutcome>) -> Self {
        let outcomes = outcomes.into_iter().collect();
        Self { outcomes, requests: Mutex::default(), cancelled: Mutex::default() }
    }

    /// The requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RunRequest> {
        lock(&self.requests).clone()
    }

    /// The runs that were cancelled, in order.
    #[must_use]
    pub fn cancelled(&self) -> Vec<RunRef> {
        lock(&self.cancelled).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GraphExecutor for ScriptedExecutor {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        let (graph, thread) = (request.graph.clone(), request.thread.clone());
        let mut requests = lock(&self.requests);
        requests.push(request);
        let number = requests.len();
        let outcome = self.outcomes.get(number - 1).or(self.outcomes.last()).cloned();
        let outcome = outcome.unwrap_or_else(RunOutcome::cancelled);
        let run = RunRef { thread, run: RunId::from_uuid(uuid::Uuid::from_u128(number as u128)) };
        let done = AiEvent::Done { outcome: outcome.status() };
        let events = [AiEvent::RunStarted { graph }, done].into_iter().enumerate();
        let durable = |(index, event)| RunEvent::durable(index as u64 + 1, Timestamp(0), event);
        let events: Vec<RunEvent> = events.map(durable).collect();
        Box::pin(std::future::ready(Ok(RunHandle {
            run,
            events: Box::pin(stream::iter(events)),
            outcome: Box::pin(std::future::ready(outcome)),
        })))
    }

    fn cancel<'a>(
        &'a self,
        _: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        lock(&self.cancelled).push(run.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}
