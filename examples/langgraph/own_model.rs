//! A chat model of one's own in an agent: text by the word, tool calls, usage:
//! `cargo run --example own_model TEXT`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use std::sync::Arc;
use weftwork::models::{ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo};
use weftwork::prelude::*;
use weftwork::types::event::AiEvent;
use weftwork::types::usage::Tokens;

#[derive(Debug)]
struct Abacus(ModelInfo);

impl Abacus {
    fn new() -> Self {
        Self(ModelInfo { provider: "own".into(), model: "abacus".into(), label: None })
    }
}

impl ChatModel for Abacus {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let has_tool = request.tools.iter().any(|tool| tool.wire_name() == "multiply");
        let factors = factors(&request.last_user_text()).filter(|_| has_tool);
        let mut events = Vec::new();
        let reason = match (request.last_tool_result(), factors) {
            (None, Some((a, b))) => {
                let args = json!({"a": a, "b": b}).to_string();
                let name = Some("multiply".to_owned());
                events.push(ChatEvent::ToolCallDelta { index: 0, id: None, name, args });
                FinishReason::ToolCalls
            }
            (result, _) => {
                let product = result.map(|result| format!("It is {}.", result.text()));
                let answer = product.unwrap_or_else(|| "I only multiply.".to_owned());
                let words = answer.split_inclusive(' ');
                events.extend(words.map(|word| ChatEvent::TextDelta(word.to_owned())));
                FinishReason::Stop
            }
        };
        let read = request.messages.iter().map(words).sum();
        events.push(ChatEvent::Usage(Tokens::reported(read, events.len() as u64)));
        events.push(ChatEvent::Finish { reason, provider_call_id: None });
        stream::iter(events).map(Ok).boxed()
    }
}

fn words(message: &Message) -> u64 {
    let results: usize = message.tool_results().map(|_| 1).sum();
    (results + message.joined_text().split_whitespace().count()) as u64
}

fn factors(text: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let at = words.iter().position(|word| *word == "times")?;
    Some((words.get(at.checked_sub(1)?)?.parse().ok()?, words.get(at + 1)?.parse().ok()?))
}

/// Multiplies two numbers.
#[tool]
fn multiply(a: u64, b: u64) -> u64 {
    a * b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let agent = ReactAgent::new("agent", Abacus::new()).tools(ToolBox::new().with(multiply));
    let runtime = Runtime::in_memory().graph("agent", agent).open().await?;
    let mut run = runtime.thread("agent", "t")?.say(text).begin().await?;
    let mut tokens = 0;
    while let Some(next) = run.try_next().await? {
        match (next.text(), next.event().map(|event| &event.event)) {
            (Some(part), _) => print!("[{}]", part.text),
            (_, Some(AiEvent::UsageReport { fact, .. })) => {
                tokens += fact.tokens.input + fact.tokens.output;
            }
            _ => {}
        }
    }
    println!("\n{tokens} tokens");
    Ok(())
}
