//! The context of a call in tests: a journal, budget, ledger and events that tests can inspect.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_models::ChatRequest;
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{
    Budget, BudgetError, BudgetExceeded, CallContext, CallKey, CallResult, Demand, Emit, Hold,
    Intent, Journal, JournalError, Ledger, Opened, Reservation,
};
use weftwork_types::usage::{Usage, UsageFact};
use weftwork_types::{BoxFuture, ErrorCode, MessageId, ThreadId, canonical};

/// All records and events of a call, in order.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) events: Mutex<Vec<AiEvent>>,
    pub(crate) booked: Mutex<Vec<UsageFact>>,
    pub(crate) settled: Mutex<HashMap<CallKey, Value>>,
    /// Number of calls that the budget still allows; negative means no limit.
    pub(crate) calls_left: Mutex<i64>,
    pub(crate) settle_refuses: AtomicU64,
}

impl Desk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { calls_left: Mutex::new(-1), ..Self::default() })
    }

    pub(crate) fn context(self: &Arc<Self>, clock: &ManualClock) -> CallContext {
        let caller = Caller::local("request").expect("a caller");
        CallContext {
            thread: ThreadId::new("thread").expect("an id"),
            journal: Arc::<Self>::clone(self),
            budget: Arc::new(DeskBudget(Arc::clone(self))),
            ledger: Arc::<Self>::clone(self),
            emit: Arc::<Self>::clone(self),
            ..CallContext::of_program(caller, Arc::new(clock.clone()))
        }
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("a lock").clone()
    }

    pub(crate) fn facts(&self) -> Vec<UsageFact> {
        let events = self.events.lock().expect("a lock");
        let facts = events.iter().filter_map(|event| match event {
            AiEvent::UsageReport { fact, .. } => Some(fact.clone()),
            _ => None,
        });
        facts.collect()
    }

    pub(crate) fn booked(&self) -> Vec<UsageFact> {
        self.booked.lock().expect("a lock").clone()
    }

    /// The text that a watcher received.
    pub(crate) fn shown(&self) -> String {
        let events = self.events.lock().expect("a lock");
        let deltas = events.iter().filter_map(|event| match event {
            AiEvent::TextDelta { delta } => Some(delta.as_str()),
            _ => None,
        });
        deltas.collect()
    }

    fn note(&self, what: impl Into<String>) {
        self.log.lock().expect("a lock").push(what.into());
    }
}

pub(crate) fn request(text: &str) -> ChatRequest {
    let id = MessageId::new("m1").expect("an id");
    let messages = vec![Message::text(id, Role::User, text)];
    ChatRequest { messages, ..ChatRequest::default() }
}

fn fault() -> Fault {
    Fault::new(ErrorCode("W0204"), "the disk is full")
}

fn takes_one(counter: &AtomicU64) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Journal for Desk {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        self.note("open");
        let key = format!("{:?} {} {}", intent.kind, intent.name, intent.input);
        let key = CallKey(canonical::hash_bytes(key.as_bytes()));
        let settled = self.settled.lock().expect("a lock").get(&key).cloned();
        Box::pin(async move {
            Ok(match settled {
                Some(value) => Opened::Settled { key, result: CallResult { value } },
                None => Opened::New { key },
            })
        })
    }

    fn look(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        self.open(intent)
    }

    fn begin_again(&self, _key: CallKey) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }

    fn withdraw(&self, _key: CallKey) {
        self.note("withdraw");
    }

    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>> {
        self.note("settle");
        let refused = takes_one(&self.settle_refuses);
        if !refused {
            self.settled.lock().expect("a lock").insert(key, result.value);
        }
        Box::pin(async move {
            match refused {
                true => Err(JournalError { name: "m".to_owned(), source: fault() }),
                false => Ok(()),
            }
        })
    }
}

/// The budget of a desk.
#[derive(Debug)]
struct DeskBudget(Arc<Desk>);

impl Budget for DeskBudget {
    fn reserve<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        let mut left = self.0.calls_left.lock().expect("a lock");
        if *left == 0 {
            let exceeded = BudgetExceeded {
                budget: "budget",
                unit: "model calls",
                used: 1,
                needed: 1,
                limit: 1,
            };
            return Box::pin(std::future::ready(Err(exceeded.into())));
        }
        *left -= 1;
        self.0.note(format!("reserve {}", demand.usage().model_calls));
        let held = DeskHold(Arc::clone(&self.0));
        Box::pin(std::future::ready(Ok(Reservation::new(held))))
    }
}

#[derive(Debug)]
struct DeskHold(Arc<Desk>);

impl Hold for DeskHold {
    fn settle(self: Box<Self>, used: Usage) -> BoxFuture<'static, ()> {
        self.0.note(format!("charge {}", used.tokens.total()));
        Box::pin(std::future::ready(()))
    }

    fn release(self: Box<Self>, used: Usage) {
        self.0.note(format!("release {}", used.tokens.output));
    }
}

impl Ledger for Desk {
    fn record(&self, fact: &UsageFact) {
        self.note(format!("book {}", fact.attempt));
        self.booked.lock().expect("a lock").push(fact.clone());
    }
}

impl Emit for Desk {
    fn emit(&self, event: AiEvent) {
        let name = serde_json::to_value(&event).expect("json")["type"].clone();
        self.note(format!("emit {}", name.as_str().unwrap_or_default()));
        self.events.lock().expect("a lock").push(event);
    }
}
