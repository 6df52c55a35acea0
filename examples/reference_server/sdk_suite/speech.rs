//! A model whose answer follows from the request alone.

use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::models::{ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo};
use weftwork::types::port::Clock;

/// Time before each event of an answer. The suite expects that a run asks within 0.1 seconds, but not
/// before its clients have subscribed.
const PAUSE: Duration = Duration::from_millis(12);

/// The function that answers a request.
type Answer = fn(&ChatRequest) -> Vec<ChatEvent>;

/// The model.
#[derive(Debug)]
pub(super) struct Speech {
    info: ModelInfo,
    answer: Answer,
    clock: Arc<SystemClock>,
}

impl Speech {
    /// Creates a model with this name and these answers.
    pub(super) fn new(name: &str, answer: Answer) -> Self {
        let (provider, model) = ("scripted".to_owned(), name.to_owned());
        let info = ModelInfo { provider, model, label: None };
        Self { info, answer, clock: Arc::new(SystemClock::new()) }
    }
}

impl ChatModel for Speech {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let clock = Arc::clone(&self.clock);
        let events = stream::iter((self.answer)(&request)).then(move |event| {
            let pause = clock.sleep(PAUSE);
            async move {
                pause.await;
                Ok(event)
            }
        });
        Box::pin(events)
    }
}

/// The events of a text.
pub(super) fn text(text: &str) -> Vec<ChatEvent> {
    let mut events = Vec::new();
    for (index, word) in text.split(' ').enumerate() {
        let space = if index == 0 { "" } else { " " };
        events.push(ChatEvent::TextDelta(format!("{space}{word}")));
    }
    events.push(finish(FinishReason::Stop));
    events
}

/// The events of one call of a tool.
pub(super) fn call(id: &str, tool: &str, args: &Value) -> Vec<ChatEvent> {
    let call = ChatEvent::ToolCallDelta {
        index: 0,
        id: Some(id.to_owned()),
        name: Some(tool.to_owned()),
        args: args.to_string(),
    };
    vec![call, finish(FinishReason::ToolCalls)]
}

fn finish(reason: FinishReason) -> ChatEvent {
    ChatEvent::Finish { reason, provider_call_id: None }
}

/// Returns `true` if a request has a result of a tool.
pub(super) fn has_result(request: &ChatRequest) -> bool {
    request.messages.iter().any(|message| message.tool_results().next().is_some())
}
