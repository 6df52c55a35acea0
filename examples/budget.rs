//! An evaluation that stops at its budget: `cargo run --example budget`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use std::sync::Arc;
use weftwork::agents::EvaluationErrorKind;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::port::{LimitedBudget, Limits};
use weftwork::types::usage::Usage;

/// Searches again.
#[tool]
fn search(query: String) -> String {
    format!("nothing about {query}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = Prompt::<()>::builder("examples", "search", "Search")
        .section(Section::new("task", "Task", "Find it.").tool(search))
        .build()?;
    // A model that never stops on its own.
    let again = (0..20).map(|_| Step::call("search", json!({"query": "it"})));
    let model = Arc::new(ScriptedModel::from_steps(again));
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await?;

    // The budget is shared by all evaluations that get it, and by those that their tools make.
    let limits = Limits { model_calls: Some(3), ..Limits::default() };
    let budget = LimitedBudget::new(limits, Usage::default());
    for _ in 0..2 {
        match evaluator.evaluate(&prompt, ()).budget(budget.clone()).await {
            Ok(_) => return Err("the budget should be used up".into()),
            Err(error) if error.kind == EvaluationErrorKind::Budget => {
                println!("{error} (used: {} model calls)", error.usage.model_calls);
            }
            Err(error) => return Err(error.into()),
        }
    }
    assert_eq!((model.calls(), budget.used().model_calls), (3, 3));
    Ok(())
}
