//! Agents over states of a program.

use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_agents::{AgentError, ReactAgent, StateWrites};
use weftwork_graph::{List, State};
use weftwork_models::ModelError;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_tools::{Deps, Policy, ToolBox, ToolError, tool};
use weftwork_types::message::{Message, Role};

#[derive(Debug, State)]
struct Desk {
    #[channel(messages)]
    messages: List<Message>,
    customer: String,
    #[channel(default)]
    visits: u32,
    #[channel(append)]
    basket: List<String>,
}

/// The system messages that a model got.
type Seen = Arc<Mutex<Vec<String>>>;

fn model(seen: &Seen, steps: Vec<Step>) -> Arc<ScriptedModel> {
    let seen = Arc::clone(seen);
    let steps = Mutex::new(steps.into_iter());
    Arc::new(ScriptedModel::from_fn(move |request| {
        let system = request.messages.iter().filter(|message| message.role == Role::System);
        let system: Vec<String> = system.map(Message::joined_text).collect();
        seen.lock().expect("unpoisoned").push(system.join("|"));
        steps.lock().expect("unpoisoned").next().unwrap_or_else(|| Step::text("Done."))
    }))
}

fn greet(desk: &State<Desk>) -> String {
    let customer = desk.customer().map_or("nobody", String::as_str);
    format!("You talk to {customer}, visit {}.", desk.visits())
}

async fn open(store: &Arc<MemoryStore>, agent: ReactAgent<Desk>) -> Thread {
    let runtime = Runtime::builder(Arc::clone(store) as _).graph("desk", agent).open().await;
    runtime.expect("opens").thread("desk", "t-1").expect("valid names")
}

#[tokio::test]
async fn instructions_are_made_from_the_state_before_each_call() {
    let seen = Seen::default();
    let agent = ReactAgent::with_state::<Desk>("desk", model(&seen, Vec::new()));
    let thread = open(&Arc::default(), agent.instructions_from(greet)).await;
    let hello = || [Message::user("Hello.")];
    let input = DeskUpdate::new().customer("Anna".to_owned()).messages(hello());
    let ended = thread.start(input).await.expect("accepted");
    assert_eq!(ended.state::<Desk>().expect("the state").customer().expect("set"), "Anna");
    thread.start(DeskUpdate::new().visits(2).messages(hello())).await.expect("accepted");
    let expected = ["You talk to Anna, visit 0.", "You talk to Anna, visit 2."];
    assert_eq!(*seen.lock().expect("unpoisoned"), expected);
}

/// Instructions that differ each time that they are made.
fn numbered(agent: ReactAgent<Desk>, made: &Arc<AtomicUsize>) -> ReactAgent<Desk> {
    let made = Arc::clone(made);
    agent.instructions_from(move |_| format!("text {}", made.fetch_add(1, Ordering::SeqCst)))
}

#[tokio::test]
async fn a_run_that_is_resumed_pays_no_answer_twice() {
    let seen = Seen::default();
    let made = Arc::new(AtomicUsize::new(0));
    let store = Arc::new(MemoryStore::new());
    let with_tools = |model: Arc<ScriptedModel>| {
        let agent = ReactAgent::with_state::<Desk>("desk", model);
        numbered(agent.tools(ToolBox::new().with_ask_human()), &made)
    };
    let asks = Step::call("ask_human", json!({"question": "Who are you?"}));
    let first = model(&seen, vec![asks]);
    let thread = open(&store, with_tools(Arc::clone(&first))).await;
    thread.say("Hello.").await.expect("accepted");
    let second = model(&seen, vec![Step::text("Hello, Anna.")]);
    let thread = open(&store, with_tools(Arc::clone(&second))).await;
    let ended = thread.answer(json!("Anna")).await.expect("accepted");
    assert_eq!(ended.text(), "Hello, Anna.");
    assert_eq!((first.calls(), second.calls()), (1, 1));
    assert_eq!(*seen.lock().expect("unpoisoned"), ["text 0", "text 1"]);
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    text: String,
}

#[tokio::test]
async fn a_model_node_that_runs_again_makes_the_recorded_request() {
    let seen = Seen::default();
    let made = Arc::new(AtomicUsize::new(0));
    let store = Arc::new(MemoryStore::new());
    let typed = |model: Arc<ScriptedModel>| {
        let agent = ReactAgent::with_state::<Desk>("desk", model).output::<Greeting>();
        numbered(agent, &made)
    };
    // The repair of the first answer fails.
    let refused = ModelError::Deadline { provider: "scripted".to_owned() };
    let first = model(&seen, vec![Step::text("Hello!"), Step::fails(refused)]);
    let thread = open(&store, typed(Arc::clone(&first))).await;
    let ended = thread.say("Hello.").await.expect("accepted");
    assert!(ended.value::<Greeting>().is_err());

    let second = model(&seen, vec![Step::text(r#"{"text": "Hello."}"#)]);
    let thread = open(&store, typed(Arc::clone(&second))).await;
    let ended = thread.resume().await.expect("it is continued").await;
    assert_eq!(ended.value::<Greeting>().expect("a value").text, "Hello.");
    assert_eq!((first.calls(), second.calls()), (2, 1), "the first answer is not paid again");
    assert_eq!(*seen.lock().expect("unpoisoned"), ["text 0", "text 0", "text 0"]);
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn two_sources_of_instructions_are_refused() {
    let agent = ReactAgent::with_state::<Desk>("desk", model(&Seen::default(), Vec::new()));
    let error = agent.instructions("Be brief.").instructions_from(greet).build();
    let error = error.expect_err("two sources");
    assert!(matches!(error, AgentError::Option { .. }), "{error}");
    assert!(error.to_string().contains("`instructions` and `instructions_from`"), "{error}");
}

/// Puts an article into the basket.
#[tool(effect = state_change)]
fn add(article: String, state: Deps<StateWrites>) -> Result<String, ToolError> {
    state.write("basket", &[&article])?;
    match article.as_str() {
        "nothing" => Err(ToolError::failed("there is no such article")),
        "poison" => state.write("baskets", &1).map(|()| article),
        _ => Ok(article),
    }
}

#[tokio::test]
async fn tools_write_to_the_state_if_their_calls_succeed_and_once() {
    let call = |article: &str| ("add".to_owned(), json!({"article": article}));
    let calls = ["lamp", "nothing", "poison", "chair"].map(call).to_vec();
    let ask = ("ask_human".to_owned(), json!({"question": "More?"}));
    let first = Step::calls([calls, vec![ask]].concat());
    let store = Arc::new(MemoryStore::new());
    let agent = |steps: Vec<Step>| {
        let tools = ToolBox::new().with(add).with_ask_human();
        let policy = Policy::new().allow("add").expect("a name");
        let agent = ReactAgent::with_state::<Desk>("desk", model(&Seen::default(), steps));
        agent.tools(tools).policy(policy)
    };
    let thread = open(&store, agent(vec![first])).await;
    thread.say("A lamp and a chair.").await.expect("accepted");
    let thread = open(&store, agent(vec![Step::text("Done.")])).await;
    let ended = thread.answer(json!("no")).await.expect("accepted");
    let desk = ended.state::<Desk>().expect("the state");
    let basket: Vec<&str> = desk.basket().iter().map(String::as_str).collect();
    assert_eq!(basket, ["lamp", "chair"]);
    let messages = ended.messages().expect("messages");
    let results: Vec<_> = messages.iter().flat_map(Message::tool_results).collect();
    assert!(results[1].is_error && results[2].is_error && !results[3].is_error);
    let unknown = results[2].value.to_string();
    assert!(unknown.contains("no channel `baskets`") && unknown.contains("basket"), "{unknown}");
}

#[tokio::test]
async fn a_tool_that_writes_to_a_state_is_refused_by_an_agent_without_one() {
    let tools = ToolBox::new().with(add);
    let agent = ReactAgent::new("desk", model(&Seen::default(), Vec::new())).tools(tools);
    let error = agent.build().expect_err("no state").to_string();
    assert!(error.contains("StateWrites"), "{error}");
}
