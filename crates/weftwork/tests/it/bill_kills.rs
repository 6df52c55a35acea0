//! The bill is the work: processes that call a counting provider are killed again and again, and each
//! attempt that the provider saw has one row, or the journal says that its call was possibly paid.

use crate::bills::model_at;
use crate::stores;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::models::{
    ChatModel, ChatRequest, ChatStream, ModelCaller, ModelError, ModelInfo, RetryPolicy,
};
use weftwork::prelude::*;
use weftwork::runtime::{LeaseConfig, Recovery};
use weftwork::store::{Period, Store, move_all_usage};
use weftwork::types::event::AiEvent;
use weftwork::types::port::Clock as _;
use weftwork::types::port::GraphExecutor as _;
use weftwork::types::run::{RunRef, RunStatus};
use weftwork::types::usage::UsageStatus;
use weftwork::types::{MessageId, Principal, ThreadId, Timestamp};
use weftwork_testkit::fuzz::Random;
use weftwork_testkit::{LoopbackServer, Received, Reply};

/// The address of the provider, in a process that is killed.
const PROVIDER: &str = "WEFT_TEST_BILL_PROVIDER";
/// The store: `sqlite:FOLDER` or `postgres:SCHEMA`.
const STORE: &str = "WEFT_TEST_BILL_STORE";
/// Number of runs.
const RUNS: &str = "WEFT_TEST_BILL_RUNS";
/// Time after its arrival in which a request counts as open at a kill: it is answered at once, and its
/// usage is on disk with the next commit.
const OPEN: Duration = Duration::from_millis(500);
/// Number of runs that a process starts at once.
const AT_ONCE: usize = 8;

#[derive(Debug, State)]
struct Job {
    number: u64,
    #[channel(append)]
    said: List<String>,
}

/// A model with a fallback.
#[derive(Debug)]
struct Pair {
    first: Arc<dyn ChatModel>,
    spare: Arc<dyn ChatModel>,
}

impl ChatModel for Pair {
    fn info(&self) -> &ModelInfo {
        self.first.info()
    }

    fn fallback(&self, _: &ModelError) -> Option<&dyn ChatModel> {
        Some(self.spare.as_ref())
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.first.stream(request)
    }
}

/// Calls the model twice, one call after the other.
async fn work(job: State<Job>, ctx: Ctx, model: Deps<Pair>) -> NodeResult<JobUpdate> {
    let number = job.number().copied().unwrap_or_default();
    let retry = RetryPolicy {
        attempts_max: 2,
        backoff_first: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    let mut said = Vec::new();
    for part in ["first", "second"] {
        let id = MessageId::new(part).expect("an id");
        let messages = vec![Message::text(id, Role::User, format!("run-{number}- {part}"))];
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let answer = ModelCaller::new(retry.clone()).call(&*model, request, ctx.calls()).await;
        said.push(
            answer.map_or_else(
                |error| error.code().0.to_owned(),
                |answer| answer.message.joined_text(),
            ),
        );
    }
    Ok(JobUpdate::new().said(said))
}

fn open(place: &str) -> Arc<dyn Store> {
    match place.split_once(':').expect("a kind of store") {
        ("sqlite", folder) => stores::sqlite(Path::new(folder)),
        (_, schema) => stores::postgres(schema),
    }
}

fn thread(number: u64) -> ThreadId {
    ThreadId::new(format!("t{number}")).expect("an id")
}

/// Returns `true` for a run that is cancelled once a part of its first answer has arrived.
fn is_cancelled(number: u64) -> bool {
    number % 10 == 3
}

/// Brings a run to its end, which another process may have begun.
async fn bring_to_end(runtime: &Runtime, number: u64) {
    let who = Principal::local();
    let id = thread(number);
    let known = runtime.store().runs(&who, &id).await.unwrap_or_default();
    let run = match known.first() {
        Some(run) => run.new.at.clone(),
        None => {
            let thread = runtime.thread("job", id.as_str()).expect("hosted");
            let started = thread.start(json!({"number": number})).begin().await.expect("starts");
            started.run().clone()
        }
    };
    let followed = runtime.follow_run(&who, &run).await.expect("exists").into_handle();
    let mut events = followed.events;
    while let Some(event) = events.next().await {
        if is_cancelled(number) && matches!(event.event, AiEvent::TextDelta { .. }) {
            // The run may have ended meanwhile.
            drop(runtime.cancel(&who, &run).await);
        }
    }
    followed.outcome.await;
}

/// A process that is killed. Without a store it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_works() {
    let Ok(place) = std::env::var(STORE) else { return };
    let url = std::env::var(PROVIDER).expect("a provider");
    let runs: u64 = std::env::var(RUNS).expect("a number").parse().expect("a number");
    let pair = Pair { first: model_at(&url, ""), spare: model_at(&url, "") };
    let graph = Graph::<Job>::new("job").version("1").with(pair).node("work", work);
    let graph = graph.edge(START, "work").build().expect("sound");
    let beat = Duration::from_millis(50);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    let builder = Runtime::builder(open(&place)).lease(lease).recovery(Recovery::Automatic);
    let runtime = builder.attempts_max(1_000).graph("job", graph).open().await.expect("opens");
    let all = futures_util::stream::iter(0..runs);
    all.for_each_concurrent(AT_ONCE, |number| bring_to_end(&runtime, number)).await;
    runtime.shutdown(Duration::from_secs(5)).await.expect("stops");
}

fn process(url: &str, place: &str, runs: u64) -> Child {
    let mut process = Command::new(std::env::current_exe().expect("the test"));
    process.args(["--exact", "bill_kills::a_process_that_works"]);
    process.env(PROVIDER, url).env(STORE, place).env(RUNS, runs.to_string());
    process.spawn().expect("starts")
}

/// A request that the provider saw.
#[derive(Debug, Clone)]
struct Request {
    /// Id of its answer.
    answer: String,
    at: Timestamp,
}

/// The requests of each run.
type Seen = Mutex<BTreeMap<u64, Vec<Request>>>;

/// Counts a request, and answers it by its number: with an answer, a refusal, or a part of an answer.
fn answer(number: usize, request: &Received, seen: &Seen) -> Reply {
    let body = String::from_utf8_lossy(&request.body);
    let (_, rest) = body.split_once("run-").expect("the number of the run");
    let run: u64 = rest.split('-').next().and_then(|n| n.parse().ok()).expect("a number");
    let id = format!("answer-{number}");
    seen.lock()
        .expect("not poisoned")
        .entry(run)
        .or_default()
        .push(Request { answer: id.clone(), at: SystemClock::new().now() });
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": id, "choices": [choice]}))
    };
    let head = || {
        let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
        head.piece(chunk(json!({"content": "word "}), None))
    };
    if is_cancelled(run) {
        return head().hang();
    }
    let mut random = Random::new((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.number();
    match random.below(10) {
        0 => Reply::full(429, &[("content-type", "application/json")], "{}"),
        1 => head(),
        _ => {
            let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
            let last = format!("data: {}\n\n", json!({"id": id, "choices": [], "usage": usage}));
            let end = head().piece(chunk(json!({}), Some("stop"))).piece(last);
            end.piece("data: [DONE]\n\n").end()
        }
    }
}

/// The figures of a test.
#[derive(Debug, Default)]
struct Figures {
    seen: usize,
    rows: usize,
    receipts: usize,
    unrecorded: usize,
    possibly_paid: usize,
    tokens: u64,
}

/// Returns how many processes took a run over from one that died.
async fn takeovers(store: &dyn Store, run: &RunRef) -> usize {
    let log = store.events(&Principal::local(), run, 0, 10_000).await.expect("reads");
    log.iter().filter(|stored| matches!(stored.event, AiEvent::TakenOver { .. })).count()
}

async fn check_run(store: &dyn Store, number: u64, seen: &[Request], figures: &mut Figures) {
    let who = Principal::local();
    let id = thread(number);
    let runs = store.runs(&who, &id).await.expect("reads");
    let [run] = &runs[..] else { panic!("one run, found {runs:?}") };
    let run = run.new.at.run.as_str();
    let rows = store.model_calls(&who, run).await.expect("reads");
    let rows: Vec<_> = rows.into_iter().filter(|row| row.fact.attempt > 0).collect();
    let calls = store.calls(&who, &id).await.expect("reads");
    let in_journal: u32 = calls.iter().map(|call| call.possibly_paid).sum();
    // A run that is cancelled after its process died is not executed again, so that only its log has
    // that a process died.
    let died = match runs[0].status {
        RunStatus::Cancelled => takeovers(store, &runs[0].new.at).await,
        _ => 0,
    };
    let possibly_paid = in_journal as usize + died;
    let mut ids = BTreeSet::new();
    for row in &rows {
        let answer = row.fact.provider_call_id.clone();
        assert!(row.fact.status != UsageStatus::Ok || answer.is_some(), "{row:?}");
        if let Some(answer) = answer {
            let is_seen = seen.iter().any(|request| request.answer == answer);
            assert!(is_seen, "run {number}: the provider did not see {answer}");
            assert!(ids.insert(answer), "run {number}: an answer has two rows: {rows:?}");
        }
    }
    let unrecorded = seen.len().saturating_sub(rows.len());
    assert!(
        unrecorded <= possibly_paid,
        "run {number}: {} requests, {} rows, {possibly_paid} possibly paid: {calls:?}",
        seen.len(),
        rows.len()
    );
    assert!(rows.len() <= seen.len(), "run {number}: {seen:?}, {rows:?}");
    let receipts = store.receipts(&who, run).await.expect("reads");
    let paid: Vec<_> = rows.iter().filter(|row| row.fact.is_paid()).collect();
    assert_eq!(receipts.len(), paid.len(), "run {number}: {rows:?}");
    let amount: u64 = receipts.iter().map(|receipt| receipt.amount).sum();
    assert_eq!(amount, paid.iter().map(|row| row.fact.tokens.total()).sum::<u64>());
    figures.seen += seen.len();
    figures.rows += rows.len();
    figures.receipts += receipts.len();
    figures.unrecorded += unrecorded;
    figures.possibly_paid += possibly_paid;
    figures.tokens += amount;
}

#[expect(clippy::print_stdout, reason = "the figures are a measurement")]
async fn the_bill_is_the_work(place: &str) {
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let (runs, kills) = if is_full { (1_000, 20) } else { (100, 10) };
    let seen: Arc<Seen> = Arc::default();
    let counted = Arc::clone(&seen);
    let server = LoopbackServer::start(move |number, request| answer(number, request, &counted));
    let server = server.await.expect("a server");
    let url = server.url("");
    let mut open_requests = 0;
    // Each process is killed after a share of the requests.
    for kill in 1..=kills {
        let mut child = process(&url, place, runs);
        let share = kill * runs as usize * 2 / (kills + 1);
        while server.received().len() < share {
            let ended = child.try_wait().expect("is asked");
            assert!(ended.is_none(), "a process ended before kill {kill}: {ended:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        let now = SystemClock::new().now();
        let seen = seen.lock().expect("not poisoned");
        // A run waits for one request at a time.
        let last = seen.values().filter_map(|requests| requests.last());
        open_requests += last.filter(|request| now.since(request.at) < OPEN).count();
    }
    let mut last = process(&url, place, runs);
    let ended = tokio::task::spawn_blocking(move || last.wait().expect("ends"));
    assert!(ended.await.expect("no panic").success());

    let store = open(place);
    move_all_usage(store.as_ref()).await.expect("moves");
    let seen = seen.lock().expect("not poisoned").clone();
    let mut figures = Figures::default();
    for number in 0..runs {
        let requests = seen.get(&number).cloned().unwrap_or_default();
        check_run(store.as_ref(), number, &requests, &mut figures).await;
    }
    let who = Principal::local();
    let totals = store.usage_totals(&who, Period::ALL).await.expect("reads");
    let sum = |of: fn(&weftwork::store::UsageSum) -> u64| -> u64 {
        totals.iter().map(|total| of(&total.sum)).sum()
    };
    assert_eq!(sum(|sum| sum.attempts), figures.rows as u64);
    assert_eq!(sum(|sum| sum.tokens.total()), figures.tokens);
    println!("{runs} runs, {kills} kills, {open_requests} requests open at the kills: {figures:?}");
    assert!(figures.unrecorded <= open_requests, "{figures:?}");

    for number in 0..runs {
        for row in store.usage_of_thread(&who, &thread(number)).await.expect("reads") {
            store.record_usage(&who, row).await.expect("records");
        }
    }
    move_all_usage(store.as_ref()).await.expect("moves");
    let again = store.usage_totals(&who, Period::ALL).await.expect("reads");
    assert_eq!(again, totals, "the same facts again change nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bill_in_a_file_is_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    the_bill_is_the_work(&format!("sqlite:{}", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bill_in_postgres_is_the_work() {
    the_bill_is_the_work(&format!("postgres:bill_kills_{}", std::process::id())).await;
}
