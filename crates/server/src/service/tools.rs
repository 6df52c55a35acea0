//! The tools of hosted graphs, for people who do not know an agent yet.

use super::Service;
use crate::error::Result;
use serde_json::{Value, json};
use weftwork_graph::CompiledGraph;
use weftwork_types::tool::{AgentTools, Permission, ToolSummary};

/// Number of example requests.
const REQUESTS_MAX: usize = 2;

/// A tool, and the member of a team that has it.
struct Found {
    member: Option<String>,
    tool: ToolSummary,
}

impl Service {
    /// Returns the tools of an assistant, and requests that they are for.
    pub(crate) async fn tools(&self, assistant: &str) -> Result<Value> {
        let assistant = self.chosen(assistant).await?;
        let graph = self.hosted(assistant.record.graph())?.graph;
        let mut found = Vec::new();
        add_tools(&graph, None, &mut found);
        let tools: Vec<Value> = found.iter().map(tool_to_json).collect();
        Ok(json!({"tools": tools, "requests": requests(&found)}))
    }
}

/// Adds the tools of a graph and of its subgraphs.
fn add_tools(graph: &CompiledGraph, member: Option<&str>, found: &mut Vec<Found>) {
    if let Some(tools) = graph.dependencies().get::<AgentTools>() {
        let member = member.map(str::to_owned);
        let of_graph = tools.0.iter().cloned();
        found.extend(of_graph.map(|tool| Found { member: member.clone(), tool }));
    }
    for (_, subgraph) in graph.subgraphs() {
        add_tools(subgraph, Some(subgraph.name()), found);
    }
}

/// Returns example requests of different tools: the first one, and one for which a person is asked, or
/// the next one if there is none.
fn requests(found: &[Found]) -> Vec<&str> {
    let asks = |found: &&Found| matches!(found.tool.permission, Permission::Asks { .. });
    let mut requests: Vec<&str> = Vec::new();
    for tool in found.iter().take(1).chain(found.iter().filter(asks)).chain(found) {
        let Some(example) = tool.tool.spec.examples.first() else { continue };
        if requests.len() < REQUESTS_MAX && !requests.contains(&example.request.as_str()) {
            requests.push(&example.request);
        }
    }
    requests
}

fn tool_to_json(Found { member, tool: ToolSummary { spec, permission } }: &Found) -> Value {
    let reason = match permission {
        Permission::Asks { reason } => Some(reason),
        _ => None,
    };
    let permission = match permission {
        Permission::Allowed => "allowed",
        Permission::Asks { .. } => "asks",
        Permission::Depends => "depends",
        Permission::Denied => "denied",
    };
    json!({
        "name": spec.name,
        "wire_name": spec.wire_name(),
        "description": spec.description,
        "member": member,
        "effect": spec.effect,
        "permission": permission,
        "reason": reason,
    })
}
