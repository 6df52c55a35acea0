//! A prompt whose tool needs a person's approval: `cargo run --example human_approval`.
//!
//! The evaluation is a thread of a runtime. Here it is in memory; over `Runtime::sqlite(file)?` the
//! approval may come days later, in another process.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use std::sync::Arc;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};

/// Refunds an order.
#[tool(effect = external_side_effect)]
fn refund(order: String, euros: u32) -> String {
    format!("refunded {euros} euros for {order}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::builder()
        .ask_human("refund", "it moves money")
        .when("args.euros > 20")
        .allow("refund")
        .build()?;
    let task = Section::new("task", "Task", "Refund order A1.").tool(refund).policy(policy);
    let prompt = Prompt::<()>::builder("examples", "refund", "Refund").section(task).build()?;
    let call = Step::call("refund", json!({"order": "A1", "euros": 25}));
    let model = Arc::new(ScriptedModel::from_steps(vec![call, Step::text("It is refunded.")]));
    let evaluator = Evaluator::builder(model).runtime(Runtime::in_memory()).open().await?;

    let session = evaluator.new_session();
    let evaluated = evaluator.evaluate(&prompt, ()).session(&session).await?;
    let waiting = evaluated.interrupted().ok_or("the refund needs an approval")?;
    let [question] = &waiting.interrupts[..] else { return Err("one question".into()) };
    println!("{}", question.ask);

    let evaluated = evaluator.answer(&prompt, &waiting.thread, question.approve()).await?;
    let response = evaluated.done().ok_or("nothing else is asked")?;
    println!("{}", response.text);
    assert_eq!(response.usage.tool_calls, 1);
    Ok(())
}
