//! The graph `agent`: a message, a call, a question and a subgraph, one after the other.

use crate::speech::{self, Speech};
use serde_json::json;
use weftwork::graph::{BuildError, NodeError};
use weftwork::graph::{Semantics, SubgraphState};
use weftwork::models::{ChatRequest, ModelCaller};
use weftwork::prelude::*;
use weftwork::types::ToolCallId;
use weftwork::types::message::{Part, ToolCall, ToolResult};

/// The state of the graph.
#[derive(Debug, State)]
struct Steps {
    #[channel(messages)]
    messages: List<Message>,
    value: String,
    #[channel(append)]
    items: List<String>,
}

/// The state of the subgraph.
#[derive(Debug, State)]
struct Note {
    #[channel(messages)]
    messages: List<Message>,
    note: String,
}

#[derive(Debug)]
struct Parts {
    model: Speech,
    caller: ModelCaller,
    subgraph: CompiledGraph,
}

/// Tells what a node does, under the name that the suite reads.
fn progress(ctx: &Ctx, phase: &str) {
    ctx.emit(json!({"name": "progress", "step": ctx.node(), "phase": phase}));
}

async fn stream_message(parts: Deps<Parts>, ctx: Ctx) -> NodeResult<StepsUpdate> {
    progress(&ctx, "start");
    let answer = parts.caller.call(&parts.model, ChatRequest::default(), ctx.calls()).await;
    let message = answer.map_err(|error| error.fault())?.message;
    progress(&ctx, "end");
    Ok(StepsUpdate::new().messages([message]).value("x".to_owned()).items(["streamed".to_owned()]))
}

/// Writes a call that no model made, and its result.
async fn call_tool(ctx: Ctx) -> NodeResult<StepsUpdate> {
    progress(&ctx, "start");
    let id = call_id("tc-1")?;
    let name = "search".to_owned();
    let args = json!({"query": "v3"});
    let call = ToolCall { id: id.clone(), name: name.clone(), args, shown: None };
    let asks = Message {
        id: ctx.message_id(),
        role: Role::Assistant,
        parts: vec![Part::ToolCall(call)],
        extra: None,
    };
    let value = json!("result for 'v3'");
    let result = ToolResult { tool_call_id: id, name, value, shown: None, is_error: false };
    let result = Message::tool_result(ctx.message_id(), result);
    progress(&ctx, "end");
    Ok(StepsUpdate::new().messages([asks, result]).items(["tool".to_owned()]))
}

fn call_id(id: &str) -> NodeResult<ToolCallId> {
    ToolCallId::new(id).map_err(|error| NodeError::of_kind("ValueError", error.to_string()))
}

async fn ask_human(ctx: Ctx) -> NodeResult<StepsUpdate> {
    progress(&ctx, "start");
    let answer = ctx.interrupt(json!("Are we good?"))?;
    let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
    progress(&ctx, "end");
    let said = Message::text(ctx.message_id(), Role::Assistant, format!("Human said: {answer}"));
    Ok(StepsUpdate::new().messages([said]).items(["asked".to_owned()]))
}

async fn run_subgraph(parts: Deps<Parts>, ctx: Ctx) -> NodeResult<StepsUpdate> {
    progress(&ctx, "start");
    let input = json!({"messages": [], "note": ""});
    let output = ctx.call(&parts.subgraph, SubgraphState::PerTask, input).await?;
    let messages = serde_json::from_value::<Vec<Message>>(output["messages"].clone());
    let messages = messages.map_err(|error| NodeError::of_kind("ValueError", error.to_string()))?;
    progress(&ctx, "end");
    Ok(StepsUpdate::new().messages(messages).items(["sub".to_owned()]))
}

fn subgraph() -> Result<CompiledGraph, BuildError> {
    async fn sub(ctx: Ctx) -> NoteUpdate {
        progress(&ctx, "start");
        let said = Message::text(ctx.message_id(), Role::Assistant, "from subgraph");
        progress(&ctx, "end");
        NoteUpdate::new().messages([said]).note("ran".to_owned())
    }
    let graph = Graph::<Note>::new("subgraph").semantics(Semantics::langgraph());
    graph.node("sub", sub).edge(START, "sub").build()
}

/// Builds the graph.
///
/// # Errors
/// [`BuildError`] if it is not sound.
pub(super) fn agent() -> Result<CompiledGraph, BuildError> {
    let model = Speech::new("streaming", |_| speech::text("Hello, world!"));
    let parts = Parts { model, caller: ModelCaller::default(), subgraph: subgraph()? };
    Graph::<Steps>::new("v3_integration_agent")
        .semantics(Semantics::langgraph())
        .with(parts)
        .node("stream_message", stream_message)
        .node("call_tool", call_tool)
        .node("ask_human", ask_human)
        .node("run_subgraph", run_subgraph)
        .edge(START, "stream_message")
        .edge("stream_message", "call_tool")
        .edge("call_tool", "ask_human")
        .edge("ask_human", "run_subgraph")
        .build()
}
