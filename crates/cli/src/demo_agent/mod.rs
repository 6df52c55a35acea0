//! The built-in agent `desk`: the order desk of a small shop, with its own SQLite database.

mod database;
mod tools;
mod weather;

pub(crate) use database::OrderDatabase;
pub(crate) use tools::multiply;

use std::sync::Arc;
use tools::{get_weather, lookup_order, refund_order};
use weftwork::agents::{AgentError, ReactAgent};
use weftwork::config::McpTools;
use weftwork::graph::CompiledGraph;
use weftwork::models::ChatModel;
use weftwork::tools::{Decision, Policy, Rule, ToolBox, ToolPattern};
use weftwork::{AgentDef, Config};

/// The agent's id.
pub(crate) const ID: &str = "builtin:desk";
/// The file name of its database, in the folder of the store.
pub(crate) const FILE: &str = "desk.db";

const INSTRUCTIONS: &str = "You are the order desk of a small lamp shop. Use your tools for orders, \
    refunds, weather and sums, and say only what they tell you.";

/// Creates the agent, with its database in the folder of the store.
pub(crate) fn desk_agent(config: &Config) -> AgentDef {
    AgentDef::new(ID, desk_graph(config))
        .about("orders, refunds (with approval), weather and sums of a small shop")
}

/// Returns the function that builds the graph of the agent for a model.
pub(crate) fn desk_graph(
    config: &Config,
) -> impl Fn(Arc<dyn ChatModel>) -> Result<CompiledGraph, AgentError> + Send + Sync + use<> {
    let file = config.folder().map(|folder| folder.join(FILE));
    let mcp = config.mcp.clone();
    let rules = config.rules.as_ref().map(|rules| rules.policy()).unwrap_or_default();
    move |model| {
        let (more, more_rules) = mcp.as_ref().map(McpTools::parts).unwrap_or_default();
        ReactAgent::new("desk", model)
            .instructions(INSTRUCTIONS)
            .tools(desk_tools(OrderDatabase::new(file.clone())).with_all(more))
            .policy(rules.clone().then(desk_policy()).then(more_rules))
            .build()
    }
}

fn desk_tools(orders: OrderDatabase) -> ToolBox {
    ToolBox::new()
        .with(lookup_order)
        .with(refund_order)
        .with(get_weather)
        .with(multiply)
        .with_ask_human()
        .provide(orders)
}

/// Refunds need approval; the other tools only read.
fn desk_policy() -> Policy {
    let decision = Decision::AskHuman { reason: "it moves money".to_owned() };
    let rule = Rule::new(ToolPattern::One("refund_order".to_owned()), decision);
    Policy { rules: vec![rule], ..Policy::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork::tools::ToolRunner;
    use weftwork::types::tool::ToolSpec;

    #[test]
    fn the_evaluations_of_the_desk_use_its_tools() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evals/left_out/tools.json");
        let text = std::fs::read_to_string(file).expect("the file is there");
        let found: Vec<ToolSpec> = serde_json::from_str(&text).expect("tools");
        let runner =
            ToolRunner::new(desk_tools(OrderDatabase::new(None)), desk_policy()).expect("tools");
        let expected = serde_json::to_string_pretty(&runner.specs()).expect("json");
        assert_eq!(found, runner.specs(), "{file} should hold:\n{expected}");
    }
}
