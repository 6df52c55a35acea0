//! Attempts of model calls that are cut: each one that the provider saw is in the ledger once, and
//! the journal says that it was possibly paid. Each has a row in the bill.

use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::graph::{CompiledGraph, Timeout};
use weftwork::models::ProviderOverride;
use weftwork::models::{
    ChatModel, ChatRequest, ModelCaller, ModelRegistry, ProviderTable, RetryPolicy,
};
use weftwork::prelude::*;
use weftwork::store::{Period, Store};
use weftwork::types::caller::Caller;
use weftwork::types::port::{CallContext, CallState, Clock as _, Egress, GraphExecutor as _};
use weftwork::types::run::{RunInput, RunOptions, RunRequest};
use weftwork::types::usage::{UsageFact, UsageStatus};
use weftwork::types::{MessageId, Principal, ThreadId};
use weftwork_testkit::fuzz::Random;
use weftwork_testkit::{LoopbackServer, ManualClock, Reply};

/// Runs of a test, each on a thread of its own.
const RUNS: u64 = 48;
const LIMIT: Duration = Duration::from_secs(30);

#[derive(State)]
struct Turn {
    /// Answers, or the codes of errors.
    #[channel(append)]
    log: List<String>,
}

/// The end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The run is cancelled.
    Cancel,
    /// The deadline of the run passes.
    Deadline,
    /// The time limit of the node passes.
    NodeLimit,
    /// The node stops waiting for the call.
    Abandon,
    /// The process stops, and puts the run back.
    Stop,
    /// The provider breaks the connection off.
    Disconnect,
    /// The provider gives a whole answer.
    Nothing,
}

const CUTS: [Cut; 7] = [
    Cut::Cancel,
    Cut::Deadline,
    Cut::NodeLimit,
    Cut::Abandon,
    Cut::Stop,
    Cut::Disconnect,
    Cut::Nothing,
];

/// A run of the test, drawn from a seed.
#[derive(Debug, Clone, Copy)]
struct Story {
    cut: Cut,
    /// Words of the answer before the cut; `None` if it comes before the head of the response.
    words: Option<usize>,
    /// The node has a thread of its own.
    parallel: bool,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.number();
        let cut = CUTS[(seed as usize) % CUTS.len()];
        let words = random.below(4).checked_sub(1);
        Self { cut, words, parallel: random.below(2) == 0 }
    }

    fn reply(self) -> Reply {
        let chunk = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
        };
        let reply = match self.words {
            None if self.cut != Cut::Nothing => Reply::nothing(),
            words => {
                let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
                let word = |reply: Reply, _| reply.piece(chunk(json!({"content": "word "}), None));
                (0..words.unwrap_or(1)).fold(head, word)
            }
        };
        match self.cut {
            Cut::Nothing => {
                reply.piece(chunk(json!({}), Some("stop"))).piece("data: [DONE]\n\n").end()
            }
            Cut::Disconnect => reply,
            _ => reply.hang(),
        }
    }
}

/// The model `lab:tiny` on a server, with further settings of its provider.
pub(crate) fn model(server: &LoopbackServer, settings: &str) -> Arc<dyn ChatModel> {
    model_at(&server.url(""), settings)
}

/// The model `lab:tiny` at an address.
pub(crate) fn model_at(url: &str, settings: &str) -> Arc<dyn ChatModel> {
    let config = format!("[lab]\nurl = \"{url}\"\n{settings}\n");
    let rows: BTreeMap<String, ProviderOverride> = toml::from_str(&config).expect("a table");
    let table = ProviderTable::load(&|_| None, &rows).expect("a table");
    let host = table.row("lab").expect("a row").host().parse().expect("a host");
    let egress = EgressConfig { allow: vec![host], ..EgressConfig::default() };
    let egress: Arc<dyn Egress> = Arc::new(GuardedClient::new(egress).expect("a client"));
    ModelRegistry::new(&table, &egress).resolve("lab:tiny").expect("a model")
}

/// A graph whose only node calls the model once.
fn graph(story: Story, model: Arc<dyn ChatModel>, abandoned: Arc<Semaphore>) -> CompiledGraph {
    let ask = async |ctx: Ctx, model: Deps<Arc<dyn ChatModel>>, abandoned: Deps<Arc<Semaphore>>| {
        let id = MessageId::new("m1").expect("an id");
        let messages = vec![Message::text(id, Role::User, "How much is it?")];
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let caller = ModelCaller::new(RetryPolicy::once());
        let said = tokio::select! {
            answer = caller.call(&**model, request, ctx.calls()) => match answer {
                Ok(answer) => answer.message.joined_text(),
                Err(error) => error.code().0.to_owned(),
            },
            _ = abandoned.acquire() => "abandoned".to_owned(),
        };
        NodeResult::Ok(TurnUpdate::new().log([said]))
    };
    let graph = Graph::<Turn>::new("bills").with(model).with(abandoned).node("ask", ask);
    let graph = graph.edge(START, "ask").timeout("ask", Timeout::run(LIMIT));
    let graph = if story.parallel { graph.parallel("ask") } else { graph };
    graph.build().expect("sound")
}

/// A store, and the clock that makes the ids in it.
struct Desk {
    store: Arc<dyn Store>,
    clock: ManualClock,
}

/// Runs a story to its end, and returns the number of requests that the provider saw.
async fn run(story: Story, at: &Desk, thread: &ThreadId) -> usize {
    let reply = story.reply();
    let server = LoopbackServer::start(move |_, _| reply.clone()).await.expect("a server");
    let abandoned = Arc::new(Semaphore::new(0));
    let graph = graph(story, model(&server, ""), Arc::clone(&abandoned));
    let Desk { store, clock } = at;
    let builder = Runtime::builder(Arc::clone(store)).clock(Arc::new(clock.clone()));
    let runtime = builder.graph("test:bills", graph).open().await.expect("opens");
    let deadline = (story.cut == Cut::Deadline).then(|| clock.now().plus(LIMIT / 2));
    let request = RunRequest {
        principal: Principal::local(),
        caller: Caller::local("request").expect("a caller"),
        graph: "test:bills".to_owned(),
        thread: thread.clone(),
        input: RunInput::Start { input: json!({}) },
        options: RunOptions { deadline, ..RunOptions::default() },
    };
    let handle = runtime.execute(request).await.expect("accepted");
    while server.received().is_empty() {
        tokio::task::yield_now().await;
    }
    match story.cut {
        Cut::Cancel => runtime.cancel(&Principal::local(), &handle.run).await.expect("is heard"),
        Cut::Deadline => clock.advance(LIMIT / 2),
        Cut::NodeLimit => clock.advance(LIMIT),
        Cut::Abandon => abandoned.add_permits(1),
        Cut::Stop => drop(runtime.shutdown(Duration::ZERO).await.expect("stops")),
        Cut::Disconnect | Cut::Nothing => {}
    }
    let outcome = handle.outcome.await;
    if story.cut == Cut::Nothing || story.cut == Cut::Abandon {
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{story:?}: {outcome:?}");
    }
    server.received().len()
}

/// Returns the facts of a thread, once there are as many as expected.
async fn facts(store: &dyn Store, thread: &ThreadId, expected: usize) -> Vec<UsageFact> {
    let who = Principal::local();
    let mut rows = Vec::new();
    // Attempts on other threads may end after their run, and those may wait for a busy processor.
    for _ in 0..10_000_000 {
        rows = store.usage_of_thread(&who, thread).await.expect("reads");
        if rows.len() >= expected {
            break;
        }
        tokio::task::yield_now().await;
    }
    rows.into_iter().map(|row| row.fact).collect()
}

async fn each_attempt_that_a_provider_saw_is_in_the_ledger(place: Place) {
    let desk = Desk { store: place.open(), clock: ManualClock::new() };
    let store = &desk.store;
    let mut seen = BTreeMap::new();
    let mut billed = BTreeMap::new();
    for seed in 0..RUNS {
        let story = Story::new(seed);
        let thread = ThreadId::new(format!("t{seed}")).expect("an id");
        let count = run(story, &desk, &thread).await;
        let facts = facts(store.as_ref(), &thread, count).await;
        *seen.entry(format!("{:?}", story.cut)).or_insert(0) += count;
        *billed.entry(format!("{:?}", story.cut)).or_insert(0) += facts.len();
        for fact in &facts {
            // An answer of no words is no success.
            let is_whole = story.cut == Cut::Nothing && story.words != Some(0);
            assert_eq!(fact.status == UsageStatus::Ok, is_whole, "{story:?}: {fact:?}");
            assert!(fact.tokens.estimated && fact.tokens.input > 0, "{story:?}: {fact:?}");
        }
        let calls = store.calls(&Principal::local(), &thread).await.expect("reads");
        let paid: u32 = calls
            .iter()
            .map(|call| u32::from(call.state == CallState::Settled) + call.possibly_paid)
            .sum();
        // A node on a thread of its own may end after the last commit of its run, which then has the
        // bill alone.
        let may_be_late = story.parallel && story.cut != Cut::Nothing && calls.is_empty();
        assert!(paid as usize == count || may_be_late, "{story:?}: {calls:?}");
    }
    assert_eq!(billed, seen);
    assert_eq!(seen.values().sum::<usize>() as u64, RUNS);
}

/// The replies to a call whose first attempt is throttled, and whose second one is cut.
fn reply_of_attempt(number: usize) -> Reply {
    let story = |cut| Story { cut, words: Some(1), parallel: false };
    match number {
        0 => Reply::full(429, &[("content-type", "application/json")], "{}"),
        1 => story(Cut::Disconnect).reply(),
        _ => story(Cut::Nothing).reply(),
    }
}

async fn each_attempt_of_a_call_has_a_row_and_each_paid_one_a_receipt(place: Place) {
    let server =
        LoopbackServer::start(|number, _| reply_of_attempt(number)).await.expect("a server");
    let asks = async |ctx: Ctx, model: Deps<Arc<dyn ChatModel>>| {
        let id = MessageId::new("m1").expect("an id");
        let messages = vec![Message::text(id, Role::User, "How much is it?")];
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let answer = ModelCaller::default().call(&**model, request, ctx.calls()).await?;
        NodeResult::Ok(TurnUpdate::new().log([answer.message.joined_text()]))
    };
    let graph = Graph::<Turn>::new("bills").version("7").with(model(&server, ""));
    let graph = graph.node("ask", asks).edge(START, "ask").build().expect("sound");
    let clock = ManualClock::new();
    let store = place.open();
    let builder = Runtime::builder(Arc::clone(&store)).clock(Arc::new(clock.clone()));
    let runtime = builder.graph("bills", graph).open().await.expect("opens");
    let mut run =
        Box::pin(runtime.thread("bills", "t").expect("hosted").start(json!({})).into_future());
    // Delays between attempts, and that of the writer of the bill, pass by the clock.
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut run => break ended.expect("runs"),
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(1)),
        }
    };
    assert_eq!(ended.output().expect("completed")["log"], json!(["word "]));
    let who = Principal::local();
    let id = ThreadId::new("t").expect("an id");
    let run = store.runs(&who, &id).await.expect("reads").remove(0).new.at.run;
    let mut rows = Vec::new();
    while rows.len() < 3 {
        clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
        rows = store.model_calls(&who, run.as_str()).await.expect("reads");
    }
    let found: Vec<_> = rows.iter().map(|row| (row.fact.attempt, row.fact.status)).collect();
    let failed = UsageStatus::Error;
    assert_eq!(found, [(1, failed), (2, failed), (3, UsageStatus::Ok)]);
    let graph = rows[0].caller.run().expect("a run");
    assert_eq!((graph.graph.as_str(), graph.graph_version.as_str()), ("app:bills", "7"));
    assert_eq!(rows[0].fact.first_token_ms, None, "a refusal has no part of an answer");
    assert!(rows[2].fact.first_token_ms.is_some());
    let receipts = store.receipts(&who, run.as_str()).await.expect("reads");
    let mut paid: Vec<_> = receipts.iter().map(|receipt| receipt.attempt.as_str()).collect();
    let mut expected: Vec<_> =
        rows[1..].iter().map(|row| row.fact.invocation_id.as_str()).collect();
    paid.sort_unstable();
    expected.sort_unstable();
    assert_eq!(paid, expected, "the throttled attempt used nothing");
    assert_eq!(server.received().len(), 3);
}

async fn a_title_that_a_program_makes_is_in_the_bill(place: Place) {
    let server = LoopbackServer::start(|_, _| reply_of_attempt(2)).await.expect("a server");
    let store = place.open();
    let clock = ManualClock::new();
    let builder = Runtime::builder(Arc::clone(&store)).clock(Arc::new(clock.clone()));
    let runtime = builder.open().await.expect("opens");
    let caller = Caller::local("request-7").expect("a caller");
    let mut calls = CallContext::of_program(caller.clone(), Arc::new(clock.clone()));
    calls.ledger = runtime.ledger(&calls.principal, caller.clone());
    let id = MessageId::new("m1").expect("an id");
    let messages = vec![Message::text(id, Role::User, "A title for this, please.")];
    let request = ChatRequest { messages, ..ChatRequest::default() };
    let model = model(&server, "");
    ModelCaller::default().call(model.as_ref(), request, &calls).await.expect("answers");
    let who = Principal::local();
    let mut totals = Vec::new();
    while totals.is_empty() {
        clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
        totals = store.usage_totals(&who, Period::ALL).await.expect("reads");
    }
    let [total] = &totals[..] else { panic!("one call, found {totals:?}") };
    assert_eq!((&total.group.agent, &total.group.version), (&None, &None));
    assert_eq!(total.group.account, caller.billing_account);
    assert_eq!(total.sum.attempts, 1);
}

on_three_stores![
    each_attempt_that_a_provider_saw_is_in_the_ledger,
    each_attempt_of_a_call_has_a_row_and_each_paid_one_a_receipt,
    a_title_that_a_program_makes_is_in_the_bill,
];
