//! The context of calls in tests: a clock that stands still, a journal in memory, a list of events.

use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weftwork_testkit::ManualClock;
use weftwork_tools::{Executed, Policy, Prepared, ToolBox, ToolRunner};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{
    CallContext, CallKey, CallResult, Clock, Emit, Intent, Journal, JournalError, LimitedBudget,
    Limits, Opened,
};
use weftwork_types::tool::{ToolErrorKind, ToolFailure, ToolOutcome};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, ErrorCode, ThreadId, ToolCallId};

pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) events: Arc<Events>,
    pub(crate) budget: Mutex<LimitedBudget>,
    pub(crate) thread: &'static str,
    pub(crate) deadline: Option<Duration>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            clock: ManualClock::new(),
            journal: Arc::default(),
            events: Arc::default(),
            budget: Mutex::new(tool_calls(100)),
            thread: "t-1",
            deadline: None,
        }
    }

    pub(crate) fn context(&self) -> CallContext {
        let caller = Caller::local("req-1").expect("a valid id");
        CallContext {
            thread: ThreadId::new(self.thread).expect("a valid id"),
            journal: Arc::clone(&self.journal) as Arc<dyn Journal>,
            budget: Arc::new(self.budget.lock().expect("not poisoned").clone()),
            emit: Arc::clone(&self.events) as Arc<dyn Emit>,
            deadline: self.deadline.map(|after| self.clock.now().plus(after)),
            ..CallContext::of_program(caller, Arc::new(self.clock.clone()))
        }
    }

    /// Prepares and executes a call that requires no person; advances the clock while it waits.
    pub(crate) fn run(&self, runner: &ToolRunner, call: &ToolCall) -> Executed {
        match runner.prepare(call, &self.context()) {
            Prepared::Ready(ready) => self.drive(runner.execute(ready)).expect("no error"),
            other => panic!("a person is needed: {other:?}"),
        }
    }

    /// Polls a future until it is ready; advances the clock by an hour whenever it waits.
    pub(crate) fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.clock.advance(Duration::from_secs(3600));
        }
        panic!("the future waits for something that is not time");
    }

    /// The pairs of start and result events so far. Panics unless each start is followed by exactly
    /// one result of its own call before the next start.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut open: Option<(String, String)> = None;
        for event in self.events.all() {
            match event {
                AiEvent::ToolCallStart { tool_call_id, tool_name, .. } => {
                    assert!(open.is_none(), "two starts in a row");
                    open = Some((tool_call_id.to_string(), tool_name));
                }
                AiEvent::ToolCallResult { tool_call_id, result, is_error, .. } => {
                    let (id, name) = open.take().expect("a result has a start");
                    assert_eq!(id, tool_call_id.as_str());
                    pairs.push(Pair { id, name, result, is_error });
                }
                _ => {}
            }
        }
        assert!(open.is_none(), "a start without a result");
        pairs
    }

    pub(crate) fn reused(&self) -> usize {
        self.events.all().iter().filter(|e| matches!(e, AiEvent::CallReused { .. })).count()
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) result: Value,
    pub(crate) is_error: bool,
}

pub(crate) fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall {
        id: ToolCallId::new(id).expect("a valid id"),
        name: name.to_owned(),
        args,
        shown: None,
    }
}

pub(crate) fn runner(tools: ToolBox, policy: Policy) -> ToolRunner {
    ToolRunner::new(tools, policy).expect("valid tools")
}

pub(crate) fn done(executed: Executed) -> ToolOutcome {
    match executed {
        Executed::Done(outcome) => outcome,
        other => panic!("no outcome: {other:?}"),
    }
}

pub(crate) fn value(executed: Executed) -> Value {
    match done(executed) {
        ToolOutcome::Ok { value, .. } => value,
        ToolOutcome::Failed(failure) => panic!("failed: {failure:?}"),
    }
}

pub(crate) fn failure(executed: Executed) -> (ToolErrorKind, String, String) {
    match done(executed) {
        ToolOutcome::Failed(ToolFailure { error_code, safe_message, code, .. }) => {
            (error_code, code.expect("every failure has a page"), safe_message)
        }
        ToolOutcome::Ok { value, .. } => panic!("it worked: {value}"),
    }
}

#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Vec<AiEvent>>);

impl Events {
    pub(crate) fn all(&self) -> Vec<AiEvent> {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl Emit for Events {
    fn emit(&self, event: AiEvent) {
        self.0.lock().expect("not poisoned").push(event);
    }
}

/// A journal of one task. A call that was opened and not settled is unknown when opened again, as
/// after a crash.
#[derive(Debug, Default)]
pub(crate) struct MemoryJournal {
    calls: Mutex<BTreeMap<CallKey, Option<CallResult>>>,
    pub(crate) intents: Mutex<Vec<Intent>>,
    begun_again: Mutex<Vec<CallKey>>,
    pub(crate) refuse_open: Mutex<bool>,
    pub(crate) refuse_settle: Mutex<bool>,
    pub(crate) refuse_again: Mutex<bool>,
}

impl MemoryJournal {
    pub(crate) fn key(intent: &Intent) -> CallKey {
        let text = format!("{}/{}/{:?}", intent.name, intent.input, intent.call_id);
        CallKey(hash_bytes(text.as_bytes()))
    }

    /// The numbers of opened and settled calls.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let calls = self.calls.lock().expect("not poisoned");
        (calls.len(), calls.values().flatten().count())
    }

    /// The number of times that an open call was begun.
    fn made(&self, key: CallKey) -> u32 {
        let begun_again = self.begun_again.lock().expect("not poisoned");
        1 + begun_again.iter().filter(|known| **known == key).count() as u32
    }

    pub(crate) fn overwrite_all(&self, value: &Value) {
        for result in self.calls.lock().expect("not poisoned").values_mut() {
            *result = Some(CallResult { value: value.clone() });
        }
    }

    fn refusal(refuse: &Mutex<bool>, name: &str) -> Result<(), JournalError> {
        if *refuse.lock().expect("not poisoned") {
            let source = Fault::new(ErrorCode("W0201"), "disk full");
            return Err(JournalError { name: name.to_owned(), source });
        }
        Ok(())
    }
}

impl Journal for MemoryJournal {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        Box::pin(async move {
            Self::refusal(&self.refuse_open, &intent.name)?;
            let key = Self::key(&intent);
            self.intents.lock().expect("not poisoned").push(intent);
            let mut calls = self.calls.lock().expect("not poisoned");
            Ok(match calls.get(&key) {
                None => {
                    calls.insert(key, None);
                    Opened::New { key }
                }
                Some(None) => Opened::Unknown { key, made: self.made(key) },
                Some(Some(result)) => Opened::Settled { key, result: result.clone() },
            })
        })
    }

    fn look(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let key = Self::key(&intent);
        let found = self.calls.lock().expect("not poisoned").get(&key).cloned();
        Box::pin(std::future::ready(Ok(match found {
            None => Opened::New { key },
            Some(None) => Opened::Unknown { key, made: self.made(key) },
            Some(Some(result)) => Opened::Settled { key, result },
        })))
    }

    fn begin_again(&self, key: CallKey) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            Self::refusal(&self.refuse_again, "tool")?;
            self.begun_again.lock().expect("not poisoned").push(key);
            Ok(())
        })
    }

    fn withdraw(&self, key: CallKey) {
        self.calls.lock().expect("not poisoned").remove(&key);
    }

    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            Self::refusal(&self.refuse_settle, "tool")?;
            let before = self.calls.lock().expect("not poisoned").insert(key, Some(result));
            assert_eq!(before, Some(None), "only an open call is settled, and once");
            Ok(())
        })
    }
}

/// A budget of so many tool calls.
pub(crate) fn tool_calls(limit: u64) -> LimitedBudget {
    let limits = Limits { tool_calls: Some(limit), ..Limits::default() };
    LimitedBudget::new(limits, Usage::default())
}

/// Counts the executions of tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
