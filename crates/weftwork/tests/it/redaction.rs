//! A member of a tool's result that is not shown is read by the model, and is in no event, stream,
//! outcome or state, on any store.

use crate::stores::{Place, on_three_stores};
use futures_util::{StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;
use weftwork::agents::{Chat, ReactAgent};
use weftwork::graph::{CompiledGraph, Modes, RunOutcome, RuntimeError, StreamEvent};
use weftwork::graph::{HistoryFilter, Host, InMemoryCheckpointer, Start, StreamItem};
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::runtime::{Frame, Runtime, Selection, Thread};
use weftwork::store::{JournalRead, Store};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{FnTool, ToolBox, ToolContext};
use weftwork::types::event::{Position, RunEvent};
use weftwork::types::port::RunHandle;
use weftwork::types::run::RunRef;
use weftwork::types::shown::StateForm;
use weftwork::types::{BoxStream, Principal};

pub(crate) const CANARY: &str = "CANARY-4111";

#[derive(Serialize, JsonSchema)]
struct Order {
    id: String,
    card: String,
}

/// A scripted model that counts the requests with the canary.
#[derive(Debug)]
struct Reader {
    model: ScriptedModel,
    read: Arc<AtomicU32>,
}

impl ChatModel for Reader {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        if json!(request.messages).to_string().contains(CANARY) {
            self.read.fetch_add(1, Ordering::SeqCst);
        }
        self.model.stream(request)
    }
}

/// State that the tests share with the agent.
#[derive(Debug)]
struct Shared {
    /// Number of requests with the canary.
    read: Arc<AtomicU32>,
    /// The tool returns only while there is a permit.
    gate: Arc<Semaphore>,
}

impl Shared {
    fn new() -> Self {
        Self { read: Arc::default(), gate: Arc::new(Semaphore::new(1)) }
    }

    fn reads(&self) -> u32 {
        self.read.load(Ordering::SeqCst)
    }
}

fn agent(shared: &Shared) -> CompiledGraph {
    let gate = Arc::clone(&shared.gate);
    let find = move |_: BTreeMap<String, String>, _: ToolContext| {
        let gate = Arc::clone(&gate);
        async move {
            let _permit = gate.acquire().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(Order { id: "A-1".to_owned(), card: CANARY.to_owned() })
        }
    };
    let find = FnTool::new("find_order", "Finds an order.", find).shown(["id"]);
    let call = || Step::call("find_order", json!({"order": "last"}));
    let said = || Step::text("It is on its way.");
    let steps = vec![call(), said(), call(), said(), said(), call(), said()];
    let model = Reader { model: ScriptedModel::from_steps(steps), read: Arc::clone(&shared.read) };
    let agent = ReactAgent::new("desk", Arc::new(model)).tools(ToolBox::new().with(find));
    agent.build().expect("a sound agent")
}

pub(crate) fn said(id: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": "Where is it?"}]})
}

pub(crate) fn all() -> Modes {
    let modes = ["values", "updates", "tasks", "checkpoints", "custom", "messages", "debug"];
    modes.iter().filter_map(|name| Modes::parse(name)).fold(Modes::NONE, |all, one| all | one)
}

pub(crate) fn has(value: &impl Debug) -> bool {
    format!("{value:?}").contains(CANARY)
}

#[track_caller]
fn hides(value: &(impl Debug + ?Sized)) {
    let text = format!("{value:?}");
    assert!(text.contains("A-1") && !text.contains(CANARY), "{text}");
}

async fn streamed(thread: &Thread, input: Value) -> (Vec<StreamItem>, RunRef) {
    let (sender, mut sent) = unbounded_channel();
    let started = thread.start(input).report_to(all(), sender).begin().await.expect("accepted");
    let mut items = Vec::new();
    let run = started.run().clone();
    while let Some(item) = sent.recv().await {
        items.push(item);
    }
    let ended = started.await;
    hides(ended.outcome());
    hides(&json!(ended.outcome()));
    (items, run)
}

pub(crate) async fn events(handle: RunHandle) -> Vec<RunEvent> {
    let events = handle.events.collect::<Vec<_>>().await;
    let outcome = handle.outcome.await;
    assert!(!has(&outcome), "{outcome:?}");
    events
}

async fn opened(store: &Arc<dyn Store>, shared: &Shared) -> (Runtime, Thread) {
    let runtime = Runtime::builder(Arc::clone(store)).graph("test:desk", agent(shared));
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("desk", "t").expect("an id");
    (runtime, thread)
}

/// Runs the agent in every way, and searches everything that clients receive for the canary.
async fn hidden_members_are_hidden(place: Place) {
    let store = place.open();
    let shared = Shared::new();
    let (runtime, thread) = opened(&store, &shared).await;
    let (items, first) = streamed(&thread, json!({"messages": [said("u1")]})).await;
    items.iter().for_each(|item| assert!(!has(item), "{item:?}"));
    hides(&items);
    assert_eq!(shared.reads(), 1, "the model reads what it is not shown");

    let whole = thread.clone().whole_state();
    let (items, _) = streamed(&whole, json!({"messages": [said("u2")]})).await;
    let is_values = |item: &&StreamItem| matches!(item.event, StreamEvent::Values { .. });
    let (values, others): (Vec<_>, Vec<_>) = items.iter().partition(is_values);
    assert!(has(&values), "the right to the whole state");
    hides(&others);

    // A client returns what it was shown.
    let mut messages = thread.state().await.expect("reads").values["messages"].clone();
    messages.as_array_mut().expect("messages").push(said("u3"));
    let before = shared.reads();
    let run =
        thread.start(json!({"messages": messages})).begin().await.expect("accepted").into_handle();
    let third = run.run.clone();
    events(run).await;
    assert_eq!(shared.reads(), before + 1, "nothing was deleted");

    is_hidden_in_state(&thread).await;
    let who = Principal::local();
    let calls = JournalRead::calls(store.as_ref(), &who, thread.id()).await.expect("reads");
    assert!(has(&calls), "a recorded result is whole");
    let calls: Vec<_> = calls.into_iter().map(|call| call.into_shown()).collect();
    hides(&calls);

    let (elsewhere, _) = opened(&store, &shared).await;
    for runtime in [&runtime, &elsewhere] {
        for run in [&first, &third] {
            let watched =
                events(runtime.follow_run(&who, run).await.expect("is there").into_handle());
            let watched = watched.await;
            assert!(!has(&watched) && !json!(watched).to_string().contains(CANARY));
            let after = watched[2].position().expect("a position");
            let rest = runtime.follow_run(&who, run).await.expect("is there");
            let rest = rest.after(after.into()).into_handle();
            assert!(!has(&events(rest).await));
        }
        let watched =
            events(runtime.follow_run(&who, &first).await.expect("is there").into_handle());
        hides(&watched.await);
    }
    let stored = store.events(&who, &first, 0, 1_000).await.expect("reads");
    hides(&stored);
    is_hidden_in_frames(&shared, [&runtime, &elsewhere], &thread).await;
    for table in ["log", "pieces"] {
        let Some(rows) = place.rows(table).await else { continue };
        assert!(!rows.contains(CANARY), "{table}: {rows}");
        assert_eq!(rows.contains("A-1"), table == "log", "{table}: {rows}");
    }
}

type Frames = BoxStream<'static, Result<Arc<Frame>, RuntimeError>>;

async fn frames(runtime: &Runtime, run: &RunRef, after: Position, form: StateForm) -> Frames {
    let select = Selection { form, ..Selection::frames(all()).with_subgraphs() };
    let output = runtime.follow(&Principal::local(), run, after, select).await.expect("is there");
    output.try_filter_map(async |output| Ok(output.into_frame())).boxed()
}

async fn rest(frames: Frames) -> Vec<Arc<Frame>> {
    frames.try_collect().await.expect("reads")
}

/// Checks that the canary is in no frame; with the right to the whole state, in `values` alone.
#[track_caller]
fn shows_by_right(frames: &[Arc<Frame>], form: StateForm) {
    assert!(frames.iter().all(|frame| frame.item().is_some()), "none is dropped: {frames:?}");
    let is_values = |frame: &&Arc<Frame>| {
        frame.item().is_some_and(|item| matches!(item.event, StreamEvent::Values { .. }))
    };
    let (values, others): (Vec<_>, Vec<_>) = frames.iter().partition(is_values);
    assert_eq!(has(&values), form == StateForm::Whole, "{values:?}");
    hides(&others);
}

/// Follows a run in all modes: from two processes while it is executed, after its end, and after
/// each position.
async fn is_hidden_in_frames(shared: &Shared, runtimes: [&Runtime; 2], thread: &Thread) {
    let before = shared.reads();
    let held = shared.gate.acquire().await.expect("open");
    let input = json!({"messages": [said("u4")]});
    let handle = thread.start(input).begin().await.expect("accepted").into_handle();
    let run = handle.run.clone();
    let forms = [StateForm::Shown, StateForm::Whole];
    let mut live = Vec::new();
    for (runtime, form) in runtimes.into_iter().flat_map(|one| forms.map(|form| (one, form))) {
        let mut stream = frames(runtime, &run, Position::START, form).await;
        let first = stream.next().await.expect("goes on").expect("reads");
        live.push((form, first, stream));
    }
    drop(held);
    let mut seen = Vec::new();
    for (form, first, stream) in live {
        let mut found = vec![first];
        found.extend(rest(stream).await);
        shows_by_right(&found, form);
        seen.push(found);
    }
    events(handle).await;
    assert!(shared.reads() > before, "the model reads what it is not shown");
    for (runtime, form) in runtimes.into_iter().flat_map(|one| forms.map(|form| (one, form))) {
        let found = rest(frames(runtime, &run, Position::START, form).await).await;
        shows_by_right(&found, form);
    }
    for at in &seen[0] {
        let found = rest(frames(runtimes[1], &run, at.position, StateForm::Shown).await).await;
        assert!(found.iter().all(|frame| frame.position > at.position));
        assert!(!has(&found), "{found:?}");
    }
}

async fn is_hidden_in_state(thread: &Thread) {
    let whole = thread.clone().whole_state();
    let filter = HistoryFilter::default();
    hides(&thread.state().await.expect("reads"));
    hides(&thread.history(&filter).await.expect("reads"));
    hides(&thread.view().with_subgraphs().state().await.expect("reads"));
    hides(&thread.view().history(&filter).await.expect("reads"));
    hides(&thread.read::<Chat>().await.expect("reads").messages());
    assert!(has(&whole.state().await.expect("reads")));
    assert!(has(&whole.history(&filter).await.expect("reads")));
    assert!(has(&whole.view().state().await.expect("reads")));
    assert!(has(&whole.read::<Chat>().await.expect("reads").messages()));
}

#[tokio::test]
async fn hidden_members_are_hidden_in_a_program() {
    let shared = Shared::new();
    let graph = agent(&shared);
    let host = Host::new().with_checkpointer(InMemoryCheckpointer::new());
    let run =
        |id: &str| graph.run(&host, Start::from(json!({"messages": [said(id)]}))).modes(all());
    for (id, form) in [("u1", "shown"), ("u2", "whole")] {
        let run = run(id).thread("t");
        let run = if form == "whole" { run.whole_state() } else { run };
        let mut stream = run.stream();
        let mut values = Vec::new();
        let mut others = Vec::new();
        while let Some(item) = stream.next().await {
            let is_values = matches!(item.event, StreamEvent::Values { .. });
            if is_values { values.push(item) } else { others.push(item) }
        }
        hides(&others);
        assert_eq!(has(&values), form == "whole");
        let Some(Ok(RunOutcome::Completed { output })) = stream.outcome() else {
            panic!("it ends")
        };
        assert_eq!(has(output), form == "whole");
    }
    assert_eq!(shared.reads(), 3);
}

on_three_stores![hidden_members_are_hidden];
