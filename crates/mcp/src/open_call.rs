//! Calls whose server waits within the request until a person has answered.

use crate::McpError;
use crate::connection::Caller;
use crate::handler::{Listener, Notice};
use crate::http::Repeatable;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ElicitResult};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weftwork_types::port::Clock;

/// Time that a call waits for a person with its connection. Afterwards it is cancelled.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// A call in progress. Dropping it cancels the call on the server.
#[derive(Debug)]
pub(crate) struct OpenCall {
    task: JoinHandle<Result<CallToolResponse, McpError>>,
    listener: Listener,
    /// The answer that the server waits for.
    answer: Option<oneshot::Sender<ElicitResult>>,
}

/// The next event of a call.
#[derive(Debug)]
pub(crate) enum Event {
    /// The call has ended.
    Ended(Result<CallToolResponse, McpError>),
    /// The server asks, or reports progress.
    Noticed(Notice),
}

impl OpenCall {
    /// Makes a call in a task of its own.
    pub(crate) fn start(
        caller: Caller,
        params: CallToolRequestParams,
        repeatable: Option<Repeatable>,
    ) -> Self {
        let listener = caller.listen();
        let number = listener.number();
        let task = tokio::spawn(async move { caller.call(params, number, repeatable).await });
        Self { task, listener, answer: None }
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self, server: &str) -> Event {
        tokio::select! {
            biased;
            notice = self.listener.next() => Event::Noticed(notice),
            ended = &mut self.task => Event::Ended(ended.unwrap_or_else(|error| {
                Err(McpError::Lost { server: server.to_owned(), problem: error.to_string() })
            })),
        }
    }

    /// Keeps the place of the answer that the server waits for.
    pub(crate) fn wait_for(&mut self, answer: oneshot::Sender<ElicitResult>) {
        self.answer = Some(answer);
    }

    /// Answers the server; `false` if it does not wait any more.
    pub(crate) fn answer(&mut self, answer: ElicitResult) -> bool {
        let place = self.answer.take();
        place.is_some_and(|place| place.send(answer).is_ok()) && !self.task.is_finished()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The calls of a connection that wait for a person, by idempotency key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parked(Arc<Mutex<WaitingCall>>);

#[derive(Debug, Default)]
struct WaitingCall {
    /// Number of the next call that waits.
    next: u64,
    calls: BTreeMap<String, (u64, OpenCall)>,
}

impl Parked {
    /// Keeps a call until it is taken, at most for [`PATIENCE`].
    pub(crate) fn put(&self, key: String, call: OpenCall, clock: &Arc<dyn Clock>) {
        let number = {
            let mut waiting = self.lock();
            let number = waiting.next;
            waiting.next += 1;
            waiting.calls.insert(key.clone(), (number, call));
            number
        };
        let late = clock.sleep(PATIENCE);
        let parked = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            late.await;
            if let Some(parked) = parked.upgrade().map(Parked)
                && parked.lock().calls.get(&key).is_some_and(|(other, _)| *other == number)
            {
                drop(parked.take(&key));
            }
        });
    }

    /// Takes a call that still waits.
    pub(crate) fn take(&self, key: &str) -> Option<OpenCall> {
        self.lock().calls.remove(key).map(|(_, call)| call)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
