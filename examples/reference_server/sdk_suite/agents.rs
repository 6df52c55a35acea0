//! The graphs `tools_agent`, whose model calls a tool, and `deep_agent`, whose model hands a task to
//! another agent.

use crate::speech::{self, Speech};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use weftwork::graph::{Semantics, SubgraphState};
use weftwork::models::{ChatRequest, ModelCaller};
use weftwork::prelude::*;
use weftwork::types::message::ToolResult;

/// Finds a query in an index.
#[tool]
fn search(query: String) -> String {
    format!("result for '{query}'")
}

/// Builds the agent that searches once.
///
/// # Errors
/// The problem of its tools or of the graph.
pub(super) fn tools_agent() -> Result<CompiledGraph, Box<dyn Error>> {
    let model = Speech::new("tools", |request| {
        if speech::has_result(request) {
            speech::text("done.")
        } else {
            speech::call("tc-1", "search", &json!({"query": "v3"}))
        }
    });
    let agent = ReactAgent::new("v3_tools_agent", Arc::new(model))
        .instructions("You are a research assistant. Use the search tool when asked.")
        .tools(ToolBox::new().with(search));
    Ok(agent.build()?)
}

#[derive(Debug)]
struct Parts {
    supervisor: Speech,
    caller: ModelCaller,
    researcher: CompiledGraph,
}

async fn supervise(chat: State<Chat>, parts: Deps<Parts>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let messages = chat.messages().iter().cloned().collect();
    let request = ChatRequest { messages, ..ChatRequest::default() };
    let answer = parts.caller.call(&parts.supervisor, request, ctx.calls()).await;
    Ok(ChatUpdate::new().messages([answer.map_err(|error| error.fault())?.message]))
}

/// Runs the researcher for each task of the last message.
async fn tools(chat: State<Chat>, parts: Deps<Parts>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let Some(last) = chat.messages().last() else { return Ok(ChatUpdate::new()) };
    let mut results = Vec::new();
    for call in last.tool_calls() {
        let task = call.args["description"].as_str().unwrap_or_default();
        let input = json!({"messages": [Message::text(ctx.message_id(), Role::User, task)]});
        let output = ctx.call(&parts.researcher, SubgraphState::PerTask, input).await?;
        let said = output["messages"].as_array().and_then(|messages| messages.last());
        let said = said.map(|message| serde_json::from_value::<Message>(message.clone()));
        let said = said.transpose().ok().flatten().map(|message| message.joined_text());
        let result = ToolResult {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            value: json!(said),
            shown: None,
            is_error: false,
        };
        results.push(Message::tool_result(ctx.message_id(), result));
    }
    Ok(ChatUpdate::new().messages(results))
}

fn after_supervisor(chat: State<Chat>) -> Next {
    let calls = chat.messages().last().is_some_and(|last| last.tool_calls().next().is_some());
    if calls { Next::node("tools") } else { Next::End }
}

/// Builds the supervisor with its researcher.
///
/// # Errors
/// The problem of a graph.
pub(super) fn deep_agent() -> Result<CompiledGraph, Box<dyn Error>> {
    let supervisor = Speech::new("supervisor", |request| {
        if speech::has_result(request) {
            speech::text("Research complete.")
        } else {
            let args =
                json!({"subagent_type": "researcher", "description": "research v3 streaming"});
            speech::call("tc-task-1", "task", &args)
        }
    });
    let researcher = Speech::new("researcher", |_| {
        speech::text("v3 streaming is event-typed and thread-centric.")
    });
    let researcher = ReactAgent::new("researcher", Arc::new(researcher)).build()?;
    let parts = Parts { supervisor, caller: ModelCaller::default(), researcher };
    let graph = Graph::<Chat>::new("v3_deep_agent")
        .semantics(Semantics::langgraph())
        .with(parts)
        .node("model", supervise)
        .node("tools", tools)
        .edge(START, "model")
        .route_to("model", ["tools", END], after_supervisor)
        .edge("tools", "model")
        .build()?;
    Ok(graph)
}
