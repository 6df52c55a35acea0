//! Calls of tools by nodes: ids, journal, approvals, refusals and events.

use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_agents::{Chat, ChatUpdate, ToolCallError, Tools};
use weftwork_graph::{
    Arg, BuildError, CompiledGraph, Ctx, Graph, Next, NodeError, NodeResult, Retry, START, SendTo,
    State,
};
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_tools::{Deps, Policy, ToolBox, ToolRunner, tool};
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::message::Message;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::ToolErrorKind;
use weftwork_types::{InterruptId, Principal, ThreadId};

/// The calls that reached their tools, with their ids.
#[derive(Debug, Default)]
struct Made(Mutex<Vec<(String, String)>>);

impl Made {
    fn add(&self, what: &str, context: &weftwork_tools::ToolContext) {
        let call = (what.to_owned(), context.tool_call_id.to_string());
        self.0.lock().expect("not poisoned").push(call);
    }

    fn all(&self) -> Vec<(String, String)> {
        self.0.lock().expect("not poisoned").clone()
    }
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Account {
    name: String,
    card: String,
}

/// Reads an account.
#[tool(shown(name))]
fn read_account(name: String, made: Deps<Made>, context: weftwork_tools::ToolContext) -> Account {
    made.add(&format!("read {name}"), &context);
    Account { name, card: "CANARY".to_owned() }
}

/// Pays an amount.
#[tool(effect = external_side_effect, on_unknown = idempotent)]
fn pay(amount: u32, made: Deps<Made>, context: weftwork_tools::ToolContext) -> String {
    made.add(&format!("pay {amount}"), &context);
    format!("paid {amount}")
}

/// Pays an amount if a person approves it.
#[tool(effect = external_side_effect, on_unknown = idempotent)]
fn pay_much(amount: u32, made: Deps<Made>, context: weftwork_tools::ToolContext) -> String {
    made.add(&format!("pay much {amount}"), &context);
    format!("paid {amount}")
}

/// Deletes everything; no rule allows it.
#[tool(effect = state_change)]
fn delete_all(made: Deps<Made>, context: weftwork_tools::ToolContext) -> String {
    made.add("delete", &context);
    "deleted".to_owned()
}

fn runner(made: &Arc<Made>) -> ToolRunner {
    let tools = ToolBox::new().with(read_account).with(pay).with(pay_much).with(delete_all);
    let tools = tools.with_ask_human().provide_shared(Arc::clone(made));
    let policy = Policy::new().allow("pay").expect("a name");
    let policy = policy.ask_human("pay_much", "it is much").expect("a name");
    ToolRunner::new(tools, policy).expect("valid tools")
}

#[derive(Debug, State)]
struct Log {
    #[channel(append)]
    lines: weftwork_graph::List<Value>,
}

/// A thread with the graph of a test.
struct Rig {
    store: Arc<dyn Store>,
    made: Arc<Made>,
    build: fn(ToolRunner) -> CompiledGraph,
}

impl Rig {
    fn new(build: fn(ToolRunner) -> CompiledGraph) -> Self {
        Self { store: Arc::new(MemoryStore::new()), made: Arc::default(), build }
    }

    /// Runs an input as a process of its own.
    async fn run(&self, input: RunInput) -> (Vec<RunEvent>, RunOutcome) {
        let runtime = Runtime::builder(Arc::clone(&self.store))
            .graph("test:calls", (self.build)(runner(&self.made)))
            .open()
            .await
            .expect("opens");
        let handle = runtime.execute(request(input)).await.expect("accepted");
        (handle.events.collect().await, handle.outcome.await)
    }

    async fn start(&self) -> (Vec<RunEvent>, RunOutcome) {
        self.run(start()).await
    }

    async fn answer(&self, id: InterruptId, value: Value) -> (Vec<RunEvent>, RunOutcome) {
        self.run(RunInput::answers(BTreeMap::from([(id, value)]))).await
    }
}

fn start() -> RunInput {
    RunInput::Start { input: json!({"lines": []}) }
}

fn request(input: RunInput) -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:calls".to_owned(),
        thread: ThreadId::new("t").expect("valid id"),
        input,
        options: RunOptions::default(),
    }
}

fn graph<M: 'static>(runner: ToolRunner, node: impl weftwork_graph::Handler<M>) -> CompiledGraph {
    let graph = Graph::<Log>::new("calls").with(runner).node("work", node).edge(START, "work");
    graph.build().expect("a sound graph")
}

fn lines(outcome: &RunOutcome) -> Vec<Value> {
    let RunOutcome::Completed { output } = outcome else { panic!("not completed: {outcome:?}") };
    output["lines"].as_array().expect("lines").clone()
}

fn open(outcome: &RunOutcome) -> InterruptId {
    let RunOutcome::Interrupted { interrupts, .. } = outcome else { panic!("{outcome:?}") };
    *interrupts.first().expect("a question")
}

/// Ids of start and result events, which alternate.
fn ids(events: &[RunEvent]) -> Vec<String> {
    let mut ids = Vec::new();
    let mut started: Vec<String> = Vec::new();
    for event in events {
        match &event.event {
            AiEvent::ToolCallStart { tool_call_id, .. } => started.push(tool_call_id.to_string()),
            AiEvent::ToolCallResult { tool_call_id, .. } => {
                let id = tool_call_id.to_string();
                assert!(started.contains(&id), "a result of {id} without its start");
                ids.push(id);
            }
            _ => {}
        }
    }
    assert_eq!(started.len(), ids.len());
    ids
}

fn is_uuid(id: &str) -> bool {
    let groups: Vec<usize> = id.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Pays twice, asks, and pays a third time.
async fn pay_and_ask(tools: Tools, ctx: Ctx) -> NodeResult<LogUpdate> {
    let mut lines = Vec::new();
    for amount in [5, 5] {
        lines.push(tools.call("pay", json!({"amount": amount})).await?.value);
    }
    lines.push(ctx.interrupt(json!("more?"))?);
    lines.push(tools.call("pay", json!({"amount": 7})).await?.value);
    Ok(LogUpdate::new().lines(lines))
}

#[tokio::test]
async fn a_node_that_runs_again_in_another_process_reuses_its_calls_under_their_ids() {
    let rig = Rig::new(|runner| graph(runner, pay_and_ask));
    let (events, outcome) = rig.start().await;
    let first = ids(&events);
    let (events, outcome) = rig.answer(open(&outcome), json!("yes")).await;
    assert_eq!(lines(&outcome), [json!("paid 5"), json!("paid 5"), json!("yes"), json!("paid 7")]);
    let again = ids(&events);
    let made = rig.made.all();
    let expected: Vec<(String, String)> = ["pay 5", "pay 5", "pay 7"]
        .iter()
        .zip(&again)
        .map(|(what, id)| ((*what).to_owned(), id.clone()))
        .collect();
    assert_eq!(made, expected, "each call was made once, under the id of its events");
    assert_eq!(first, again[..2]);
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), 3, "{again:?}");
    assert!(again.iter().all(|id| is_uuid(id)), "{again:?}");
}

static DIES: AtomicU32 = AtomicU32::new(0);

/// Pays, and fails at its first attempt after that.
async fn pay_and_fail(tools: Tools) -> NodeResult<LogUpdate> {
    let paid = tools.call("pay", json!({"amount": 3})).await?;
    match DIES.fetch_add(1, Ordering::SeqCst) {
        0 => Err(NodeError::message("not yet").retriable()),
        _ => Ok(LogUpdate::new().lines([paid.value])),
    }
}

#[tokio::test]
async fn a_node_that_is_tried_again_does_not_repeat_its_effect() {
    let rig = Rig::new(|runner| {
        let graph = Graph::<Log>::new("calls").with(runner).node("work", pay_and_fail);
        let graph = graph
            .retry("work", Retry::new(2).backoff(Duration::ZERO, 1.0).without_jitter())
            .edge(START, "work");
        graph.build().expect("a sound graph")
    });
    let (events, outcome) = rig.start().await;
    assert_eq!(lines(&outcome), [json!("paid 3")]);
    assert_eq!(rig.made.all().len(), 1);
    assert_eq!(ids(&events).iter().collect::<BTreeSet<_>>().len(), 1);
}

async fn pay_much_once(tools: Tools) -> NodeResult<LogUpdate> {
    let paid = tools.call("pay_much", json!({"amount": 900})).await?;
    let name = tools.call("ask_human", json!({"question": "For whom?"})).await?;
    Ok(LogUpdate::new().lines([paid.value, name.value]))
}

#[tokio::test]
async fn a_call_that_needs_a_person_interrupts_its_node() {
    let rig = Rig::new(|runner| graph(runner, pay_much_once));
    let (events, outcome) = rig.start().await;
    assert_eq!((rig.made.all().len(), ids(&events).len()), (0, 0));
    let RunOutcome::Interrupted { questions, .. } = &outcome else { panic!("{outcome:?}") };
    let binding = json!(questions)[0]["ask"]["binding"].clone();
    let approved = json!({"approved": true, "binding": binding});
    let (_, outcome) = rig.answer(open(&outcome), approved).await;
    assert_eq!(rig.made.all().len(), 1);
    let (events, outcome) = rig.answer(open(&outcome), json!("Ada")).await;
    assert_eq!(lines(&outcome), [json!("paid 900"), json!("Ada")]);
    assert_eq!((rig.made.all().len(), ids(&events).len()), (1, 2));
}

async fn pay_much_refused(tools: Tools) -> NodeResult<LogUpdate> {
    let mut lines = Vec::new();
    for (name, args) in [
        ("delete_all", json!({})),
        ("pay_much", json!({"amount": 1})),
        ("pay", json!({"amount": "x"})),
        ("no_such", json!({})),
    ] {
        match tools.call(name, args).await {
            Err(ToolCallError::Failed(failure)) => {
                lines.push(json!([failure.error_code, failure.code]));
            }
            other => lines.push(json!(other?)),
        }
    }
    Ok(LogUpdate::new().lines(lines))
}

#[tokio::test]
async fn refusals_are_typed_and_reach_no_tool() {
    let rig = Rig::new(|runner| graph(runner, pay_much_refused));
    let (_, outcome) = rig.start().await;
    let RunOutcome::Interrupted { questions, .. } = &outcome else { panic!("{outcome:?}") };
    let binding = json!(questions)[0]["ask"]["binding"].clone();
    let rejected = json!({"approved": false, "binding": binding});
    let (events, outcome) = rig.answer(open(&outcome), rejected).await;
    let expected = [
        json!([ToolErrorKind::PolicyDenied, "W0403"]),
        json!([ToolErrorKind::PolicyDenied, "W0404"]),
        json!([ToolErrorKind::Validation, "W0402"]),
        json!([ToolErrorKind::Unavailable, "W0401"]),
    ];
    assert_eq!(lines(&outcome), expected);
    assert_eq!((rig.made.all(), ids(&events).len()), (Vec::new(), 4));
}

async fn delete(tools: Tools) -> NodeResult<LogUpdate> {
    let deleted = tools.call("delete_all", json!({})).await?;
    Ok(LogUpdate::new().lines([deleted.value]))
}

#[tokio::test]
async fn a_refusal_that_a_node_passes_on_fails_it_with_its_code() {
    let rig = Rig::new(|runner| graph(runner, delete));
    let (_, outcome) = rig.start().await;
    let RunOutcome::Failed { fault } = outcome else { panic!("it fails: {outcome:?}") };
    assert_eq!(fault.code, "W0403", "{fault}");
    assert!(fault.message.contains("delete_all"), "{fault}");
}

/// Signals that the process of a test may be killed, once.
#[derive(Debug, Clone, Default)]
struct Kill {
    now: Arc<Notify>,
    attempts: Arc<AtomicU32>,
}

async fn pay_and_die(tools: Tools, kill: weftwork_graph::Deps<Kill>) -> NodeResult<LogUpdate> {
    let paid = tools.call("pay", json!({"amount": 9})).await?;
    if kill.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
        kill.now.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(LogUpdate::new().lines([paid.value, json!(paid.tool_call_id)]))
}

#[tokio::test]
async fn a_call_is_not_repeated_after_its_process_died() {
    let made = Arc::default();
    let kill = Kill::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let graph = Graph::<Log>::new("calls").with(runner(&made)).with(kill.clone());
    let graph = graph.node("work", pay_and_die).edge(START, "work").build().expect("sound");
    let mut process = tokio::runtime::Builder::new_multi_thread();
    let process = process.worker_threads(1).enable_all().build().expect("a runtime");
    let builder = Runtime::builder(Arc::clone(&store)).graph("test:calls", graph.clone());
    let begun = process.spawn(async move {
        let runtime = builder.open().await.expect("opens");
        let handle = runtime.execute(request(start())).await.expect("accepted");
        (handle.run.clone(), runtime)
    });
    let (run, runtime) = begun.await.expect("begins");
    kill.now.notified().await;
    let worker = runtime.worker().clone();
    let die = move || {
        drop(runtime);
        process.shutdown_timeout(Duration::from_secs(5));
    };
    tokio::task::spawn_blocking(die).await.expect("ends");
    store.retire(&worker).await.expect("it is dead");

    let other = Runtime::builder(store).graph("test:calls", graph).open().await.expect("opens");
    let handle = other.take_over(&Principal::local(), &run).await.expect("nobody has it");
    let events: Vec<_> = handle.events.collect().await;
    let id = ids(&events).remove(0);
    assert_eq!(lines(&handle.outcome.await), [json!("paid 9"), json!(id)]);
    assert_eq!(made.all(), [("pay 9".to_owned(), id)], "made once, by the process that died");
}

fn fan_out(_: State<Log>) -> Vec<Next> {
    (0..20).map(|amount| Next::from(SendTo::to("each", amount))).collect()
}

async fn pay_each(Arg(amount): Arg<u32>, tools: Tools) -> NodeResult<LogUpdate> {
    let args = json!({"amount": amount % 2});
    let a = tools.call("pay", args.clone());
    let b = tools.call("pay", args);
    // The later call runs first: an id belongs to the place of the call in the code.
    let later = b.await?;
    let first = a.await?;
    Ok(LogUpdate::new().lines([json!([first.tool_call_id, later.tool_call_id])]))
}

#[tokio::test]
async fn parallel_tasks_have_ids_of_their_own() {
    let build = |runner| {
        let graph = Graph::<Log>::new("calls").with(runner).node("each", pay_each);
        let graph = graph.route_to(START, ["each"], fan_out);
        graph.build().expect("a sound graph")
    };
    let rig = Rig::new(build);
    let (events, outcome) = rig.start().await;
    let pairs = lines(&outcome);
    let unique: BTreeSet<String> = ids(&events).into_iter().collect();
    assert_eq!((pairs.len(), unique.len(), rig.made.all().len()), (20, 40, 40));
    for id in pairs.iter().flat_map(|pair| pair.as_array().into_iter().flatten()) {
        assert!(unique.contains(id.as_str().expect("an id")));
    }
}

async fn tell(tools: Tools, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let found = tools.call("read_account", json!({"name": "ada"})).await?;
    assert_eq!(found.value["card"], json!("CANARY"), "the node reads the whole value");
    Ok(ChatUpdate::new().messages([Message::tool_result(ctx.message_id(), found)]))
}

#[tokio::test]
async fn a_result_in_a_message_shows_its_declared_members_alone() {
    let rig = Rig::new(|runner| {
        let graph = Graph::<Chat>::new("calls").with(runner).node("work", tell);
        graph.edge(START, "work").build().expect("a sound graph")
    });
    let (events, outcome) = rig.run(RunInput::Start { input: json!({"messages": []}) }).await;
    let shown = format!("{}{}", json!(events), json!(outcome));
    assert!(shown.contains("ada") && !shown.contains("CANARY"), "{shown}");
}

#[test]
fn a_graph_without_a_runner_does_not_build() {
    let graph = Graph::<Log>::new("calls").node("work", delete).edge(START, "work");
    let error: BuildError = graph.build().expect_err("no runner");
    let text = error.to_string();
    assert!(text.contains("ToolRunner") && text.contains("Graph::with"), "{text}");
}
