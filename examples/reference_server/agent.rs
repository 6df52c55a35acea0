//! The graph `agent`: a scripted model that adds two numbers with a tool.

use std::sync::Arc;
use weftwork::agents::{Chat, ChatUpdate};
use weftwork::graph::Semantics;
use weftwork::models::{
    ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelCaller, ModelInfo,
};
use weftwork::prelude::*;
use weftwork::tools::{Executed, Policy, Prepared, ToolRunner, tool_result};

/// Answers with a call of the tool, and with its result once it is there.
#[derive(Debug)]
struct Adder(ModelInfo);

impl ChatModel for Adder {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let result = request.messages.last().and_then(|last| last.tool_results().next());
        let (text, reason) = match result {
            Some(result) => (
                format!("The answer is {} as computed by the tool", result.value),
                FinishReason::Stop,
            ),
            None => ("Let me add these".to_owned(), FinishReason::ToolCalls),
        };
        let mut events = Vec::new();
        for word in text.split_inclusive(' ') {
            let (word, space) = word.split_at(word.trim_end().len());
            let parts = [word, space].into_iter().filter(|part| !part.is_empty());
            events.extend(parts.map(|part| ChatEvent::TextDelta(part.to_owned())));
        }
        if reason == FinishReason::ToolCalls {
            events.push(ChatEvent::ToolCallDelta {
                index: 0,
                id: Some("call_1".to_owned()),
                name: Some("add".to_owned()),
                args: r#"{"a":2,"b":3}"#.to_owned(),
            });
        }
        events.push(ChatEvent::Finish { reason, provider_call_id: None });
        Box::pin(futures_util::stream::iter(events.into_iter().map(Ok)))
    }
}

/// add two ints
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[derive(Debug)]
struct Parts {
    model: Adder,
    caller: ModelCaller,
    runner: ToolRunner,
}

async fn answer(chat: State<Chat>, parts: Deps<Parts>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let messages = chat.messages().iter().cloned().collect();
    let request = ChatRequest { messages, tools: parts.runner.specs(), ..ChatRequest::default() };
    let answer = parts.caller.call(&parts.model, request, ctx.calls()).await;
    let answer = answer.map_err(|error| error.fault())?;
    Ok(ChatUpdate::new().messages([answer.message]))
}

async fn tools(chat: State<Chat>, parts: Deps<Parts>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let Some(last) = chat.messages().last() else { return Ok(ChatUpdate::new()) };
    let mut results = Vec::new();
    for call in last.tool_calls() {
        let Prepared::Ready(ready) = parts.runner.prepare(call, ctx.calls()) else { continue };
        let done = parts.runner.execute(ready).await.map_err(|error| error.fault())?;
        if let Executed::Done(outcome) = done {
            results.push(Message::tool_result(ctx.message_id(), tool_result(call, &outcome)));
        }
    }
    Ok(ChatUpdate::new().messages(results))
}

fn after_answer(chat: State<Chat>) -> Next {
    let calls = chat.messages().last().is_some_and(|last| last.tool_calls().next().is_some());
    if calls { Next::node("tools") } else { Next::End }
}

/// Builds the graph.
///
/// # Errors
/// The problem of its tools or of the graph.
pub(crate) fn agent() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let info =
        ModelInfo { provider: "scripted".to_owned(), model: "adder".to_owned(), label: None };
    let runner = ToolRunner::new(ToolBox::new().with(add), Policy::new())?;
    let parts = Parts { model: Adder(info), caller: ModelCaller::default(), runner };
    let graph = Graph::<Chat>::new("agent")
        .semantics(Semantics::langgraph())
        .with(parts)
        .node("agent", answer)
        .node("tools", tools)
        .edge(START, "agent")
        .route_to("agent", ["tools", END], after_answer)
        .edge("tools", "agent")
        .build()?;
    Ok(graph)
}
