//! A graph of your own that evaluates prompts: `cargo run --example prompt_graph`.
//!
//! It drafts an answer with the model and the tools of the prompt, and has it checked once.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use std::sync::Arc;
use weftwork::agents::{Model, PromptRun, Tools};
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};

#[derive(State)]
struct Draft {
    #[channel(messages)]
    messages: List<Message>,
    #[channel(default)]
    checked: bool,
}

/// Returns the population of a city.
#[tool]
fn population(city: String) -> u64 {
    if city == "Bern" { 146_000 } else { 0 }
}

/// Asks the model, and executes the tools that it calls, one after the other.
async fn draft(
    state: State<Draft>,
    model: Model,
    tools: Tools,
    ctx: Ctx,
) -> NodeResult<DraftUpdate> {
    let mut messages: Vec<Message> = state.messages().iter().cloned().collect();
    let before = messages.len();
    loop {
        let answer = model.ask(&messages).await?;
        messages.push(answer.clone());
        for call in answer.tool_calls() {
            let result = tools.execute(call).await?;
            messages.push(Message::tool_result(ctx.message_id(), result));
        }
        if answer.tool_calls().next().is_none() {
            return Ok(DraftUpdate::new().messages(messages.split_off(before)));
        }
    }
}

/// Asks the model to check its draft.
async fn check(ctx: Ctx) -> DraftUpdate {
    let text = "Check your answer, and say it in one sentence.";
    DraftUpdate::new().checked(true).messages([Message::text(ctx.message_id(), Role::User, text)])
}

/// Successors of `draft`.
#[derive(Routes)]
enum AfterDraft {
    Check,
    End,
}

fn after_draft(state: State<Draft>) -> AfterDraft {
    if *state.checked() { AfterDraft::End } else { AfterDraft::Check }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::<Draft>::new("draft")
        .with_run_scoped::<PromptRun>()
        .node("draft", draft)
        .node("check", check)
        .edge(START, "draft")
        .route("draft", after_draft)
        .edge("check", "draft")
        .build()?;
    let prompt = Prompt::<()>::builder("examples", "population", "Population")
        .section(Section::new("task", "Task", "How many live in Bern?").tool(population))
        .build()?;
    let model = ScriptedModel::from_steps(vec![
        Step::call("population", json!({"city": "Bern"})),
        Step::text("146000 or so."),
        Step::text("About 146,000 people live in Bern."),
    ]);
    let evaluator = Evaluator::builder(Arc::new(model)).graph(graph).open().await?;
    let response = evaluator.evaluate(&prompt, ()).await?.done().ok_or("it asks nothing")?;
    println!("{}", response.text);
    assert_eq!((response.usage.model_calls, response.usage.tool_calls), (3, 1));
    Ok(())
}
