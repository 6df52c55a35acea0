//! Generated calls of a model through the stream of hosted runs: each has one start and one result
//! with its id, and no event, outcome, stored event or trace has a hidden value.

use crate::stores::Place;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork::agents::ReactAgent;
use weftwork::graph::{CompiledGraph, SystemClock};
use weftwork::runtime::Runtime;
use weftwork::store::approval::ApprovalQuery;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{FnTool, Policy, ToolBox, ToolContext, ToolError, tool};
use weftwork::types::caller::Caller;
use weftwork::types::event::{AiEvent, RunEvent};
use weftwork::types::message::Message;
use weftwork::types::port::{Clock, GraphExecutor, RunHandle};
use weftwork::types::run::{CancelAction, RunInput, RunOptions, RunOutcome, RunRef, RunRequest};
use weftwork::types::{BoxFuture, InterruptId, Principal, ThreadId, Timestamp};
use weftwork_testkit::fuzz::Random;

/// A value that only tools and the model may read.
const CANARY: &str = "CANARY-4711";
const RUNS: u64 = 45;
const CALLS: usize = 45;
const CANCELLED_RUNS: u64 = 5;
const RUNS_ON_DISK: u64 = 12;

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Account {
    id: u32,
    card: String,
}

/// Returns an account.
#[tool(shown(id))]
fn account(id: u32) -> Account {
    Account { id, card: CANARY.to_owned() }
}

/// Takes a secret.
#[tool]
fn log_in(id: u32, #[arg(secret)] pin: String) -> Result<u32, ToolError> {
    assert_eq!(pin, CANARY);
    if id.is_multiple_of(2) { Ok(id) } else { Err(ToolError::failed(format!("{pin} is wrong"))) }
}

/// Panics with a secret.
#[tool]
fn panics(id: u32, #[arg(secret)] pin: String) -> u32 {
    panic!("{id}: {pin}")
}

/// Takes too long.
#[tool(timeout_ms = 5000)]
async fn hangs(id: u32) -> u32 {
    pending::<()>().await;
    id
}

/// Takes longer than any run.
#[tool(timeout_ms = 86_400_000)]
async fn never(id: u32) -> u32 {
    pending::<()>().await;
    id
}

/// Changes something; no rule allows it.
#[tool(effect = state_change)]
fn denied(id: u32) -> u32 {
    id
}

/// Changes something if a person approves.
#[tool(effect = state_change)]
fn asked(id: u32, #[arg(secret)] pin: String) -> u32 {
    assert_eq!(pin, CANARY);
    id
}

/// Changes something if a person approves within a minute, which nobody does.
#[tool(effect = state_change)]
fn lapses(id: u32, #[arg(secret)] pin: String) -> u32 {
    panic!("{id} was called with {pin}")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Id {
    id: u32,
}

fn tools() -> ToolBox {
    let any = |args: Id, _: ToolContext| async move {
        Ok::<_, String>(json!({"id": args.id, "card": CANARY}))
    };
    let breaks = |_: Id, _: ToolContext| async move {
        Ok::<_, String>(Account { id: 1, card: CANARY.to_owned() })
    };
    let large = |args: Id, _: ToolContext| async move {
        Ok::<_, String>(format!("{}{CANARY}", "x".repeat(300_000 + args.id as usize % 7)))
    };
    ToolBox::new()
        .with(account)
        .with(log_in)
        .with(panics)
        .with(hangs)
        .with(never)
        .with(denied)
        .with(asked)
        .with(lapses)
        .with(FnTool::new("unshown", "Shows nothing.", any))
        .with(FnTool::new("fails", "Hides its card.", breaks).shown(["id"]))
        .with(FnTool::new("large", "Returns much.", large).shown(Vec::<String>::new()))
}

/// A call as a model may make it, and whether its result is an error.
fn generated(random: &mut Random, id: usize) -> (String, Value, bool) {
    let with_pin = json!({"id": id, "pin": CANARY});
    let (name, args, is_error) = match random.below(13) {
        0 => ("account", json!({"id": id}), false),
        1 => ("log_in", with_pin, id % 2 == 1),
        2 => ("panics", with_pin, true),
        3 => ("hangs", json!({"id": id}), true),
        4 => ("denied", json!({"id": id}), true),
        5 => ("asked", with_pin, id % 2 == 1),
        6 => ("unshown", json!({"id": id}), true),
        7 => ("fails", json!({"id": id}), false),
        8 => ("account", json!({"id": "x", "surplus": [id]}), true),
        9 => ("log_in", json!({"id": id, "pin": [CANARY], "pim": CANARY}), true),
        10 => ("no_such_tool", json!({"id": id}), true),
        11 => ("lapses", with_pin, true),
        _ => ("account", json!([id]), true),
    };
    (name.to_owned(), args, is_error)
}

fn agent(calls: Vec<(String, Value)>) -> CompiledGraph {
    let model = ScriptedModel::from_steps(vec![Step::calls(calls), Step::text("Done.")]);
    let reason = "it changes something";
    let policy: Policy = serde_json::from_value(json!({"rules": [
        {"tool": "asked", "decision": "ask_human", "reason": reason},
        {"tool": "lapses", "decision": "ask_human", "reason": reason, "expires_after_s": 60},
    ]}))
    .expect("a policy");
    let agent = ReactAgent::new("desk", Arc::new(model)).tools(tools()).policy(policy);
    agent.build().expect("a sound agent")
}

/// The clock of the machine, which the test can put forward.
#[derive(Debug, Clone)]
struct Ahead(SystemClock, Arc<AtomicU64>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.0.now().plus(Duration::from_secs(self.1.load(Ordering::SeqCst)))
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    fn unique(&self) -> u128 {
        self.0.unique()
    }
}

/// A thread of its own for a list of calls.
struct Rig {
    store: Arc<dyn Store>,
    clock: Ahead,
    runtime: Runtime,
    runs: Vec<RunRef>,
    events: Vec<RunEvent>,
}

impl Rig {
    async fn new(store: Arc<dyn Store>, calls: Vec<(String, Value)>) -> Self {
        let clock = Ahead(SystemClock::new(), Arc::default());
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:desk", agent(calls));
        let runtime = builder.clock(Arc::new(clock.clone())).open().await.expect("opens");
        Self { store, clock, runtime, runs: Vec::new(), events: Vec::new() }
    }

    async fn run(&mut self, input: RunInput) -> RunOutcome {
        let handle = self.runtime.execute(request(input, None)).await.expect("accepted");
        self.ended(handle).await
    }

    async fn ended(&mut self, handle: RunHandle) -> RunOutcome {
        self.runs.push(handle.run.clone());
        self.events.extend(handle.events.collect::<Vec<_>>().await);
        handle.outcome.await
    }

    /// Answers the calls that are to be answered, and lets the time of the others pass.
    async fn answered(&mut self, mut outcome: RunOutcome) -> RunOutcome {
        if let Some(answers) = answers(&outcome) {
            outcome = self.run(answers).await;
            hides(&outcome);
        }
        if matches!(outcome, RunOutcome::Interrupted { .. }) {
            self.clock.1.fetch_add(60, Ordering::SeqCst);
            for handle in self.runtime.wake().await.expect("wakes") {
                outcome = self.ended(handle).await;
            }
        }
        outcome
    }

    /// Checks that each start has one result with its id, and returns the errors by id.
    fn results(&self) -> BTreeMap<String, bool> {
        let mut open = BTreeSet::new();
        let mut results = BTreeMap::new();
        for event in &self.events {
            match &event.event {
                AiEvent::ToolCallStart { tool_call_id, .. } => {
                    let id = tool_call_id.to_string();
                    assert!(!results.contains_key(&id), "{id} started again");
                    assert!(open.insert(id), "{tool_call_id} started twice");
                }
                AiEvent::ToolCallResult { tool_call_id, is_error, .. } => {
                    let id = tool_call_id.to_string();
                    assert!(open.remove(&id), "{id} has a result without a start");
                    assert_eq!(results.insert(id, *is_error), None);
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "without a result: {open:?}");
        results
    }

    /// All that others than tools and the model read of these runs: live and stored events.
    async fn seen(&self) -> String {
        let mut seen = json!(self.events).to_string();
        let query = ApprovalQuery { thread: None, after: None, limit: 1_000 };
        let records = self.runtime.threads().approvals(query).await.expect("reads");
        seen.push_str(&json!(records.rows).to_string());
        for run in &self.runs {
            let who = Principal::local();
            for event in self.store.events(&who, run, 0, 10_000).await.expect("reads") {
                seen.push_str(&json!(event.event).to_string());
            }
        }
        seen
    }
}

fn request(input: RunInput, options: Option<RunOptions>) -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:desk".to_owned(),
        thread: ThreadId::new("t").expect("valid id"),
        input,
        options: options.unwrap_or_default(),
    }
}

fn said() -> RunInput {
    RunInput::Start { input: json!({"messages": [crate::redaction::said("u1")]}) }
}

/// The answers to the open approvals that are to be answered: those of even accounts are approved.
fn answers(outcome: &RunOutcome) -> Option<RunInput> {
    let RunOutcome::Interrupted { questions, .. } = outcome else { panic!("{outcome:?}") };
    let answer = |question: &Value| {
        let ask = &question["ask"];
        let approved = ask["args"]["id"].as_u64().expect("an id").is_multiple_of(2);
        let id: InterruptId = serde_json::from_value(question["id"].clone()).expect("an id");
        (id, json!({"approved": approved, "binding": ask["binding"]}))
    };
    let questions = json!(questions);
    let questions = questions.as_array().expect("questions").iter();
    let open = questions.filter(|question| question["ask"]["tool"] == "asked");
    let answers: BTreeMap<_, _> = open.map(answer).collect();
    (!answers.is_empty()).then(|| RunInput::answers(answers))
}

fn calls_of(outcome: &RunOutcome) -> Vec<String> {
    let RunOutcome::Completed { output } = outcome else { panic!("{outcome:?}") };
    let messages: Vec<Message> =
        serde_json::from_value(output["messages"].clone()).expect("messages");
    let calls = messages.iter().flat_map(|message| message.tool_calls());
    calls.map(|call| call.id.to_string()).collect()
}

#[track_caller]
fn hides(seen: &(impl Debug + ?Sized)) {
    let text = format!("{seen:?}");
    if let Some(at) = text.find(CANARY) {
        let from = text.floor_char_boundary(at.saturating_sub(200));
        panic!("a hidden value: {}", &text[from..at + CANARY.len()]);
    }
}

/// Makes generated calls and checks what is seen of them; returns their number.
async fn generated_calls(store: Arc<dyn Store>, seed: u64) -> usize {
    let random = &mut Random::new(seed);
    let mut wanted: Vec<_> = (0..CALLS).map(|id| generated(random, id)).collect();
    if seed.is_multiple_of(9) {
        wanted.push(("large".to_owned(), json!({"id": seed}), false));
    }
    let list = wanted.iter().map(|(name, args, _)| (name.clone(), args.clone())).collect();
    let mut rig = Rig::new(store, list).await;
    let mut outcome = rig.run(said()).await;
    hides(&outcome);
    if matches!(outcome, RunOutcome::Interrupted { .. }) {
        outcome = rig.answered(outcome).await;
    }
    hides(&outcome);
    let results = rig.results();
    let ids = calls_of(&outcome);
    assert_eq!((ids.len(), results.len()), (wanted.len(), wanted.len()), "seed {seed}");
    for (id, (name, args, is_error)) in ids.iter().zip(&wanted) {
        assert_eq!(results.get(id), Some(is_error), "seed {seed}: {name} {args}");
    }
    let seen = rig.seen().await;
    assert!(seen.contains("tool_call_result"), "{seen}");
    hides(&seen);
    let lapsed = wanted.iter().filter(|(name, ..)| name == "lapses").count();
    assert_eq!(seen.matches(r#""lapsed":true"#).count(), lapsed, "seed {seed}");
    wanted.len()
}

/// Time goes by only while nothing can go on.
#[tokio::test(start_paused = true)]
async fn generated_calls_have_one_start_and_one_result_and_hide_their_secrets() {
    let traces = Traces::install();
    let mut calls = 0;
    for seed in 0..RUNS {
        calls += generated_calls(Arc::new(MemoryStore::new()), seed).await;
    }
    for seed in 0..CANCELLED_RUNS {
        calls += interrupted_calls(seed).await;
    }
    assert!(calls >= 2_000, "{calls} calls");
    hides(&*traces.0.lock().unwrap_or_else(PoisonError::into_inner));
    let traced = traces.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(traced.contains("a tool panicked"), "traces are read");
}

/// Recorded calls and checkpoints are whole; all other rows hide what only the model reads.
#[tokio::test(start_paused = true)]
async fn generated_calls_hide_their_secrets_in_rows_of_sqlite() {
    let mut effects = String::new();
    for seed in 0..RUNS_ON_DISK {
        let place = Place::sqlite("");
        generated_calls(place.open(), seed).await;
        for table in ["log", "pieces", "interrupts", "runs"] {
            hides(&place.rows(table).await);
        }
        effects.push_str(&place.rows("effects").await.expect("rows"));
    }
    assert!(effects.contains("lapsed"), "{effects}");
}

/// Makes calls that never end: the run is cancelled, or reaches its deadline.
async fn interrupted_calls(seed: u64) -> usize {
    let calls: Vec<_> = (0..CALLS).map(|id| ("never".to_owned(), json!({"id": id}))).collect();
    let mut rig = Rig::new(Arc::new(MemoryStore::new()), calls).await;
    let deadline =
        seed.is_multiple_of(2).then(|| rig.runtime.clock().now().plus(Duration::from_secs(60)));
    let options = RunOptions { deadline, ..RunOptions::default() };
    let request = request(said(), Some(options));
    let mut handle = rig.runtime.execute(request).await.expect("accepted");
    rig.runs.push(handle.run.clone());
    let mut started = 0;
    while let Some(event) = handle.events.next().await {
        started += usize::from(matches!(event.event, AiEvent::ToolCallStart { .. }));
        rig.events.push(event);
        if started == CALLS && deadline.is_none() {
            started += 1;
            let who = Principal::local();
            let cancelled = rig.runtime.cancel_run(&who, &handle.run, CancelAction::Interrupt);
            cancelled.await.expect("it is active");
        }
    }
    let outcome = handle.outcome.await;
    assert!(!matches!(outcome, RunOutcome::Completed { .. }) || deadline.is_some(), "{outcome:?}");
    let results = rig.results();
    assert_eq!(results.len(), CALLS, "seed {seed}: {outcome:?}");
    assert!(results.values().all(|is_error| *is_error));
    results.len()
}

/// All that the program traces, as text.
#[derive(Clone, Default)]
struct Traces(Arc<Mutex<String>>);

impl Traces {
    fn install() -> Self {
        let traces = Self::default();
        tracing::subscriber::set_global_default(traces.clone()).expect("the only subscriber");
        traces
    }

    fn add(&self, text: &dyn Debug) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_str(&format!("{text:?}\n"));
    }
}

impl tracing::Subscriber for Traces {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.add(span);
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        self.add(values);
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.add(event);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
