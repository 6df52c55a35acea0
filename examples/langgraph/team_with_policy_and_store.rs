//! A supervisor with two workers, a refund that needs an approval, and SQLite:
//! `cargo run --example team_with_policy_and_store DB say|questions|approve|reject THREAD [TEXT]`.
//!
//! Each command is a process of its own; `say` may be killed while it waits.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use std::error::Error;
use weftwork::agents::{Supervisor, TeamState};
use weftwork::models::ChatRequest;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::interrupt::Interrupt;

/// Looks up where an order is.
#[tool]
fn look_up_order(order: String) -> String {
    format!("order {order} arrives tomorrow")
}

/// Refunds an order.
#[tool(effect = external_side_effect)]
fn refund_order(order: String, euros: u32) -> String {
    format!("refunded {euros} euros for order {order}")
}

fn lead(request: &ChatRequest) -> Step {
    if let Some(report) = request.last_tool_result() {
        return Step::text(format!("Done: {}", report.text()));
    }
    let refund = request.last_user_text().starts_with("Refund");
    Step::call(if refund { "transfer_to_refunds" } else { "transfer_to_orders" }, json!({}))
}

fn orders(request: &ChatRequest) -> Step {
    match request.last_tool_result() {
        Some(result) => Step::text(result.text()),
        None => Step::call("look_up_order", json!({"order": "A1"})),
    }
}

fn refunds(request: &ChatRequest) -> Step {
    if let Some(result) = request.last_tool_result() {
        return Step::text(result.text());
    }
    let text = request.last_user_text();
    let euros = text.split(' ').next_back().and_then(|word| word.parse::<u32>().ok());
    Step::call("refund_order", json!({"order": "A1", "euros": euros}))
}

fn build_team() -> Result<Supervisor, Box<dyn Error>> {
    let orders = ReactAgent::new("orders", ScriptedModel::from_fn(orders))
        .instructions("You look up where an order is.")
        .tools(ToolBox::new().with(look_up_order));
    let policy = Policy::builder()
        .ask_human("refund_order", "it moves money")
        .when("args.euros > 50")
        .allow("refund_order");
    let refunds = ReactAgent::new("refunds", ScriptedModel::from_fn(refunds))
        .instructions("You refund orders.")
        .tools(ToolBox::new().with(refund_order))
        .policy(policy.build()?);
    Ok(Supervisor::new("team", ScriptedModel::from_fn(lead))
        .instructions("Hand each request to the member whose work it is.")
        .member(orders, "looks up where an order is")
        .member(refunds, "refunds orders"))
}

async fn asked(thread: &Thread) -> Result<Interrupt, Box<dyn Error>> {
    Ok(thread.questions().await?.into_iter().next().ok_or("nothing is asked")?)
}

async fn show(thread: &Thread) -> Result<(), Box<dyn Error>> {
    let questions = thread.questions().await?;
    for question in &questions {
        println!("{}", question.ask);
    }
    if questions.is_empty() {
        let last = thread.read::<TeamState>().await?.messages().iter().last().cloned();
        println!("{}", last.map(|last| last.joined_text()).unwrap_or_default());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database, command, thread, words @ ..] = &args[..] else { return Err("usage".into()) };
    let text = words.join(" ");
    let runtime = Runtime::sqlite(database)?.graph("team", build_team()?).open().await?;
    let thread = runtime.thread("team", thread)?;
    match command.as_str() {
        "say" => drop(thread.say(text).await?),
        "approve" => drop(thread.answer(asked(&thread).await?.approve()).await?),
        "reject" => drop(thread.answer(asked(&thread).await?.reject(text)).await?),
        _ => {}
    }
    show(&thread).await
}
