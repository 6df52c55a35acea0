//! `weft` with an agent whose tools misbehave, for tests of such tools. It is also an example of a
//! program that offers the command line for its own agents.

use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use weftwork::agents::{AgentError, ReactAgent};
use weftwork::graph::{CompiledGraph, Ctx, Graph, NodeError, NodeResult, START};
use weftwork::tool;
use weftwork::tools::ToolBox;
use weftwork::{AgentDef, State};

/// Panics.
#[tool(example(request = "Please panic.", args = {}))]
fn panic_now() -> String {
    unreachable!("a tool with a bug")
}

/// Never ends.
#[tool(timeout_ms = 200, example(request = "Please hang.", args = {}))]
async fn hang_forever() -> String {
    std::future::pending().await
}

/// Waits until it is stopped, for a minute.
#[tool(timeout_ms = 60000, example(request = "Please wait.", args = {}))]
async fn wait_long() -> String {
    std::future::pending().await
}

/// Computes without giving control back.
#[tool(timeout_ms = 60000, example(request = "Please compute stubbornly.", args = {}))]
fn compute_stubbornly() -> String {
    // Events are delivered when the run's task is polled again, so only this output shows that the
    // tool has started.
    std::io::stdout().write_all(b"computing\n").unwrap_or_default();
    std::thread::sleep(Duration::from_secs(60));
    String::new()
}

/// Returns fifty megabytes.
#[tool(example(request = "Please flood me.", args = {}))]
fn flood_me() -> Flood {
    Flood { text: "x".repeat(50 << 20) }
}

/// Finds an order, with a member that only the model reads.
#[tool(shown(id), example(request = "Please find the order.", args = {}))]
fn find_the_order() -> FoundOrder {
    FoundOrder { id: "A-1".to_owned(), card: 4111 }
}

#[derive(Serialize, schemars::JsonSchema)]
struct FoundOrder {
    id: String,
    // The scripted model repeats results, with names of members as words.
    #[serde(rename = "CANARY_CARD")]
    card: u32,
}

/// The state of the agents `changing` and `failing`.
#[derive(State)]
struct Form {
    #[channel(default)]
    name: String,
}

async fn ask(ctx: Ctx) -> NodeResult<FormUpdate> {
    let answer = ctx.interrupt(json!("What is your name?"))?;
    Ok(FormUpdate::new().name(answer.to_string()))
}

/// A graph whose node name can differ between builds.
fn changing() -> Result<CompiledGraph, AgentError> {
    let node = std::env::var("WEFT_TRIAL_NODE").unwrap_or_else(|_| "ask".to_owned());
    Ok(Graph::<Form>::new("changing").node(&node, ask).edge(START, &node).build()?)
}

/// Fails while `WEFT_TRIAL_FAILS` is set.
async fn work(_: weftwork::graph::State<Form>) -> NodeResult<FormUpdate> {
    match std::env::var("WEFT_TRIAL_FAILS") {
        Ok(why) => Err(NodeError::message(why)),
        Err(_) => Ok(FormUpdate::new().name("done".to_owned())),
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct Flood {
    text: String,
}

fn main() -> ExitCode {
    weftwork_cli::Program::new()
        .agent(|_config| {
            AgentDef::new("trial", |model| {
                let tools = ToolBox::new()
                    .with(panic_now)
                    .with(hang_forever)
                    .with(wait_long)
                    .with(compute_stubbornly)
                    .with(flood_me)
                    .with(find_the_order);
                ReactAgent::new("trial", model).tools(tools)
            })
        })
        .agent(|_config| AgentDef::new("changing", |_model| changing()))
        .agent(|_config| {
            AgentDef::new("failing", |_model| {
                Graph::<Form>::new("failing").node("work", work).edge(START, "work")
            })
        })
        .run()
}
