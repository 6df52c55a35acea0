//! Limits of accounts and keys over several processes of one store: two runtimes stand for two
//! processes.

use crate::stores::{Place, on_three_stores};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork::models::{
    ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelCaller, ModelError,
    ModelInfo, Price, RefusalKind, RetryPolicy,
};
use weftwork::prelude::*;
use weftwork::runtime::limits::{LimitOwner, LimitRules, UsageLimits};
use weftwork::store::{BilledTo, Store};
use weftwork::types::caller::Caller;
use weftwork::types::port::{CallContext, Clock as _, GraphExecutor as _};
use weftwork::types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork::types::usage::Tokens;
use weftwork::types::{BillingAccountId, MessageId, Principal, ThreadId, Timestamp, VirtualKeyId};
use weftwork_testkit::ManualClock;

/// Tokens of the answer, which the request allows at most.
const OUTPUT: u32 = 100;
/// Length of the question in bytes. Four count as a token.
const QUESTION_BYTES: usize = 1_400;
/// Tokens that the model reports for the question: fewer than the estimate.
const INPUT: u64 = 350;
/// Tokens of a call.
const USED: u64 = INPUT + OUTPUT as u64;
/// Upper bound of the estimate of a call, with the names of members of the request.
const ESTIMATE_MAX: u64 = 600;
/// Limit of the key.
const LIMIT: u64 = 10_000;

/// Counts of calls that were made.
#[derive(Debug, Default)]
struct Meter {
    calls: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
}

/// An open call.
struct Open(Arc<Meter>);

impl Open {
    fn new(meter: &Arc<Meter>) -> Self {
        meter.calls.fetch_add(1, Ordering::SeqCst);
        let open = meter.open.fetch_add(1, Ordering::SeqCst) + 1;
        meter.most_open.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(meter))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A model that reports what it uses.
#[derive(Debug)]
struct Metered {
    info: ModelInfo,
    meter: Arc<Meter>,
    price: Option<Price>,
    /// The error of every call, if it fails.
    error: Option<ModelError>,
    fallback: Option<Arc<dyn ChatModel>>,
}

impl Metered {
    fn new(meter: &Arc<Meter>) -> Self {
        let info = ModelInfo { provider: "lab".to_owned(), model: "tiny".to_owned(), label: None };
        Self { info, meter: Arc::clone(meter), price: None, error: None, fallback: None }
    }
}

impl ChatModel for Metered {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    fn fallback(&self, _: &ModelError) -> Option<&dyn ChatModel> {
        self.fallback.as_deref()
    }

    fn stream(&self, _: Arc<ChatRequest>) -> ChatStream {
        let meter = Arc::clone(&self.meter);
        let error = self.error.clone();
        let answer = async move {
            let _open = Open::new(&meter);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            match error {
                Some(error) => vec![Err(error)],
                None => vec![
                    Ok(ChatEvent::TextDelta("yes".to_owned())),
                    Ok(ChatEvent::Usage(Tokens::reported(INPUT, OUTPUT.into()))),
                    Ok(ChatEvent::Finish { reason: FinishReason::Stop, provider_call_id: None }),
                ],
            }
        };
        futures_util::stream::once(answer).flat_map(futures_util::stream::iter).boxed()
    }
}

#[derive(State)]
struct Turn {
    #[channel(append)]
    log: List<String>,
}

fn question() -> ChatRequest {
    let id = MessageId::new("m1").expect("an id");
    let messages = vec![Message::text(id, Role::User, "x".repeat(QUESTION_BYTES))];
    ChatRequest { messages, max_tokens: Some(OUTPUT), ..ChatRequest::default() }
}

/// A process: a runtime with a graph that asks a model once.
struct Process {
    runtime: Runtime,
    meter: Arc<Meter>,
}

impl Process {
    async fn open(place: &Place, clock: &ManualClock, limits: UsageLimits) -> Self {
        let meter = Arc::default();
        let model = Metered::new(&meter);
        Self::with_model(place, clock, limits, model).await
    }

    async fn with_model(
        place: &Place,
        clock: &ManualClock,
        limits: UsageLimits,
        model: Metered,
    ) -> Self {
        let meter = Arc::clone(&model.meter);
        let model: Arc<dyn ChatModel> = Arc::new(model);
        let asks = async |ctx: Ctx, model: Deps<Arc<dyn ChatModel>>| {
            let answer = ModelCaller::new(RetryPolicy::once())
                .call(&**model, question(), ctx.calls())
                .await?;
            NodeResult::Ok(TurnUpdate::new().log([answer.message.joined_text()]))
        };
        let graph = Graph::<Turn>::new("ask").with(model).node("ask", asks).edge(START, "ask");
        let builder = Runtime::builder(place.open()).clock(Arc::new(clock.clone()));
        let builder = builder.limits(limits).graph("test:ask", graph.build().expect("sound"));
        Self { runtime: builder.open().await.expect("opens"), meter }
    }

    /// Executes a run, and returns the code of its fault.
    async fn ask(&self, thread: &str, caller: Caller) -> Option<String> {
        match self.run(thread, caller).await {
            RunOutcome::Completed { .. } => None,
            RunOutcome::Failed { fault } => Some(fault.code),
            other => panic!("{other:?}"),
        }
    }

    async fn run(&self, thread: &str, caller: Caller) -> RunOutcome {
        let request = RunRequest {
            principal: Principal::local(),
            caller,
            graph: "test:ask".to_owned(),
            thread: ThreadId::new(thread).expect("an id"),
            input: RunInput::Start { input: json!({}) },
            options: RunOptions::default(),
        };
        self.runtime.execute(request).await.expect("accepted").outcome.await
    }

    fn calls(&self) -> u64 {
        self.meter.calls.load(Ordering::SeqCst)
    }
}

fn caller(account: &str, key: &str) -> Caller {
    Caller {
        billing_account: BillingAccountId::new(account).expect("an id"),
        virtual_key: VirtualKeyId::new(key).expect("an id"),
        ..Caller::local("request").expect("a caller")
    }
}

fn rules(name: &str, max: u64) -> LimitRules {
    LimitRules::from([(name.parse().expect("a limit"), max)])
}

/// Returns a limit of the key `small`, in the days of Berlin.
fn of_key(name: &str, max: u64) -> UsageLimits {
    let limits = UsageLimits::new("Europe/Berlin").expect("a zone");
    limits.with(LimitOwner::Key, "small", rules(name, max)).expect("a key")
}

/// 2026-03-28 in Berlin, at noon. The day after has 23 hours.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    advance_to(&clock, 1_774_695_600_000);
    clock
}

fn advance_to(clock: &ManualClock, time: i64) {
    clock.advance(Timestamp(time).since(clock.now()));
}

/// Returns the tokens in the bill of the key `small`.
async fn billed(store: &dyn Store) -> u64 {
    weftwork::store::move_all_usage(store).await.expect("moves");
    let key = BilledTo::Key(VirtualKeyId::new("small").expect("an id"));
    store.subject_usage(&key, Timestamp(0), &[]).await.expect("reads").tokens
}

/// Waits until the usage of runs that have ended is stored.
async fn settle(store: &dyn Store, tokens: u64) {
    for _ in 0..100_000 {
        if billed(store).await == tokens {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tokens are billed, expected {tokens}", billed(store).await);
}

#[expect(clippy::print_stdout, reason = "the overshoot is a measurement")]
async fn a_key_of_10000_tokens_a_day_is_held_over_two_processes(place: Place) {
    let clock = clock();
    let limits = of_key("tokens_per_day", LIMIT);
    let processes = [
        Process::open(&place, &clock, limits.clone()).await,
        Process::open(&place, &clock, limits).await,
    ];
    let runs = (0..80).map(|n| {
        let process = &processes[n % 2];
        async move { process.ask(&format!("t{n}"), caller("acme", "small")).await }
    });
    let codes = join_all(runs).await;
    let made = processes.iter().map(Process::calls).sum::<u64>();
    let refused = codes.iter().flatten().count() as u64;
    assert!(codes.iter().flatten().all(|code| code == "W0661"), "{codes:?}");
    assert_eq!(made + refused, 80, "a refused call is not made");
    assert!(refused > 0);
    let store = place.open();
    settle(&*store, made * USED).await;
    let overshoot = (made * USED).saturating_sub(LIMIT);
    let most = processes.iter().map(|of| of.meter.most_open.load(Ordering::SeqCst)).max();
    // A call also counts between its end and the commit of its superstep.
    let in_flight = most.unwrap_or_default().max(1) * ESTIMATE_MAX;
    println!(
        "limit {LIMIT} tokens, used {}, overshoot {overshoot}, at most {in_flight} in flight in \
         one process",
        made * USED
    );
    assert!(overshoot <= in_flight, "{overshoot}");
    // No process makes a further call, whoever made those before.
    for process in &processes {
        let before = process.calls();
        assert_eq!(process.ask("after", caller("acme", "small")).await.as_deref(), Some("W0661"));
        assert_eq!(process.calls(), before);
        assert_eq!(process.ask("other", caller("acme", "large")).await, None, "another key");
    }
    // The day ends at midnight in Berlin, and the thread of a refused call goes on.
    advance_to(&clock, 1_774_738_800_000 - 1);
    assert_eq!(processes[0].ask("after", caller("acme", "small")).await.as_deref(), Some("W0661"));
    advance_to(&clock, 1_774_738_800_000);
    assert_eq!(processes[0].ask("after", caller("acme", "small")).await, None);
}

async fn calls_at_once_of_one_process_never_pass_a_limit(place: Place) {
    let clock = clock();
    let process = Process::open(&place, &clock, of_key("tokens_per_month", LIMIT)).await;
    let threads: Vec<_> = (0..60).map(|n| format!("t{n}")).collect();
    let runs = threads.iter().map(|thread| process.ask(thread, caller("acme", "small")));
    let codes = join_all(runs).await;
    let made = process.calls();
    assert!(made * USED <= LIMIT, "{made}");
    assert_eq!(codes.iter().flatten().count() as u64, 60 - made);
    settle(&*place.open(), made * USED).await;
    // Estimates were above what was used, so that some is left once the calls have ended.
    let mut more = 0;
    while process.ask("later", caller("acme", "small")).await.is_none() {
        more += 1;
    }
    let used = (made + more) * USED;
    assert!(used <= LIMIT && used + ESTIMATE_MAX > LIMIT, "{used}");
}

async fn a_minute_of_tokens_leaves_again(place: Place) {
    let clock = clock();
    let process = Process::open(&place, &clock, of_key("tokens_per_minute", 1_200)).await;
    let ask = async || process.run("t", caller("acme", "small")).await;
    assert!(matches!(ask().await, RunOutcome::Completed { .. }));
    clock.advance(Duration::from_secs(20));
    assert!(matches!(ask().await, RunOutcome::Completed { .. }));
    settle(&*place.open(), 2 * USED).await;
    let RunOutcome::Failed { fault } = ask().await else { panic!("it is refused") };
    assert_eq!((fault.code.as_str(), fault.retriable), ("W0661", false));
    let limit = fault.details.as_ref().and_then(|details| details.limit.clone());
    let limit = limit.expect("the limit that was reached");
    assert_eq!((limit.unit.as_str(), limit.used, limit.limit), ("tokens a minute", 900, 1_200));
    // The first call leaves 40 seconds later.
    let until = "wait until 2026-03-28T12:01:00+01:00";
    assert!(fault.message.contains("key `small`") && fault.message.contains(until), "{fault:?}");
    clock.advance(Duration::from_secs(39));
    assert!(matches!(ask().await, RunOutcome::Failed { .. }));
    clock.advance(Duration::from_secs(1));
    assert!(matches!(ask().await, RunOutcome::Completed { .. }));
}

/// A price of 1 dollar for 1,000 tokens.
const PRICE: Price = Price {
    input: 1_000_000_000,
    output: 1_000_000_000,
    cached: 1_000_000_000,
    cache_written: 1_000_000_000,
};

/// Returns a model with a price, and one without cost.
fn priced(meter: &Arc<Meter>) -> Metered {
    Metered { price: Some(PRICE), ..Metered::new(meter) }
}

async fn a_cost_is_limited_and_a_call_without_a_price_is_refused(place: Place) {
    let clock = clock();
    let meter = Arc::default();
    let limits = of_key("usd_per_month", 1_000_000);
    let process = Process::with_model(&place, &clock, limits.clone(), priced(&meter)).await;
    // A call costs 0.45 dollars, and its estimate is a little above.
    assert_eq!(process.ask("t", caller("acme", "small")).await, None);
    assert_eq!(process.ask("t", caller("acme", "small")).await, None);
    let RunOutcome::Failed { fault } = process.run("t", caller("acme", "small")).await else {
        panic!("0.9 of 1 dollar are used")
    };
    assert_eq!((fault.code.as_str(), process.calls()), ("W0661", 2));
    let found = "key `small` has the limit of 1 USD a month, of which 0.9 are used, and 0.4";
    assert!(fault.message.starts_with(found), "{}", fault.message);
    let end = "wait until 2026-04-01T00:00:00+02:00, or raise the limit";
    assert!(fault.message.ends_with(end), "{}", fault.message);

    let meter = Arc::default();
    let unpriced = Process::with_model(&place, &clock, limits.clone(), Metered::new(&meter)).await;
    assert_eq!(unpriced.ask("u", caller("acme", "small")).await.as_deref(), Some("W0609"));
    assert_eq!(unpriced.calls(), 0);
    assert_eq!(unpriced.ask("u", caller("acme", "large")).await, None, "no limit of the cost");
    // What costs nothing passes no limit of the cost.
    let meter = Arc::default();
    let free = Metered { price: Some(Price::default()), ..Metered::new(&meter) };
    let free = Process::with_model(&place, &clock, limits, free).await;
    assert_eq!(free.ask("v", caller("acme", "small")).await, None);
}

fn unavailable() -> ModelError {
    ModelError::Provider {
        provider: "lab".to_owned(),
        status: 503,
        message: "busy".to_owned(),
        retry_after: None,
        kind: RefusalKind::Unavailable,
    }
}

async fn no_fallback_passes_a_limit(place: Place) {
    let clock = clock();
    let paid = Arc::default();
    let limits = of_key("usd_per_day", 500_000);
    let process = Process::with_model(&place, &clock, limits.clone(), priced(&paid)).await;
    assert_eq!(process.ask("t", caller("acme", "small")).await, None);
    // A model without cost fails, and its fallback has a price.
    let free = Arc::default();
    let model = Metered {
        price: Some(Price::default()),
        error: Some(unavailable()),
        fallback: Some(Arc::new(priced(&paid))),
        ..Metered::new(&free)
    };
    let process = Process::with_model(&place, &clock, limits.clone(), model).await;
    assert_eq!(process.ask("u", caller("acme", "small")).await.as_deref(), Some("W0661"));
    assert_eq!((process.calls(), paid.calls.load(Ordering::SeqCst)), (1, 1));
    // A model with a price is refused, and its fallback would cost nothing: the refusal is final.
    let spare = Metered { price: Some(Price::default()), ..Metered::new(&free) };
    let model = Metered { fallback: Some(Arc::new(spare)), ..priced(&paid) };
    let process = Process::with_model(&place, &clock, limits, model).await;
    assert_eq!(process.ask("v", caller("acme", "small")).await.as_deref(), Some("W0661"));
    assert_eq!((free.calls.load(Ordering::SeqCst), process.calls()), (1, 1));
}

async fn a_call_outside_of_runs_passes_no_limit(place: Place) {
    let clock = clock();
    let process = Process::open(&place, &clock, of_key("tokens_per_day", 1_000)).await;
    let ask = async |caller: &Caller| {
        let mut calls = CallContext::of_program(caller.clone(), Arc::new(clock.clone()));
        calls.ledger = process.runtime.ledger(&calls.principal, caller.clone());
        calls.budget = process.runtime.budget(&calls.principal, caller);
        let model = Metered::new(&process.meter);
        ModelCaller::default().call(&model, question(), &calls).await
    };
    let small = caller("acme", "small");
    ask(&small).await.expect("it fits");
    ask(&small).await.expect("it fits, whether or not the one before is in the bill");
    let refused = ask(&small).await.expect_err("the limit holds outside of runs");
    assert_eq!((refused.code().0, refused.attempts), ("W0661", 0));
    assert_eq!(process.ask("t", small.clone()).await.as_deref(), Some("W0661"), "and in them");
    assert_eq!(process.calls(), 2);
    ask(&caller("acme", "large")).await.expect("another key");
}

async fn an_account_is_limited_over_its_keys_and_a_limit_of_zero_refuses_all(place: Place) {
    let clock = clock();
    let limits = UsageLimits::default()
        .with(LimitOwner::Account, UsageLimits::ALL, rules("tokens_per_day", 1_000))
        .and_then(|limits| limits.with(LimitOwner::Account, "rich", rules("tokens_per_day", 5_000)))
        .and_then(|limits| limits.with(LimitOwner::Key, "shut", rules("tokens_per_month", 0)))
        .expect("limits");
    let process = Process::open(&place, &clock, limits).await;
    for (account, key, code) in [
        ("acme", "a", None),
        ("acme", "b", None),
        ("acme", "c", Some("W0661")),
        // Each account has the limit for all by itself.
        ("other", "a", None),
        ("rich", "a", None),
        ("rich", "b", None),
        ("rich", "c", None),
        ("new", "shut", Some("W0661")),
    ] {
        let found = process.ask("t", caller(account, key)).await;
        assert_eq!(found.as_deref(), code, "{account} {key}");
    }
}

async fn a_prompt_alone_may_be_too_long_for_a_limit(place: Place) {
    let clock = clock();
    let process = Process::open(&place, &clock, of_key("tokens_per_day", 300)).await;
    let caller = caller("acme", "small");
    let mut calls = CallContext::of_program(caller.clone(), Arc::new(clock.clone()));
    calls.budget = process.runtime.budget(&calls.principal, &caller);
    // Without a maximum of the answer, the prompt counts all the same.
    let request = ChatRequest { max_tokens: None, ..question() };
    let model = Metered::new(&process.meter);
    let refused = ModelCaller::default().call(&model, request, &calls).await;
    assert_eq!(refused.expect_err("350 tokens").code().0, "W0661");
    assert_eq!(process.calls(), 0);
}

on_three_stores![
    a_key_of_10000_tokens_a_day_is_held_over_two_processes,
    calls_at_once_of_one_process_never_pass_a_limit,
    a_minute_of_tokens_leaves_again,
    a_cost_is_limited_and_a_call_without_a_price_is_refused,
    no_fallback_passes_a_limit,
    a_call_outside_of_runs_passes_no_limit,
    an_account_is_limited_over_its_keys_and_a_limit_of_zero_refuses_all,
    a_prompt_alone_may_be_too_long_for_a_limit,
];
