//! The event bus: reports of evaluations to the program that makes them.

use super::error::{EvaluationErrorKind, EvaluationPhase};
use crate::prompt::PromptId;
use futures_util::Stream;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use uuid::Uuid;
use weftwork_types::canonical::Hash;
use weftwork_types::message::ToolCall;
use weftwork_types::tool::ToolOutcome;
use weftwork_types::usage::Usage;
use weftwork_types::{ThreadId, Timestamp};

/// Number of events that a subscriber may lag behind; it loses the oldest ones beyond that.
pub const BUS_EVENTS_MAX: usize = 1_024;

/// An event of an evaluation.
///
/// The values are those of the program; [`to_shown`](Self::to_shown) has the form for others.
#[derive(Debug, Clone)]
pub struct PromptEvent {
    /// Id of the event, which no other event has.
    pub id: Uuid,
    /// Time at which it was published, by the clock of the runtime.
    pub at: Timestamp,
    /// Id of the evaluation, the same in its continuations; `None` if the evaluation did not begin,
    /// because its prompt cannot be rendered for example.
    pub evaluation: Option<String>,
    /// Identity of the prompt.
    pub prompt: PromptId,
    /// Name of the evaluator.
    pub adapter: String,
    /// The session.
    pub session: ThreadId,
    /// The part of the evaluation that the event reports.
    pub kind: PromptEventKind,
}

/// The evaluation that an event belongs to.
#[derive(Debug, Clone)]
pub(crate) struct PromptEventSource {
    pub(crate) evaluation: Option<String>,
    pub(crate) prompt: PromptId,
    pub(crate) session: ThreadId,
}

/// A part of an evaluation. Each evaluation, and each continuation of one, publishes
/// [`PromptRendered`](Self::PromptRendered), any number of [`ToolInvoked`](Self::ToolInvoked), and
/// exactly one [`PromptExecuted`](Self::PromptExecuted), whatever fails. If the prompt cannot be
/// rendered, that is its only event.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PromptEventKind {
    /// The prompt was rendered, and nothing was called yet.
    PromptRendered(PromptRendered),
    /// A tool call of the prompt reached its outcome.
    ToolInvoked(Box<ToolInvoked>),
    /// The evaluation ended, or was interrupted.
    PromptExecuted(PromptExecuted),
}

/// A rendered prompt.
#[derive(Debug, Clone)]
pub struct PromptRendered {
    /// The parameters.
    pub inputs: Value,
    /// The rendered text.
    pub text: String,
    /// Hash of the rendered prompt, its tools and its output type: a continuation with another one
    /// is refused.
    pub hash: Hash,
}

/// A tool call of a prompt.
#[derive(Debug, Clone)]
pub struct ToolInvoked {
    /// The call: id, wire name of the tool, and arguments.
    pub call: ToolCall,
    /// The outcome.
    pub result: ToolOutcome,
    /// Usage of the call, with that of the evaluations that its tool made.
    pub usage: Usage,
}

/// The end of an evaluation.
#[derive(Debug, Clone)]
pub struct PromptExecuted {
    /// The outcome.
    pub outcome: ExecutedOutcome,
    /// Usage up to the end. That of a dropped evaluation includes the request in flight, estimated
    /// if the provider reported none; evaluations of its tools that are dropped with it report
    /// theirs.
    pub usage: Usage,
}

/// The outcome of an evaluation, as events report it.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutedOutcome {
    /// It completed with this text.
    Done {
        /// The answer.
        text: String,
        /// The answer as a value of the output type; `None` for a prompt without one.
        value: Option<Value>,
    },
    /// Questions are open, or it stopped before or after a node.
    Interrupted {
        /// Number of open questions.
        questions: usize,
    },
    /// It failed.
    Failed {
        /// Kind of the failure.
        kind: EvaluationErrorKind,
        /// Part of the evaluation that failed.
        phase: EvaluationPhase,
        /// Number of the attempt that failed last, from 1; see
        /// [`EvaluationError::attempt`](super::EvaluationError::attempt).
        attempt: u32,
        /// Code of the error.
        code: String,
        /// Message of the error, safe to show.
        message: String,
    },
    /// The caller stopped waiting.
    Dropped,
}

impl PromptEvent {
    /// Name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            PromptEventKind::PromptRendered(_) => "prompt_rendered",
            PromptEventKind::ToolInvoked(_) => "tool_invoked",
            PromptEventKind::PromptExecuted(_) => "prompt_executed",
        }
    }

    /// Returns the event for readers outside of the program: with the members of results that the
    /// declarations of tools allow, without secret arguments, and without texts of prompts.
    #[must_use]
    pub fn to_shown(&self) -> Value {
        let mut shown = json!({
            "type": self.name(), "id": self.id.to_string(), "at": self.at, "evaluation": self.evaluation,
            "prompt": self.prompt, "adapter": self.adapter, "session": self.session,
        });
        let members = match &self.kind {
            PromptEventKind::PromptRendered(event) => json!({"hash": event.hash}),
            PromptEventKind::ToolInvoked(event) => json!({
                "tool": event.call.name,
                "params": event.call.shown.as_ref().unwrap_or(&event.call.args),
                "result": event.result.clone().into_shown(), "usage": event.usage,
            }),
            PromptEventKind::PromptExecuted(event) => json!({
                "outcome": event.outcome.to_json(), "usage": event.usage,
            }),
        };
        if let (Value::Object(shown), Value::Object(members)) = (&mut shown, members) {
            shown.extend(members);
        }
        shown
    }
}

impl ExecutedOutcome {
    fn to_json(&self) -> Value {
        match self {
            Self::Done { text, value } => {
                json!({"status": "done", "text": text, "value": value})
            }
            Self::Interrupted { questions } => {
                json!({"status": "interrupted", "questions": questions})
            }
            Self::Failed { kind, phase, attempt, code, message } => json!({
                "status": "failed", "kind": kind.word(), "phase": phase.word(),
                "attempt": attempt, "code": code, "message": message,
            }),
            Self::Dropped => json!({"status": "dropped"}),
        }
    }
}

/// Delivers the events of evaluations to subscribers in this process. Clones share it.
///
/// Publishing never waits and never fails: each subscriber has a queue of its own, of
/// [`BUS_EVENTS_MAX`] events.
///
/// ```
/// use weftwork_agents::{Evaluator, EventBus, Prompt, PromptEventKind, Section};
/// use weftwork_models::scripted::ScriptedModel;
/// use weftwork_models::scripted::Step;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bus = EventBus::default();
/// let mut events = bus.subscribe();
/// let model = ScriptedModel::from_steps([Step::text("Hello.")]);
/// let evaluator = Evaluator::builder(model).bus(&bus).open().await?;
/// let greet = Section::new("task", "Task", "Greet.");
/// let prompt = Prompt::<()>::builder("docs", "greet", "Greet").section(greet).build()?;
/// evaluator.evaluate(&prompt, ()).await?;
///
/// let rendered = events.next().await.ok_or("the bus is there")?;
/// assert!(matches!(rendered.kind, PromptEventKind::PromptRendered(_)));
/// let executed = events.next().await.ok_or("the bus is there")?;
/// assert!(matches!(executed.kind, PromptEventKind::PromptExecuted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EventBus(Arc<Queues>);

/// The queues of the subscribers.
#[derive(Debug, Default)]
struct Queues(Mutex<Vec<Weak<Queue>>>);

impl Drop for Queues {
    fn drop(&mut self) {
        let queues = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for queue in queues.iter().filter_map(Weak::upgrade) {
            let mut state = queue.state();
            state.closed = true;
            let waker = state.waker.take();
            drop(state);
            queue.arrived.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<Arc<PromptEvent>>,
    lost: u64,
    waker: Option<Waker>,
    closed: bool,
}

impl EventBus {
    /// Creates a bus without subscribers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a subscription, with the events from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        self.queues().push(Arc::downgrade(&queue));
        Subscription(queue)
    }

    /// Calls a handler for each event from now on, in order, on a thread of its own. A handler that
    /// panics is called again for the next event; one that does not return loses events. Other
    /// handlers and evaluations are not affected. The thread ends with the bus.
    ///
    /// # Errors
    /// The error of the operating system if it cannot start a thread.
    pub fn on(
        &self,
        handler: impl Fn(&PromptEvent) + Send + 'static,
    ) -> Result<(), std::io::Error> {
        let subscription = self.subscribe();
        let run = move || {
            while let Some(event) = subscription.wait() {
                if catch_unwind(AssertUnwindSafe(|| handler(&event))).is_err() {
                    tracing::error!(event = event.name(), "a handler of the event bus panicked");
                }
            }
        };
        std::thread::Builder::new().name("weft-bus-handler".to_owned()).spawn(run)?;
        Ok(())
    }

    /// Publishes an event.
    pub(crate) fn publish(&self, event: PromptEvent) {
        let event = Arc::new(event);
        self.queues().retain(|queue| match queue.upgrade() {
            Some(queue) => {
                queue.push(Arc::clone(&event));
                true
            }
            None => false,
        });
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Arc<PromptEvent>) {
        let mut state = self.state();
        if state.events.len() == BUS_EVENTS_MAX {
            state.events.pop_front();
            state.lost += 1;
        }
        state.events.push_back(event);
        let waker = state.waker.take();
        drop(state);
        self.arrived.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A subscription of the events of an [`EventBus`].
#[derive(Debug)]
pub struct Subscription(Arc<Queue>);

impl Subscription {
    /// Waits for the next event; `None` once the bus is dropped and all its events were read.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Arc<PromptEvent>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&self, cx: &Context<'_>) -> Poll<Option<Arc<PromptEvent>>> {
        let mut state = self.0.state();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns the events that have arrived, in order.
    pub fn drain(&mut self) -> Vec<Arc<PromptEvent>> {
        self.0.state().events.drain(..).collect()
    }

    /// Number of events that were lost because the subscriber lagged.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.state().lost
    }

    /// Blocks until the next event; `None` once the bus is dropped.
    fn wait(&self) -> Option<Arc<PromptEvent>> {
        let mut state = self.0.state();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            if state.closed {
                return None;
            }
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The events, until the bus is dropped.
impl Stream for Subscription {
    type Item = Arc<PromptEvent>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<PromptEvent>>> {
        self.poll_event(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn event(number: usize) -> PromptEvent {
        let outcome = ExecutedOutcome::Dropped;
        PromptEvent {
            id: Uuid::nil(),
            at: Timestamp(1),
            evaluation: None,
            prompt: PromptId {
                namespace: "n".to_owned(),
                key: "k".to_owned(),
                name: number.to_string(),
            },
            adapter: "a".to_owned(),
            session: ThreadId::new("s").expect("an id"),
            kind: PromptEventKind::PromptExecuted(PromptExecuted {
                outcome,
                usage: Usage::default(),
            }),
        }
    }

    fn number(event: &PromptEvent) -> String {
        event.prompt.name.clone()
    }

    #[test]
    fn handlers_that_panic_or_hang_harm_nobody() {
        let bus = EventBus::new();
        let (hang, hangs) = mpsc::channel::<()>();
        let hangs = Mutex::new(hangs);
        bus.on(move |_| drop(hangs.lock().map(|hangs| hangs.recv()))).expect("starts");
        bus.on(|_| panic!("a handler that panics")).expect("starts");
        let (sender, receiver) = mpsc::channel();
        bus.on(move |event| {
            if number(event) == "0" {
                panic!("once");
            }
            sender.send(number(event)).expect("the test waits");
        })
        .expect("starts");
        let mut subscription = bus.subscribe();
        for number in 0..3 {
            bus.publish(event(number));
        }
        let patience = Duration::from_secs(20);
        assert_eq!(receiver.recv_timeout(patience).as_deref(), Ok("1"));
        assert_eq!(receiver.recv_timeout(patience).as_deref(), Ok("2"));
        let events = subscription.drain();
        assert_eq!(events.iter().map(|event| number(event)).collect::<Vec<_>>(), ["0", "1", "2"]);
        drop(hang);
    }

    #[test]
    fn a_subscriber_that_lags_loses_the_oldest_events_and_is_told() {
        let bus = EventBus::new();
        let mut subscription = bus.subscribe();
        for number in 0..BUS_EVENTS_MAX + 3 {
            bus.publish(event(number));
        }
        assert_eq!(subscription.lost(), 3);
        assert_eq!(subscription.drain().first().map(|event| number(event)).as_deref(), Some("3"));
        drop(subscription);
        bus.publish(event(0));
        assert!(bus.queues().is_empty(), "a dropped subscription is removed");
    }

    #[tokio::test]
    async fn a_subscriber_that_waits_is_woken_when_the_bus_is_dropped() {
        let bus = EventBus::new();
        let mut subscription = bus.subscribe();
        bus.publish(event(0));
        let waits = tokio::spawn(async move {
            let first = subscription.next().await.map(|event| number(&event));
            (first, subscription.next().await.is_none())
        });
        tokio::task::yield_now().await;
        drop(bus);
        let waits = tokio::time::timeout(Duration::from_secs(20), waits).await;
        let (first, ended) = waits.expect("it is woken").expect("no panic");
        assert_eq!((first.as_deref(), ended), (Some("0"), true));
    }
}
