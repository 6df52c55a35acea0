//! The conversations of teams, their options and limits, and the graphs that run agents.

use super::world::{said, text_of};
use crate::prompts::Recording;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::{
    AgentError, Chat, ITEMS_MAX, ModelConfig, OutputMode, ParallelMap, PlanAndExecute, ReactAgent,
    Replan, Supervisor, Swarm,
};
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start};
use weftwork_graph::{CompiledGraph, Graph, NodeResult, RunOutcome, START, State, SubgraphState};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_tools::{Policy, ToolBox, tool};

/// Looks up an order.
#[tool]
fn find_order(order: String) -> String {
    format!("{order} is on its way")
}

fn scripted(steps: Vec<Step>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_steps(steps))
}

fn agent(name: &str, steps: Vec<Step>) -> ReactAgent {
    ReactAgent::new(name, scripted(steps)).tools(ToolBox::new().with(find_order))
}

fn orders() -> CompiledGraph {
    let steps = vec![Step::call("find_order", json!({"order": "A1"})), Step::text("A1 comes.")];
    agent("orders", steps).build().expect("sound")
}

fn to(member: &str) -> Step {
    Step::call(&format!("transfer_to_{member}"), json!({}))
}

async fn output(graph: &CompiledGraph, input: Value) -> Value {
    let run = graph.run(&Host::new(), Start::from(input)).finish().await.expect("runs");
    match run.outcome() {
        RunOutcome::Completed { output } => output,
        other => panic!("it completes: {other:?}"),
    }
}

async fn fault(graph: &CompiledGraph, input: Value) -> String {
    match graph.run(&Host::new(), Start::from(input)).finish().await {
        Ok(run) => match run.outcome() {
            RunOutcome::Failed { fault } => fault.code,
            other => panic!("it fails: {other:?}"),
        },
        Err(error) => error.fault().code,
    }
}

#[tokio::test]
async fn options_choose_the_messages_of_a_team() {
    use OutputMode::{FullHistory, LastMessage};
    let call = "assistant: transfer_to_orders";
    let handed = "tool: \"the conversation is handed to orders\"";
    let calls = "assistant: find_order";
    let found = "tool: \"A1 is on its way\"";
    let first = "user: Where?";
    let member = "assistant: A1 comes.";
    let last = "assistant: It comes.";
    for (mode, add, expected) in [
        (LastMessage, true, vec![first, call, handed, member, last]),
        (LastMessage, false, vec![first, member, last]),
        (FullHistory, true, vec![first, call, handed, calls, found, member, last]),
        (FullHistory, false, vec![first, calls, found, member, last]),
    ] {
        let lead = scripted(vec![to("orders"), Step::text("It comes.")]);
        let team = Supervisor::new("team", lead)
            .instructions("Lead.")
            .member(orders(), "finds orders")
            .output_mode(mode)
            .add_hand_off_messages(add);
        let output = output(&team.build().expect("sound"), said("Where?")).await;
        assert_eq!(text_of(&output), expected, "{mode:?} {add}");
        assert_eq!(output["reports"][0]["member"], "orders");
    }
}

#[tokio::test]
async fn a_supervisor_reads_each_report_as_the_result_of_its_hand_off() {
    // The rules of this model answer with the results that they find.
    for add in [true, false] {
        let rules = Arc::new(ScriptedModel::rules());
        let team = Supervisor::new("team", rules)
            .member(orders(), "finds orders")
            .example("orders", "Where is order A7?")
            .add_hand_off_messages(add);
        let output = output(&team.build().expect("sound"), said("Where is order A1?")).await;
        let last = text_of(&output).pop().expect("a message");
        assert!(last.contains("A1 comes."), "{last}");
        assert_eq!(output["reports"].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn members_of_one_message_work_side_by_side_with_own_tools_of_the_supervisor() {
    let both = Step::calls(vec![
        ("transfer_to_orders".to_owned(), json!({})),
        ("find_order".to_owned(), json!({"order": "B2"})),
        ("transfer_to_stock".to_owned(), json!({})),
        ("transfer_to_orders".to_owned(), json!({})),
        ("no_such_tool".to_owned(), json!({})),
    ]);
    let lead = scripted(vec![both, Step::text("Both.")]);
    let stock = agent("stock", vec![Step::text("Two are left.")]).build().expect("sound");
    let team = Supervisor::new("team", Arc::clone(&lead))
        .member(orders(), "finds orders")
        .member(stock, "counts")
        .tools(ToolBox::new().with(find_order));
    let output = output(&team.build().expect("sound"), said("Where, and how many?")).await;
    let texts = text_of(&output);
    assert_eq!(texts.last().map(String::as_str), Some("assistant: Both."));
    for expected in
        ["assistant: A1 comes.", "assistant: Two are left.", "tool: \"B2 is on its way\""]
    {
        assert!(texts.iter().any(|text| text == expected), "{texts:?}");
    }
    assert_eq!(lead.calls(), 2, "the supervisor waits for both members");
    assert_eq!(output["reports"].as_array().map(Vec::len), Some(3), "one for each hand-off");
}

#[tokio::test]
async fn a_hand_off_that_is_denied_is_a_refused_call() {
    for add in [true, false] {
        let lead = scripted(vec![to("orders"), Step::text("I may not.")]);
        let policy = Policy::new().deny("transfer_to_orders", "closed").expect("a name");
        let team = Supervisor::new("team", lead)
            .member(orders(), "finds orders")
            .policy(policy)
            .add_hand_off_messages(add);
        let output = output(&team.build().expect("sound"), said("Where?")).await;
        let texts = text_of(&output);
        assert!(texts[2].contains("closed"), "{texts:?}");
        assert_eq!(output["reports"], json!([]));
    }
}

#[tokio::test]
async fn the_active_member_of_a_swarm_begins_the_next_run() {
    let desk = vec![to("orders"), Step::text("I am the desk.")];
    let orders = vec![Step::text("I am orders."), to("desk")];
    let swarm = Swarm::new("shop")
        .member(agent("orders", orders), "finds orders")
        .member(agent("desk", desk), "greets")
        .default_member("desk");
    let graph = swarm.build().expect("sound");
    let host = Host::new().with_checkpointer(InMemoryCheckpointer::new());
    for (said, active, last) in
        [("Orders, please", "orders", "I am orders."), ("The desk again", "desk", "I am the desk.")]
    {
        let run = graph.run(&host, Start::from(super::world::said(said))).thread("t");
        let ended = run.finish().await.expect("runs");
        let output = ended.outcome().output().expect("completes");
        assert_eq!(output["active_agent"], active);
        assert_eq!(text_of(&output).pop(), Some(format!("assistant: {last}")));
    }
}

#[derive(Debug, State)]
struct Own {
    #[channel(messages)]
    messages: weftwork_graph::List<weftwork_types::message::Message>,
    active_agent: String,
}

async fn passes(_: weftwork_graph::Ctx) -> OwnUpdate {
    OwnUpdate::new().active_agent("desk".to_owned())
}

#[tokio::test]
async fn a_graph_of_your_own_hands_off_by_its_output_and_circles_end() {
    let own = Graph::<Own>::new("own").node("passes", passes).edge(START, "passes");
    let own = own.build().expect("sound");
    let desk = agent("desk", vec![Step::text("Here.")]);
    let swarm = Swarm::new("shop").graph(own.clone(), "passes").member(desk, "greets");
    let output = output(&swarm.build().expect("sound"), said("Hello")).await;
    assert_eq!(text_of(&output), ["user: Hello", "assistant: Here."]);

    let circle = agent("desk", vec![to("own"); 20]);
    let swarm = Swarm::new("shop").graph(own, "passes").member(circle, "greets").step_limit(10);
    let graph = swarm.build().expect("sound");
    let run = graph.run(&Host::new(), Start::from(said("Hello"))).finish().await.expect("runs");
    assert_eq!(run.outcome(), RunOutcome::LimitReached { step_limit: 10 });
}

#[tokio::test]
async fn teams_that_cannot_work_are_refused_when_they_are_built() {
    #[derive(State)]
    struct Silent {
        n: u32,
    }
    async fn nothing(silent: State<Silent>) -> SilentUpdate {
        SilentUpdate::new().n(silent.n().copied().unwrap_or_default())
    }
    let silent = Graph::<Silent>::new("silent").node("n", nothing).edge(START, "n");
    let silent = silent.build().expect("sound");
    let lead = || scripted(Vec::new()) as Arc<dyn weftwork_models::ChatModel>;
    let named = |name: &str| agent(name, Vec::new());
    let built = |name: &str| named(name).build().expect("sound");
    let team = || Supervisor::new("team", lead());
    let swarm = || Swarm::new("swarm").member(named("a"), "").member(named("b"), "");
    let plan = PlanAndExecute::new("plan", lead(), silent.clone()).build();
    for (result, code) in [
        (team().member(built("tool"), "").build(), "W0626"),
        (team().member(built("a"), "").member(built("a"), "").build(), "W0626"),
        (swarm().member(named("a"), "").build(), "W0626"),
        (team().member(silent.clone(), "").build(), "W0627"),
        (swarm().graph(silent.clone(), "").build(), "W0627"),
        (plan, "W0627"),
        (team().build(), "W0628"),
        (Swarm::new("swarm").build(), "W0628"),
        (team().member(built("a"), "").example("b", "x").build(), "W0628"),
        (swarm().default_member("c").build(), "W0628"),
        (swarm().hand_offs("a", ["c"]).build(), "W0628"),
        (swarm().hand_offs("c", ["a"]).build(), "W0628"),
    ] {
        let error = result.expect_err(code);
        assert_eq!(error.code().0, code, "{error}");
    }
    let error = weftwork_agents::as_tool(silent, "ask", "asks").expect_err("no conversation");
    assert!(matches!(error, AgentError::NoConversation { role: "a tool", .. }), "{error}");
}

#[tokio::test]
async fn a_member_without_an_answer_fails_the_run() {
    async fn nothing(_: weftwork_graph::Ctx) {}
    let mute = Graph::<Chat>::new("mute").node("n", nothing).edge(START, "n").build();
    let team = Supervisor::new("team", scripted(vec![to("mute")]));
    let team = team.member(mute.expect("sound"), "says nothing").build().expect("sound");
    assert_eq!(fault(&team, said("Hello")).await, "W0629");
}

fn plan_of(steps: &[&str]) -> Step {
    Step::text(json!({"steps": steps}).to_string())
}

fn answer(text: &str) -> Step {
    Step::text(json!({"value": {"answer": {"text": text}}}).to_string())
}

fn go_on(steps: &[&str]) -> Step {
    Step::text(json!({"value": {"continue": {"steps": steps}}}).to_string())
}

#[tokio::test]
async fn a_plan_is_executed_and_made_anew() {
    let done = |count: usize| vec![Step::text("done"); count];
    for (replan, planner, executed) in [
        (Replan::EachStep, vec![plan_of(&["a", "b"]), go_on(&["c"]), answer("All.")], "ac"),
        (Replan::AtEnd, vec![plan_of(&["a", "b"]), go_on(&["c"]), answer("All.")], "abc"),
        (Replan::EachStep, vec![plan_of(&[]), answer("All.")], ""),
        (Replan::EachStep, vec![Step::text("?"), plan_of(&["a"]), answer("All.")], "a"),
    ] {
        let executor = agent("hands", done(executed.len())).build().expect("sound");
        let calls = planner.len();
        let model = scripted(planner);
        let graph = PlanAndExecute::new("plan", Arc::clone(&model), executor)
            .instructions("Be brief.")
            .replan(replan);
        let output = output(&graph.build().expect("sound"), said("Do it.")).await;
        assert_eq!(text_of(&output), ["user: Do it.", "assistant: All."]);
        let steps = output["done"].as_array().expect("steps").iter();
        let steps: String = steps.filter_map(|done| done["step"].as_str()).collect();
        assert_eq!((steps.as_str(), model.calls()), (executed, calls), "{replan:?}");
        assert_eq!(output["plan"], json!([]));
    }
}

#[tokio::test]
async fn each_kind_of_agent_sends_the_options_of_its_model() {
    let planner = vec![plan_of(&[]), answer("All.")];
    let steps = [vec![Step::text("Done."); 2], planner].concat();
    let model = Recording::new(steps, &[]);
    let config = || ModelConfig { temperature: Some(0.5), ..ModelConfig::default() };
    let lead = || Arc::clone(&model);
    for graph in [
        ReactAgent::new("agent", lead()).model_config(config()).build(),
        Supervisor::new("team", lead()).member(orders(), "").model_config(config()).build(),
        PlanAndExecute::new("plan", lead(), orders()).model_config(config()).build(),
    ] {
        output(&graph.expect("sound"), said("Do it.")).await;
    }
    let temperatures: Vec<_> = model.requests().iter().map(|sent| sent.temperature).collect();
    assert_eq!(temperatures, [Some(0.5); 4]);
}

#[tokio::test]
async fn the_steps_of_a_plan_are_limited() {
    let planner = vec![plan_of(&["a", "b", "c"]); 1];
    let executor = agent("hands", vec![Step::text("done"); 3]).build().expect("sound");
    let graph = PlanAndExecute::new("plan", scripted(planner), executor);
    let graph = graph.replan(Replan::AtEnd).steps_max(2).build().expect("sound");
    assert_eq!(fault(&graph, said("Do it.")).await, "W0630");
}

#[derive(State)]
struct Doubled {
    n: u64,
}

async fn double(doubled: State<Doubled>) -> NodeResult<DoubledUpdate> {
    Ok(DoubledUpdate::new().n(doubled.n().copied().unwrap_or_default() * 2))
}

#[tokio::test]
async fn items_are_mapped_in_order_within_another_graph() {
    let doubling = Graph::<Doubled>::new("double").node("double", double).edge(START, "double");
    let doubling = doubling.build().expect("sound");
    let graph = ParallelMap::new("map", doubling).concurrency(2).build().expect("sound");
    let items: Vec<Value> = (0..20).map(|n| json!({"n": n})).collect();
    let results: Vec<Value> = (0..20).map(|n| json!({"n": 2 * n})).collect();
    assert_eq!(output(&graph, json!({"items": items})).await["results"], json!(results));
    assert_eq!(output(&graph, json!({"items": []})).await["results"], json!([]));

    let many = vec![json!({"n": 1}); ITEMS_MAX + 1];
    assert_eq!(fault(&graph, json!({"items": many})).await, "W0631");
    assert!(output(&graph, json!({"items": many[1..]})).await["results"].is_array());

    let echo = ReactAgent::new("echo", Arc::new(ScriptedModel::rules()));
    let echo = echo.tools(ToolBox::new().with(find_order)).build().expect("sound");
    let inner = ParallelMap::new("map", echo).build().expect("sound");
    let channels = ["items", "results"].map(|name| {
        weftwork_graph::ChannelDef::new(name, weftwork_graph::channel::LastValue::<Value>::new())
    });
    let outer = Graph::dynamic("outer", channels.into());
    let outer = outer.subgraph("each", inner, SubgraphState::PerTask).edge(START, "each");
    let items = json!(["Find order A1.", "Find order B2."]);
    let found = output(&outer.build().expect("sound"), json!({"items": items})).await;
    let results: Vec<&str> =
        found["results"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(results[0].contains("A1") && results[1].contains("B2"), "{results:?}");
}
