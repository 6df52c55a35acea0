//! Prompts that are hosted like agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use weftwork_agents::{Prompt, PromptContext, Section, Supervisor};
use weftwork_graph::IntoGraph;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_tools::{Deps, ToolError, tool};
use weftwork_types::message::Role;
use weftwork_types::run::RunOutcome;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
    #[schemars(range(min = 1))]
    days: u32,
    #[serde(default)]
    note: String,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Plan {
    stops: Vec<String>,
}

/// The first message of each request, with its role.
type Seen = Arc<Mutex<Vec<(Role, String)>>>;

fn model(seen: &Seen, steps: Vec<Step>) -> Arc<ScriptedModel> {
    let seen = Arc::clone(seen);
    let steps = Mutex::new(steps.into_iter());
    Arc::new(ScriptedModel::from_fn(move |request| {
        let first = request.messages.first().expect("a message");
        seen.lock().expect("unpoisoned").push((first.role, first.joined_text()));
        steps.lock().expect("unpoisoned").next().unwrap_or_else(|| Step::text("Done."))
    }))
}

fn scripted(steps: Vec<Step>) -> Arc<ScriptedModel> {
    model(&Seen::default(), steps)
}

fn trip() -> Prompt<Trip> {
    Prompt::<Trip>::builder("travel", "trip", "Plan a trip")
        .section(Section::new("task", "Task", "Plan ${days} days in ${city}. ${note}"))
        .build()
        .expect("sound")
}

async fn open(store: &Arc<MemoryStore>, graph: impl IntoGraph) -> Thread {
    let runtime = Runtime::builder(Arc::clone(store) as _).graph("trip", graph).open().await;
    runtime.expect("opens").thread("trip", "t-1").expect("valid names")
}

fn fault_of(outcome: &RunOutcome) -> (String, String) {
    match outcome {
        RunOutcome::Failed { fault } => (fault.code.clone(), fault.message.clone()),
        other => panic!("expected a failed run, got {other:?}"),
    }
}

#[tokio::test]
async fn the_input_of_a_run_has_the_parameters_and_later_runs_change_them() {
    let seen = Seen::default();
    let thread = open(&Arc::default(), trip().with_model(model(&seen, Vec::new()))).await;
    let ended = thread.start(json!({"city": "Bern", "days": 3})).await.expect("accepted");
    assert_eq!(ended.text(), "Done.");
    let schema = thread.graph().schemas();
    assert!(format!("{schema:?}").contains("city"), "clients see the parameters");
    let said = json!({"days": 4, "messages": [{"role": "user", "content": "One more."}]});
    thread.start(said).await.expect("accepted");
    let seen = seen.lock().expect("unpoisoned");
    let text = |days| format!("## 1. Task\n\nPlan {days} days in Bern.");
    assert_eq!(*seen, [(Role::User, text(3)), (Role::User, text(4))]);
}

#[tokio::test]
async fn parameters_that_are_missing_or_do_not_fit_are_named() {
    let thread = open(&Arc::default(), trip().with_model(scripted(Vec::new()))).await;
    let ended = thread.start(json!({"city": "Bern"})).await.expect("accepted");
    let fault = fault_of(ended.outcome());
    assert_eq!(fault.0, "W0611");
    for part in ["travel/trip", "missing field `days`", "`city`, `days`, `note`"] {
        assert!(fault.1.contains(part), "{part}: {}", fault.1);
    }
    // Nothing of these is stored.
    for (input, part) in
        [(json!({"city": "Bern", "days": 0}), "minimum"), (json!({"city": 7, "days": 1}), "/city")]
    {
        let error = thread.start(input).await.expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let ended = thread.start(json!({"city": "Bern", "dayz": 1})).await.expect("accepted");
    let fault = fault_of(ended.outcome());
    assert!(fault.0 == "W0105" && fault.1.contains("did you mean `days`"), "{}", fault.1);
}

#[tokio::test]
async fn a_hosted_prompt_has_a_typed_output_and_is_resumed_without_paying_twice() {
    let prompt = Prompt::<Trip>::builder("travel", "trip", "Plan a trip")
        .section(Section::new("task", "Task", "Plan ${days} days in ${city}.").ask_human())
        .output::<Plan>()
        .build()
        .expect("sound");
    let seen = Seen::default();
    let store = Arc::new(MemoryStore::new());
    let first = model(&seen, vec![Step::call("ask_human", json!({"question": "By train?"}))]);
    let thread = open(&store, prompt.with_model(Arc::clone(&first))).await;
    let ended = thread.start(json!({"city": "Bern", "days": 3})).await.expect("accepted");
    assert_eq!(ended.questions().len(), 1);

    let second = model(&seen, vec![Step::text(r#"{"stops": ["Bern"]}"#)]);
    let thread = open(&store, prompt.with_model(Arc::clone(&second))).await;
    let ended = thread.answer(json!("yes")).await.expect("accepted");
    assert_eq!(ended.value::<Plan>().expect("a plan"), Plan { stops: vec!["Bern".to_owned()] });
    assert_eq!((first.calls(), second.calls()), (1, 1));
    let seen = seen.lock().expect("unpoisoned");
    assert_eq!(seen[0], seen[1], "the prompt is the same");
}

/// Returns the session of the prompt.
#[tool]
fn session(prompt: Deps<PromptContext>) -> String {
    prompt.session().to_string()
}

#[tokio::test]
async fn tools_of_summarized_sections_are_offered_once_they_are_opened() {
    let rules = Section::new("rules", "Rules", "Only by train.").summarized("Rules.").tool(session);
    let prompt =
        Prompt::<()>::builder("travel", "rules", "Rules").section(rules).build().expect("sound");
    let steps = vec![
        Step::call("open_section", json!({"path": "rules"})),
        Step::call("session", json!({})),
        Step::text("Done."),
    ];
    let thread = open(&Arc::default(), prompt.with_model(scripted(steps))).await;
    let ended = thread.say("What are the rules?").await.expect("accepted");
    let messages = ended.messages().expect("messages");
    let result = |name: &str| messages.tool_result(name).expect("a result").value.clone();
    assert_eq!(result("open_section"), json!("## 1. Rules\n\nOnly by train."));
    assert_eq!(result("session"), json!("t-1"));
}

/// Evaluates another prompt.
#[tool]
async fn nested(prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    let inner = Prompt::<()>::builder("travel", "inner", "Inner").build();
    let inner = inner.map_err(|error| ToolError::failed(&error))?;
    prompt.evaluate(&inner, ()).await?;
    Ok("evaluated".to_owned())
}

#[tokio::test]
async fn a_tool_of_a_hosted_prompt_that_evaluates_another_one_fails_and_names_the_fix() {
    let prompt = Prompt::<()>::builder("travel", "outer", "Outer")
        .section(Section::new("task", "Task", "Call it.").tool(nested))
        .build()
        .expect("sound");
    let steps = vec![Step::call("nested", json!({})), Step::text("Done.")];
    let thread = open(&Arc::default(), prompt.with_model(scripted(steps))).await;
    let ended = thread.say("Do it.").await.expect("accepted");
    let messages = ended.messages().expect("messages");
    let result = messages.tool_result("nested").expect("a result");
    let text = result.value.to_string();
    assert!(result.is_error && text.contains("evaluate it with an `Evaluator`"), "{text}");
}

fn team(member: impl IntoGraph, name: &str) -> Supervisor {
    let call = Step::call(&format!("transfer_to_{name}"), json!({}));
    let lead = scripted(vec![call, Step::text("Done.")]);
    Supervisor::new("team", lead).member(member, "plans trips")
}

#[tokio::test]
async fn a_prompt_is_a_member_if_its_parameters_are_known() {
    let seen = Seen::default();
    let params = Trip { city: "Bern".to_owned(), days: 3, note: String::new() };
    let member = trip().with_model(model(&seen, vec![Step::text("Walk.")])).params(&params);
    let thread = open(&Arc::default(), team(member, "trip")).await;
    let ended = thread.say("Plan my trip.").await.expect("accepted");
    let reports: &Value = &ended.output().expect("completed")["reports"];
    assert_eq!(reports[0]["member"], "trip");
    let prompt = (Role::System, "## 1. Task\n\nPlan 3 days in Bern.".to_owned());
    assert_eq!(*seen.lock().expect("unpoisoned"), [prompt]);

    let without = team(trip().with_model(scripted(Vec::new())), "trip").build();
    let error = without.expect_err("no parameters");
    assert_eq!(error.code().0, "W0660");
    for part in
        ["agent `trip`", "`city`, `days`, `note`", "missing field", "set them with `params`"]
    {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let tool = trip().with_model(scripted(Vec::new())).as_tool("ask", "asks");
    assert_eq!(tool.expect_err("no parameters").code().0, "W0660");
}

#[tokio::test]
async fn names_and_parameters_that_cannot_be_hosted_are_refused_with_the_fix() {
    let free = Prompt::<()>::builder("a", "greet", "Greet")
        .section(Section::new("task", "Task", "Greet."))
        .build()
        .expect("sound");
    let other = Prompt::<()>::builder("b", "greet", "Greet")
        .section(Section::new("task", "Task", "Greet."))
        .build()
        .expect("sound");
    let model = || scripted(Vec::new());
    let two = || Supervisor::new("team", model()).member(free.with_model(model()), "");
    let error = two().member(other.with_model(model()), "").build().expect_err("one name");
    assert_eq!(error.code().0, "W0626");
    assert!(two().member(other.with_model(model()).name("greet_b"), "").build().is_ok());

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Taken {
        messages: String,
    }
    let taken = Prompt::<Taken>::builder("a", "taken", "Taken").build().expect("sound");
    let error = taken.with_model(model()).build().expect_err("taken").to_string();
    assert!(error.contains("called `messages`"), "{error}");
    let list = Prompt::<Vec<u32>>::builder("a", "list", "List").build().expect("sound");
    let error = list.with_model(model()).build().expect_err("no members").to_string();
    assert!(error.contains("make it a struct"), "{error}");
}

#[tokio::test]
async fn a_runtime_names_the_problems_of_all_graphs_and_ids_that_are_given_twice() {
    let model = || scripted(Vec::new());
    let agent = |name: &str| weftwork_agents::ReactAgent::new(name, model());
    let builder = Runtime::in_memory().graph("a", agent("a").output::<u32>());
    let error = builder.graph("b", agent("b").output::<bool>()).open().await.expect_err("two");
    let text = error.to_string();
    assert!(text.contains("agent `a`") && text.contains("agent `b`"), "{text}");
    let twice = Runtime::in_memory().graph("a", agent("a")).graph("a", agent("a"));
    assert_eq!(twice.open().await.expect_err("twice").code().0, "W0112");
}
