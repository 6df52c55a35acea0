//! The hosting runtime in nodes, subgraphs and tools.

use super::{Place, close, does, id, info, on_three_stores, open_with, options, until};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityContext, AgentRuntime, AgentRuntimeErrorKind as Kind, HostedInstance, Hosting,
};
use weftwork::graph::NodeError;
use weftwork::models::ChatRequest;
use weftwork::prelude::*;
use weftwork::runtime::Runtime;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::message::Message;
use weftwork::types::port::{Dependencies, Limits};
use weftwork::types::run::{RunOptions, RunOutcome};

/// Places that took the hosting runtime, with the runtime and the instance that they found.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<(&'static str, HostedInstance)>>);

impl Seen {
    fn add(&self, place: &'static str, hosted: &HostedInstance) {
        self.0.lock().expect("no panic").push((place, hosted.clone()));
    }
}

#[derive(Debug, State)]
struct Empty {
    rounds: u64,
}

/// Records where the tool is executed.
#[tool]
fn where_am_i(
    hosted: weftwork::tools::Deps<HostedInstance>,
    seen: weftwork::tools::Deps<Arc<Seen>>,
) -> String {
    seen.add("tool", &hosted);
    hosted.instance().to_string()
}

async fn outer(
    hosting: Hosting,
    seen: Deps<Arc<Seen>>,
    state: State<Empty>,
) -> NodeResult<EmptyUpdate> {
    seen.add("node", &hosting);
    let found = hosting.run(async |logic| logic.call_tool("where_am_i", json!({})).await).await?;
    assert_eq!(found.value, json!(hosting.instance().as_str()));
    Ok(EmptyUpdate::new().rounds(state.rounds().copied().unwrap_or_default() + 1))
}

async fn inner(hosting: Hosting, seen: Deps<Arc<Seen>>) -> EmptyUpdate {
    seen.add("subgraph", &hosting);
    EmptyUpdate::new()
}

fn graph(seen: &Arc<Seen>) -> CompiledGraph {
    let within = Graph::<Empty>::new("within").with(Arc::clone(seen)).node("inner", inner);
    let within = within.edge(START, "inner").build().expect("sound");
    let graph = Graph::<Empty>::new("around").with(Arc::clone(seen)).node("outer", outer);
    let graph = graph.subgraph("within", within, weftwork::graph::SubgraphState::PerTask);
    graph.edge(START, "outer").edge("outer", "within").build().expect("sound")
}

async fn all_take_the_same_instance(place: Place) {
    let mut before: Option<AgentRuntime> = None;
    for round in 1..=2 {
        let seen = Arc::new(Seen::default());
        let tools = ToolBox::new().with(where_am_i).provide(Arc::clone(&seen));
        let agents = open_with(&place, tools).await;
        let instance = agents.create_graph_agent(&graph(&seen), json!({}), options()).await;
        let instance = instance.expect("created");
        does(&agents, &instance, json!(null)).await.expect("succeeds");
        let found = std::mem::take(&mut *seen.0.lock().expect("no panic"));
        let places: Vec<_> = found.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, ["node", "tool", "subgraph"]);
        for (place, hosted) in &found {
            assert!(hosted.agents().is_same(&agents), "{place}");
            assert_eq!((hosted.instance(), hosted.activity()), (&id(), found[0].1.activity()));
        }
        assert!(before.as_ref().is_none_or(|before| !before.is_same(&agents)), "another process");
        assert_eq!(agents.get_state(&instance).await.expect("reads")["rounds"], round);
        drop(found);
        before = Some(agents.clone());
        close(agents).await;
    }
}

async fn activities_are_executed_after_the_agent_runtime_was_dropped(place: Place) {
    let seen = Arc::new(Seen::default());
    let tools = ToolBox::new().with(where_am_i).provide(Arc::clone(&seen));
    let agents = open_with(&place, tools).await;
    let runtime = agents.runtime().clone();
    let who = agents.principal().clone();
    let instance = agents.create_graph_agent(&graph(&seen), json!({}), options()).await;
    let instance = instance.expect("created");
    let waits = agents.leave(&instance, Activity::new(json!(null))).await.expect("accepted");
    let at = waits.activity().clone();
    drop((waits, instance, agents));
    runtime.attend(&who, &at.thread);
    let ended = runtime.ended(&who, &at).await.expect("reads");
    assert!(matches!(ended, RunOutcome::Completed { .. }), "{ended:?}");
    let found = std::mem::take(&mut *seen.0.lock().expect("no panic"));
    let places: Vec<_> = found.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, ["node", "tool", "subgraph"]);

    // The services are dropped with the runtime.
    let services = Arc::downgrade(&seen);
    let left = runtime.shutdown(Duration::from_secs(5)).await.expect("stops");
    assert!(left.is_empty(), "{left:?}");
    drop((found, runtime, seen));
    let dropped = async {
        while services.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let dropped = tokio::time::timeout(Duration::from_secs(20), dropped).await;
    assert!(dropped.is_ok(), "{} references are left", services.strong_count());
}

/// Posts a letter, and returns the number of all that were posted.
#[tool(effect = state_change)]
fn post_letter(posted: weftwork::tools::Deps<Arc<AtomicU64>>) -> u64 {
    posted.fetch_add(1, Ordering::SeqCst) + 1
}

/// Posts a letter by logic over the services, and asks a question after it.
async fn post(hosting: Hosting, ctx: Ctx) -> NodeResult<EmptyUpdate> {
    let thread = ctx.thread().clone();
    let posted = hosting
        .run(async move |logic| {
            let row = logic.store().thread(logic.agents().principal(), &thread).await?;
            assert_eq!(row.id, thread, "the store is that of the runtime");
            assert_eq!(logic.policies().rules.len(), 1);
            assert_eq!(logic.tools().specs().len(), 1);
            assert!(logic.models().get("greeter").is_some());
            assert_eq!(logic.providers().providers().count(), 0);
            logic.call_tool("post_letter", json!({})).await.map_err(NodeError::from)
        })
        .await?;
    ctx.interrupt(json!("go on?"))?;
    Ok(EmptyUpdate::new().rounds(posted.value.as_u64().unwrap_or_default()))
}

async fn calls_of_logic_are_recorded_with_their_node(place: Place) {
    let posted = Arc::new(AtomicU64::new(0));
    let graph = Graph::<Empty>::new("post").node("post", post).edge(START, "post");
    let graph = graph.build().expect("sound");
    for round in 1..=2 {
        let runtime = Runtime::builder(place.open()).open().await.expect("opens");
        let tools = ToolBox::new().with(post_letter).provide(Arc::clone(&posted));
        let policy = Policy::builder().allow("post_letter").build().expect("sound");
        let agents = AgentRuntime::over(runtime).tools(tools).policy(policy);
        let agents = agents.model("greeter", ScriptedModel::rules()).build().expect("sound");
        let instance = agents.create_graph_agent(&graph, json!({}), options()).await;
        let instance = instance.expect("created");
        if round == 1 {
            does(&agents, &instance, json!(null)).await.expect("ends at its question");
        } else {
            let thread = agents.runtime().thread("app:post", "i-1").expect("hosted");
            thread.answer(json!("yes")).await.expect("accepted").output().expect("completes");
            assert_eq!(agents.get_state(&instance).await, Ok(json!({"rounds": 1})));
        }
        assert_eq!(posted.load(Ordering::SeqCst), 1, "the node ran {round} times");
        close(agents).await;
    }
}

async fn logic_of_an_activity_has_its_budget(place: Place) {
    let model = Arc::new(ScriptedModel::from_steps([Step::text("One."), Step::text("Two.")]));
    let runtime = Runtime::builder(place.open()).open().await.expect("opens");
    let agents = AgentRuntime::over(runtime).model("greeter", Arc::clone(&model));
    let agents = agents.build().expect("sound");
    let talk = async |texts: Vec<String>, activity: ActivityContext| {
        let said = activity.run(async |logic| {
            let model = logic.models().get("greeter").cloned().expect("it has one");
            let mut texts = texts;
            for _ in 0..2 {
                let messages = vec![Message::user("Hello")];
                let request = ChatRequest { messages, ..ChatRequest::default() };
                texts.push(logic.call_model(&*model, request).await?.message.joined_text());
            }
            NodeResult::Ok(texts)
        });
        said.await
    };
    let budget = Some(Limits::model_calls(1));
    let options = options().run_options(RunOptions { budget, ..RunOptions::default() });
    let instance = agents.create("talk", Vec::<String>::new(), talk, options).await;
    let error = does(&agents, &instance.expect("created"), json!(null)).await;
    let error = error.expect_err("one call is allowed");
    assert_eq!((error.kind, model.calls()), (Kind::Logic, 1));
    let cause = error.fault.causes().next().and_then(|cause| cause.code.as_deref());
    assert_eq!(cause, Some("W0601"), "{error:?}");
    close(agents).await;
}

/// Asks before it is called.
#[tool(effect = external_side_effect)]
fn refund(order: String) -> String {
    order
}

async fn logic_runs_outside_of_nodes(place: Place) {
    let seen = Arc::new(Seen::default());
    let tools = ToolBox::new().with(where_am_i).with(refund).provide(Arc::clone(&seen));
    let runtime = Runtime::builder(place.open()).open().await.expect("opens");
    let model = ScriptedModel::from_steps([Step::text("Good morning.")]);
    let agents = AgentRuntime::over(runtime).model("greeter", model);
    let policy = Policy::builder().ask_human("refund", "ask").build().expect("sound");
    let agents = agents.tools(tools).policy(policy).build();
    let agents = agents.expect("sound");
    let said = agents.run(async |logic| {
        let model = logic.models().get("greeter").cloned().expect("it has one");
        let request =
            ChatRequest { messages: vec![Message::user("Hello")], ..ChatRequest::default() };
        let answer = logic.call_model(&*model, request).await?;
        NodeResult::Ok(answer.message.joined_text())
    });
    assert_eq!(said.await, Ok("Good morning.".to_owned()));

    // Errors have one level of wrapping, however deep the logic is.
    let call = async |name: &'static str| {
        let outer = agents.run(async |logic| {
            logic.run(async |logic| logic.call_tool(name, json!({"order": "A1"})).await).await
        });
        outer.await.map(|found| found.value)
    };
    let refused = call("refund").await.expect_err("nobody can be asked");
    assert_eq!(refused.kind, Kind::Logic);
    let cause = refused.fault.cause.expect("the cause").to_string();
    assert!(cause.contains("`refund` needs a person"), "{cause}");
    let refused = call("where_am_i").await.expect_err("there is no instance");
    assert_eq!(refused.kind, Kind::Logic);
    let panicked = agents.run(async |_| -> NodeResult<()> { panic!("a panic") }).await;
    assert_eq!(panicked.expect_err("panicked").kind, Kind::Panicked);
    close(agents).await;
}

#[derive(Debug, State)]
struct Opened {
    opened: u64,
}

async fn look(opened: State<Opened>) -> OpenedUpdate {
    OpenedUpdate::new().opened(opened.opened().copied().unwrap_or_default() + 1)
}

async fn an_activity_waits_for_a_process_that_can_make_its_dependencies(place: Place) {
    let open = async |is_sealed: bool| {
        let graph = Graph::<Opened>::new("vault").node("look", look).edge(START, "look");
        let runtime = Runtime::builder(place.open()).graph_with(
            "app:vault",
            graph.build().expect("sound"),
            move |_, _| match is_sealed {
                true => Err("the vault is sealed".into()),
                false => Ok(Dependencies::new()),
            },
        );
        AgentRuntime::over(runtime.open().await.expect("opens")).build().expect("sound")
    };
    let agents = open(false).await;
    agents.create_of("app:vault", json!({}), options()).await.expect("created");
    close(agents).await;
    let agents = open(true).await;
    let sent = agents.send(id(), Activity::new(json!(1))).await.expect("accepted");
    let ended = tokio::time::timeout(Duration::from_millis(500), sent.ended()).await;
    assert!(ended.is_err(), "it waits: {ended:?}");
    let waiting = info(&agents).await;
    let error = waiting.error.expect("is shown");
    assert_eq!((error.kind, error.code()), (Kind::GraphUnavailable, "W0645"));
    assert!(error.to_string().contains("the vault is sealed"), "{error}");
    assert_eq!((waiting.statistics.waiting, waiting.statistics.failed), (1, 0));
    close(agents).await;

    let agents = open(false).await;
    agents.attend(id());
    until(&agents, |info| info.statistics.succeeded == 1).await;
    close(agents).await;
}

on_three_stores![
    an_activity_waits_for_a_process_that_can_make_its_dependencies,
    calls_of_logic_are_recorded_with_their_node,
    logic_of_an_activity_has_its_budget,
    logic_runs_outside_of_nodes,
    all_take_the_same_instance,
    activities_are_executed_after_the_agent_runtime_was_dropped,
];
