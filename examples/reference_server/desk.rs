//! The graphs `desk` and `slow_desk`: an order desk on the scripted model, with a tool that needs
//! approval. The second one speaks slowly, so that clients can leave while it does.

use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;

#[derive(Debug, Serialize, JsonSchema)]
struct Order {
    order_id: String,
    item: String,
    status: String,
}

/// Finds an order by its number.
#[tool(example(request = "Where is order A1003?", args = {"order_id": "A1003"}))]
fn lookup_order(order_id: String) -> Result<Order, ToolError> {
    let found = |item: &str, status: &str| {
        Ok(Order { order_id: order_id.clone(), item: item.to_owned(), status: status.to_owned() })
    };
    match order_id.as_str() {
        "A1001" => found("desk lamp", "delivered"),
        "A1002" => found("floor lamp", "delivered"),
        "A1003" => found("wall lamp", "on its way"),
        other => Err(ToolError::failed(format_args!("there is no order `{other}`"))),
    }
}

/// Gives money back for an order.
#[tool(
    effect = external_side_effect,
    on_unknown = idempotent,
    example(request = "Refund order A1002, amount 40.", args = {"order_id": "A1002", "amount": 40})
)]
fn refund_order(order_id: String, amount: f64) -> String {
    format!("refunded {amount} for {order_id}")
}

/// Time between two words of the slow desk.
const PAUSE: Duration = Duration::from_millis(150);

/// Builds the agent.
///
/// # Errors
/// The problem of its tools or of the graph.
pub(crate) fn desk() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    build("desk", ScriptedModel::rules())
}

/// Builds the agent that speaks slowly.
///
/// # Errors
/// The problem of its tools or of the graph.
pub(crate) fn slow_desk() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    build("slow_desk", ScriptedModel::rules().paced(Arc::new(SystemClock::new()), PAUSE))
}

fn build(name: &str, model: ScriptedModel) -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let tools = ToolBox::new().with(lookup_order).with(refund_order).with_ask_human();
    let agent = ReactAgent::new(name, Arc::new(model))
        .instructions("You are the order desk of a small lamp shop.")
        .tools(tools)
        .policy(Policy::new().ask_human("refund_order", "it moves money")?);
    Ok(agent.build()?)
}
