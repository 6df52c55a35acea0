//! The graphs `pair` and `stutter` on scripted models. `pair` is a team of two members that work at
//! the same time and call a tool, which needs approval, with one id. The model of `stutter` fails
//! within its first answer, and answers when it is asked again.

use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::agents::Supervisor;
use weftwork::models::{ChatEvent, FinishReason};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;

/// Number of conversations for which the models have answers.
const CONVERSATIONS: usize = 64;

/// Greets a person.
#[tool(effect = external_side_effect, example(request = "Greet Anna.", args = {"name": "Anna"}))]
fn greet(name: String) -> String {
    format!("greeted {name}")
}

/// A model that plays the same steps in each conversation.
fn model(steps: &[Step]) -> Arc<ScriptedModel> {
    let all = steps.iter().cloned().cycle().take(steps.len() * CONVERSATIONS);
    Arc::new(ScriptedModel::from_steps(all))
}

/// An answer with one call whose id is `call_1`.
fn call(tool: &str, args: &Value) -> Step {
    let called = ChatEvent::ToolCallDelta {
        index: 0,
        id: Some("call_1".to_owned()),
        name: Some(tool.to_owned()),
        args: args.to_string(),
    };
    let finish = ChatEvent::Finish { reason: FinishReason::ToolCalls, provider_call_id: None };
    Step::events(vec![Ok(called), Ok(finish)])
}

fn greeter(name: &str, person: &str) -> Result<ReactAgent, Box<dyn std::error::Error>> {
    let steps = [call("greet", &json!({"name": person})), Step::text(format!("{name} is done."))];
    let policy = Policy::new().ask_human("greet", "it is seen")?;
    let agent = ReactAgent::new(name, model(&steps)).tools(ToolBox::new().with(greet));
    Ok(agent.policy(policy))
}

/// Builds the team.
///
/// # Errors
/// The problem of its tools or of a graph.
pub(crate) fn pair() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let hand_off = |name: &str| (format!("transfer_to_{name}"), json!({}));
    let both = Step::calls(vec![hand_off("anna"), hand_off("bert")]);
    let team = Supervisor::new("pair", model(&[both, Step::text("Both are done.")]));
    let team = team.member(greeter("anna", "Anna")?, "greets Anna");
    Ok(team.member(greeter("bert", "Bert")?, "greets Bert").build()?)
}

/// Builds the agent whose first attempts fail.
///
/// # Errors
/// The problem of the graph.
pub(crate) fn stutter() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let steps = [Step::cut("Good mor"), Step::text("Good day to you.")];
    Ok(ReactAgent::new("stutter", model(&steps)).build()?)
}
