//! A graph with something of everything, and the threads that are recorded of it.

use crate::support::{Bench, completed, failed, interrupted};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::channel::{Append, Ephemeral, LastValue, Messages, Reduce, Topic, Untracked};
use weftwork_graph::run_loop::{Host, Start};
use weftwork_graph::{
    ChannelDef, Command, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, Input, NodeError,
    NodeResult, RunOutcome, START, SendTo, SubgraphState,
};
use weftwork_runtime::StoreCheckpointer;
use weftwork_store::{
    BilledTo, Commit, Content, IfExists, Indexing, ItemRef, LimitWindow, Metadata, Namespace,
    NewRun, NewStart, NewThread, PutOptions, Sequence, StartCheck, StartCounts, StartUnit, Store,
    UsageRow, WorkerRow, move_all_usage, sequence,
};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::GraphCaller;
use weftwork_types::canonical::hash;
use weftwork_types::event::{Piece, PieceAt, PieceKind, Position};
use weftwork_types::port::{Attempts, CallKind, CallResult, Clock, Intent, Opened};
use weftwork_types::run::{RunInput, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, Principal, RunId, TaskId, Timestamp, WorkerId};

pub(super) const THREADS: [&str; 9] =
    ["answered", "asked", "failed", "forked", "large", "long", "open", "updated", "within"];

/// The length of a text that is kept apart.
pub(super) const LARGE: usize = 66_000;

fn channels() -> Vec<ChannelDef> {
    vec![
        ChannelDef::new("log", Append::<String>::new()),
        ChannelDef::new("text", LastValue::<String>::new()),
        ChannelDef::new("any", LastValue::<serde_json::Value>::new()),
        ChannelDef::new("sum", Reduce::<u64>::new(|| 0, u64::wrapping_add)),
        ChannelDef::new("topic", Topic::<u64>::new()),
        ChannelDef::new("brief", Ephemeral::<u64>::any()),
        ChannelDef::new("loose", Untracked::<u64>::new()),
        ChannelDef::new("messages", Messages),
    ]
}

fn message(text: &str) -> serde_json::Value {
    json!([{"id": format!("m-{text}"), "role": "user", "parts": [{"type": "text", "text": text}]}])
}

/// Writes something of everything and sends work; then what the text says is due.
async fn plan(input: Input) -> Command<Dynamic> {
    let count = input.0["log"].as_array().map_or(0, Vec::len);
    let update = DynUpdate::new()
        .write("log", json!([format!("plan {count}")]))
        .write("sum", json!(1))
        .write("topic", json!([1, 2]))
        .write("brief", json!(7))
        .write("loose", json!(8))
        .write("messages", message(&format!("plan-{count}")));
    let command = Command::update(update)
        .send(SendTo::to("work", json!({"i": 1})))
        .send(SendTo::to("work", json!({"i": 2})));
    match input.0["text"].as_str() {
        Some(to @ ("ask" | "within" | "fail")) => command.goto(to),
        _ => command,
    }
}

async fn work(input: Input, ctx: Ctx) -> NodeResult<DynUpdate> {
    let name = format!("work {}", input.0["i"]);
    let intent = Intent {
        kind: CallKind::Once,
        name: name.clone(),
        input: hash(&input.0),
        call_id: None,
        effect: Effect::ExternalSideEffect,
        attempts: Attempts::Shared,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        ctx.calls().journal.settle(key, CallResult { value: json!({"of": name}) }).await?;
    }
    Ok(DynUpdate::new().write("log", json!([name])).write("sum", input.0["i"].clone()))
}

async fn ask(_: Input, ctx: Ctx) -> NodeResult<DynUpdate> {
    let answer = ctx.interrupt(json!({"go": "on?"}))?;
    Ok(DynUpdate::new().write("any", answer))
}

async fn fail(_: Input) -> NodeResult<DynUpdate> {
    Err(NodeError::message("it broke"))
}

pub(super) fn graph() -> CompiledGraph {
    let say = async |_: Input| DynUpdate::new().write("log", json!(["within"]));
    let inner = Graph::dynamic("inner", channels()).node("say", say).node("ask", ask);
    let inner = inner.edge(START, "say").edge("say", "ask").build().expect("sound");
    Graph::dynamic("story", channels())
        .node("plan", plan)
        .node("work", work)
        .node("ask", ask)
        .node("fail", fail)
        .subgraph("within", inner, SubgraphState::PerThread)
        .ends("plan", ["work", "ask", "fail", "within"])
        .edge(START, "plan")
        .build()
        .expect("sound")
}

/// Plays what is recorded: the same bytes each time.
pub(super) async fn play(store: Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let bench = Bench::with_clock(Arc::clone(&store), graph(), clock.clone()).await;
    let run = async |thread: &str, input, at| {
        let mut request = Bench::request(input);
        request.thread = super::id(thread);
        request.options.at = at;
        bench.run(request).await.1
    };
    let start = |text: &str| {
        let input = json!({"log": ["in"], "text": text, "messages": message("in")});
        RunInput::Start { input }
    };
    for _ in 0..6 {
        completed(run("long", start("plain"), None).await);
    }
    interrupted(run("asked", start("ask"), None).await);
    let open = interrupted(run("answered", start("ask"), None).await);
    let answers = BTreeMap::from([(open[0], json!(["yes", null]))]);
    completed(run("answered", RunInput::answers(answers), None).await);
    interrupted(run("within", start("within"), None).await);
    failed(run("failed", start("fail"), None).await);
    completed(run("forked", start("plain"), None).await);
    let shelf =
        weftwork_store::CheckpointNamespace { thread: super::id("forked"), ns: String::new() };
    let page = store.page(&Principal::local(), &shelf, None, 9).await.expect("reads");
    completed(run("forked", RunInput::Continue, Some(page[1].id)).await);
    completed(run("updated", start("plain"), None).await);
    let writes = json!({"any": {"from": "outside"}});
    run("updated", RunInput::Update { writes, as_node: Some("work".to_owned()) }, None).await;
    completed(run("large", start(&"x".repeat(LARGE)), None).await);
    in_process(&store, Arc::clone(&clock)).await;
    let at = RunRef {
        thread: super::id("open"),
        run: RunId::from_uuid(uuid::Uuid::from_u128(clock.unique())),
    };
    let request = Bench::request(start("plain"));
    let new = NewRun {
        at,
        graph: request.graph,
        caller: request.caller,
        input: request.input,
        options: request.options,
        created_at: clock.now(),
    };
    let who = Principal::local();
    let caller = GraphCaller {
        caller: new.caller.clone(),
        run: new.at.run.clone(),
        graph: new.graph.clone(),
        graph_version: "1".to_owned(),
    };
    let at = new.at.clone();
    store.create_run(&who, new, BTreeMap::new()).await.expect("accepted");
    let row = UsageRow { caller: caller.into(), fact: fact() };
    store.record_usage(&who, row.clone()).await.expect("records");
    move_all_usage(store.as_ref()).await.expect("moves");
    let key = BilledTo::Key(row.caller.caller().virtual_key.clone());
    let check = StartCheck {
        subject: key,
        unit: StartUnit::Runs,
        window: LimitWindow::Day,
        from: Timestamp(0),
        limit: 9,
    };
    let counts = StartCounts { requests: 1, runs: 1 };
    let start = NewStart { at: Timestamp(1_000), counts, checks: vec![check] };
    assert_eq!(store.count_start(&start).await, Ok(None));
    // One that is not moved yet.
    let late = UsageFact { invocation_id: "late".parse().expect("an id"), ..row.fact };
    store.record_usage(&who, UsageRow { fact: late, ..row }).await.expect("records");
    // One that is gone for long, and was speaking.
    let renewed_at = Timestamp(1);
    let expires_at = Timestamp(2);
    let row = WorkerRow { id: WorkerId::new("w").expect("an id"), renewed_at, expires_at };
    let claim = store.claim(&who, &at, &row.id, clock.now()).await.expect("nobody has it").0;
    let pieces = vec![piece(PieceKind::Reasoning, 3, "hm "), piece(PieceKind::Text, 7, "half")];
    let said = Commit { pieces, at: clock.now(), ..Commit::default() };
    store.commit(&who, &claim, said).await.expect("commits");
    store.keep_alive(row).await.expect("registers");
    let users = Namespace::new(["users", "ann"]).expect("a namespace");
    let at = ItemRef::new(users, "drinks").expect("a key");
    let indexing = Indexing::Paths(vec!["likes".to_owned()]);
    let options = PutOptions { ttl: Some(Duration::from_hours(1)), indexing };
    let value = json!({"likes": ["tea", 1.5, null]});
    store.put_item(&who, &at, value, options, clock.now()).await.expect("puts");
    let metadata = Metadata::from_iter([("user".to_owned(), json!("ann"))]);
    let id = super::id("new");
    let created_at = clock.now();
    let if_exists = IfExists::Refuse;
    let new = NewThread { id, graph: None, metadata, created_at, if_exists };
    store.create_thread(&who, new).await.expect("creates");
    let content = Content::json(1, &json!({"to": "ann"})).expect("JSON");
    let writes = vec![sequence::SequenceWrite::append(Sequence::new("mailbox", "ann"), content)];
    store.write_sequences(&who, writes, clock.now()).await.expect("applies");
}

/// The thread of a run in this process, whose calls are kept with its tasks.
pub(super) const IN_PROCESS: &str = "in-process";

/// Runs a graph in this process that makes a call and stops at a question.
async fn in_process(store: &Arc<dyn Store>, clock: Arc<ManualClock>) {
    let saver = StoreCheckpointer::new(Arc::clone(store) as _, Principal::local());
    let host = Host::new().with_checkpointer(saver).with_clock(clock);
    let input = json!({"log": ["in"], "text": "ask"});
    let asked = graph().run(&host, Start::Input(input)).thread(IN_PROCESS).outcome().await;
    assert!(matches!(asked, Ok(RunOutcome::Interrupted { .. })), "{asked:?}");
}

fn piece(kind: PieceKind, bytes: u64, text: &str) -> Piece {
    let end = Position::in_text(0, bytes);
    let at = PieceAt::new(end, "plan", TaskId(7));
    Piece { at, told_at: Timestamp(0), kind, text: text.to_owned() }
}

fn fact() -> UsageFact {
    UsageFact {
        invocation_id: InvocationId::new("i").expect("an id"),
        attempt: 1,
        provider: "local".to_owned(),
        model: "small".to_owned(),
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::reported(7, 3),
        cost_micro_usd: Some(11),
        provider_call_id: None,
        prompt_hash: hash(&json!("prompt")),
        started_at: Timestamp(1),
        latency_ms: 5,
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd: None,
        first_token_ms: None,
    }
}
