//! A message with a question of the model, an approval, and calls whose tools ask or run, answered
//! one by one from other processes, on any store.

use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weftwork::agents::ReactAgent;
use weftwork::graph::{CompiledGraph, RunOutcome};
use weftwork::runtime::{Runtime, Thread};
use weftwork::store::{Store, open_questions};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{
    FnTool, Policy, Questions, ToolBox, ToolContext, ToolError, ToolOutput, question,
};
use weftwork::types::interrupt::Ask;
use weftwork::types::tool::Effect;
use weftwork::types::{Principal, ThreadId};

/// Executions of tools, as their side counts them: tool, round and idempotency key.
type World = Arc<Mutex<Vec<(&'static str, u32, String)>>>;
type Args = BTreeMap<String, String>;

fn agent(model: &Arc<ScriptedModel>, world: &World) -> CompiledGraph {
    let executed = |world: &World, tool, context: &ToolContext| {
        let round = context.replies.as_ref().map_or(0, |replies| replies.round);
        let key = context.idempotency_key.clone();
        world.lock().expect("not poisoned").push((tool, round, key));
    };
    let to = Arc::clone(world);
    let pay = move |_: Args, context: ToolContext| {
        executed(&to, "pay", &context);
        async { Ok::<_, ToolError>("paid") }
    };
    let to = Arc::clone(world);
    let book = move |args: Args, context: ToolContext| {
        executed(&to, "book", &context);
        async move {
            let Some(replies) = context.replies else {
                let ask = question::<u32>(format!("How many on {}?", args["day"]));
                return Ok::<_, ToolError>(Questions::new([ask]).state(json!(args)).into());
            };
            let args = replies.state::<Args>()?;
            let guests = replies.content::<u32>(0)?;
            Ok(ToolOutput::Value(format!("{} for {guests:?}", args["day"])))
        }
    };
    let to = Arc::clone(world);
    let note = move |_: Args, context: ToolContext| {
        executed(&to, "note", &context);
        async { Ok::<_, ToolError>("noted") }
    };
    let effect = Effect::ExternalSideEffect;
    let tools = ToolBox::new()
        .with(FnTool::new("pay", "Pays.", pay).effect(effect))
        .with(FnTool::new("book", "Books a table.", book).effect(effect))
        .with(FnTool::new("note", "Notes.", note).effect(effect))
        .with_ask_human();
    let policy: Policy = serde_json::from_value(json!({"rules": [
        {"tool": "pay", "decision": "ask_human", "reason": "it pays"},
        {"tool": "*", "decision": "allow"},
    ]}))
    .expect("a policy");
    let agent = ReactAgent::new("desk", Arc::clone(model)).tools(tools).policy(policy);
    agent.build().expect("a sound agent")
}

async fn opened(
    store: &Arc<dyn Store>,
    model: &Arc<ScriptedModel>,
    world: &World,
) -> (Runtime, Thread) {
    let runtime = Runtime::builder(Arc::clone(store)).graph("test:desk", agent(model, world));
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("desk", "t").expect("an id");
    (runtime, thread)
}

fn answer(ask: &Ask) -> Value {
    match ask {
        Ask::Approval(request) => json!({"approved": true, "binding": request.binding}),
        Ask::Question { tool: None, .. } => json!("indoors"),
        Ask::Question { .. } => json!({"action": "accept", "content": 4}),
        other => panic!("{other:?}"),
    }
}

async fn each_call_is_made_once(place: Place) {
    let store = place.open();
    let call = |tool: &str, day: &str| (tool.to_owned(), json!({"day": day}));
    let model = Arc::new(ScriptedModel::from_steps(vec![
        Step::calls(vec![
            ("ask_human".to_owned(), json!({"question": "Where?"})),
            call("pay", "today"),
            call("book", "monday"),
            call("note", "today"),
            call("book", "friday"),
        ]),
        Step::text("Done."),
    ]));
    let world = World::default();
    let part = json!({"type": "text", "text": "Do it."});
    let said = json!({"messages": [{"id": "u1", "role": "user", "parts": [part]}]});
    let (runtime, thread) = opened(&store, &model, &world).await;
    thread.start(said).await.expect("runs");
    drop((runtime, thread));

    let t = ThreadId::new("t").expect("an id");
    let mut answered = 0;
    let outcome = loop {
        let open = open_questions(store.interrupts(&Principal::local(), &t).await.expect("reads"));
        // Another process, which has nothing but the store, answers the last question.
        let last = open.last().expect("a question");
        let (_runtime, thread) = opened(&store, &model, &world).await;
        let ended = thread.answer(BTreeMap::from([(last.id, answer(&last.ask))])).await;
        answered += 1;
        match ended.expect("runs").outcome() {
            RunOutcome::Interrupted { .. } => {}
            other => break other.clone(),
        }
    };
    assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
    assert_eq!((answered, model.calls()), (4, 2));

    let mut executed = world.lock().expect("not poisoned").clone();
    executed.sort_by_key(|(tool, round, _)| (*tool, *round));
    let rounds: Vec<_> = executed.iter().map(|(tool, round, _)| (*tool, *round)).collect();
    let expected = [("book", 0), ("book", 0), ("book", 1), ("book", 1), ("note", 0), ("pay", 0)];
    assert_eq!(rounds, expected, "each round was made once");
    let keys: std::collections::BTreeSet<_> = executed.into_iter().map(|(.., key)| key).collect();
    assert_eq!(keys.len(), 4, "a call keeps its key over its rounds");
}

on_three_stores![each_call_is_made_once];
