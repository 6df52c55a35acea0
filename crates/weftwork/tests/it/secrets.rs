//! A secret argument is read by the tool and the policy, and is in no event, stream, question,
//! outcome or state, on any store.

use crate::redaction::{CANARY, all, events, has, said};
use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use weftwork::agents::ReactAgent;
use weftwork::graph::CompiledGraph;
use weftwork::graph::HistoryFilter;
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::runtime::{Runtime, Thread};
use weftwork::store::JournalRead;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{Policy, ToolBox, tool};
use weftwork::types::Principal;
use weftwork::types::event::Position;
use weftwork::types::run::RunRef;

/// Logs a user in.
#[tool]
fn log_in(user: String, #[arg(secret)] pin: String) -> Result<String, String> {
    match pin.as_str() {
        CANARY => Ok(format!("welcome, {user}")),
        other => Err(format!("{other} is wrong")),
    }
}

/// Pays an order.
#[tool(effect = external_side_effect)]
fn pay(order: String, #[arg(description = "Code of the card.", secret)] code: String) -> String {
    assert_eq!(code, CANARY);
    format!("paid {order}")
}

/// A scripted model that checks that tools have no marks.
#[derive(Debug)]
struct Plain(ScriptedModel);

impl ChatModel for Plain {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        assert!(!json!(request.tools).to_string().contains("x-secret"));
        let calls = request.messages.iter().flat_map(|message| message.tool_calls());
        calls.for_each(|call| assert!(has(&call.args) && call.shown.is_none(), "{call:?}"));
        self.0.stream(request)
    }
}

fn agent() -> CompiledGraph {
    let wrong = format!("{CANARY}-wrong");
    let steps = vec![
        Step::call("log_in", json!({"user": "A-1", "pin": CANARY})),
        Step::call("log_in", json!({"user": "A-1", "pin": wrong})),
        Step::call("log_in", json!({"user": "A-1", "pin": [CANARY], "pim": CANARY})),
        Step::call("log_on", json!({"user": "A-1", "pin": CANARY})),
        Step::call("pay", json!({"order": "A-1", "code": CANARY})),
        Step::text("Done."),
    ];
    let policy: Policy = serde_json::from_value(json!({"rules": [
        {"tool": "pay", "when": format!("args.code == '{CANARY}'"), "decision": "ask_human",
            "reason": "it moves money"},
    ]}))
    .expect("a policy");
    let model = Plain(ScriptedModel::from_steps(steps));
    let tools = ToolBox::new().with(log_in).with(pay);
    let agent = ReactAgent::new("desk", Arc::new(model)).tools(tools).policy(policy);
    agent.build().expect("a sound agent")
}

#[track_caller]
fn hides(value: &(impl Debug + ?Sized)) {
    let text = format!("{value:?}");
    assert!(text.contains("A-1") && !text.contains(CANARY), "{text}");
}

async fn streamed(run: weftwork::runtime::ThreadRun) -> RunRef {
    let (sender, mut sent) = unbounded_channel();
    let started = run.report_to(all(), sender).begin().await.expect("accepted");
    let run = started.run().clone();
    let mut items = Vec::new();
    while let Some(item) = sent.recv().await {
        assert!(!has(&item), "{item:?}");
        items.push(item);
    }
    hides(&items);
    let ended = started.await;
    hides(ended.outcome());
    run
}

async fn secret_arguments_are_hidden(place: Place) {
    let store = place.open();
    let runtime = Runtime::builder(Arc::clone(&store)).graph("test:desk", agent());
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("desk", "t").expect("an id");
    let first = streamed(thread.start(json!({"messages": [said("u1")]}))).await;
    is_hidden_in_state(&thread).await;

    let who = Principal::local();
    let questions = thread.questions().await.expect("reads");
    hides(&questions);
    let asked: Value = json!(questions[0].ask);
    assert_eq!(asked["args"], json!({"order": "A-1", "code": "[secret]"}));
    let rows = store.interrupts(&who, thread.id()).await.expect("reads");
    hides(&rows);
    let answer = json!({"approved": true, "binding": asked["binding"]});
    let second = streamed(thread.answer(answer)).await;
    is_hidden_in_state(&thread).await;
    let values = thread.state().await.expect("reads").values.to_string();
    for said in ["welcome, A-1", "[secret] is wrong", "paid A-1", "did you mean `log_in`"] {
        assert!(values.contains(said), "{said}: {values}");
    }

    let calls = JournalRead::calls(store.as_ref(), &who, thread.id()).await.expect("reads");
    assert!(has(&calls), "a recorded answer of the model is whole");
    hides(&calls.into_iter().map(|call| call.into_shown()).collect::<Vec<_>>());
    for run in [&first, &second] {
        hides(&events(runtime.follow_run(&who, run).await.expect("is there").into_handle()).await);
        hides(&store.events(&who, run, 0, 1_000).await.expect("reads"));
        assert!(!has(&store.pieces(&who, run, Position::START, 1_000).await.expect("reads")));
    }
    for table in ["log", "pieces", "interrupts"] {
        let Some(rows) = place.rows(table).await else { continue };
        assert!(!rows.contains(CANARY), "{table}: {rows}");
        assert!(table != "log" || rows.contains("A-1"), "{rows}");
    }
}

async fn is_hidden_in_state(thread: &Thread) {
    let filter = HistoryFilter::default();
    hides(&thread.state().await.expect("reads"));
    hides(&thread.history(&filter).await.expect("reads"));
    hides(&thread.view().with_subgraphs().state().await.expect("reads"));
    let whole = thread.clone().whole_state();
    assert!(has(&whole.state().await.expect("reads")));
}

on_three_stores![secret_arguments_are_hidden];
