//! Tools with run-scoped dependencies.

use crate::desk::{messages, said};
use serde_json::json;
use std::sync::Arc;
use weftwork_agents::ReactAgent;
use weftwork_graph::CompiledGraph;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::Runtime;
use weftwork_tools::{Deps, Policy, ToolBox, tool};
use weftwork_types::port::Dependencies;
use weftwork_types::{OrgId, Principal};

/// The orders of an organisation.
struct Orders(String);

/// Counts the orders.
#[tool]
fn count_orders(orders: Deps<Orders>) -> String {
    format!("all orders of {}", orders.0.0)
}

fn agent() -> CompiledGraph {
    let steps = [Step::call("count_orders", json!({})), Step::text("Done.")];
    let model = ScriptedModel::from_steps([steps.clone(), steps].concat());
    let tools = ToolBox::new().provide(Orders("nobody".to_owned())).provide_run_scoped::<Orders>();
    let agent = ReactAgent::new("desk", Arc::new(model)).tools(tools.with(count_orders));
    agent.policy(Policy::new()).build().expect("a sound agent")
}

#[tokio::test]
async fn tools_take_the_values_of_their_run() {
    let host = Runtime::in_memory().graph_with("desk", agent(), |who, _| {
        Ok(Dependencies::new().with(Orders(who.org.to_string())))
    });
    let runtime = host.open().await.expect("opens");
    for org in ["north", "south"] {
        let who = Principal::new(OrgId::new(org).expect("an id"), "ada");
        let thread = runtime.thread("desk", "t").expect("valid names").with_principal(who);
        let ended = thread.start(said("How many?")).await.expect("accepted");
        let said = messages(ended.outcome());
        let result = said[2].tool_results().next().expect("a result");
        assert_eq!(result.value, json!(format!("all orders of {org}")));
    }
}
