//! A model whose answer follows from the request alone.

use futures_util::stream;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::models::{ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo};
use weftwork::types::port::Clock;

/// Time before each event of an answer. The suite expects that a run asks within 0.1 seconds, but not
/// before its clients have subscribed.
const PAUSE: Duration = Duration::from_millis(12);

/// The events of an answer, each computed when it is due.
pub(crate) type Events = Box<dyn Iterator<Item = ChatEvent> + Send>;

/// The function that answers a request.
type Answer = fn(&ChatRequest) -> Events;

/// The model.
#[derive(Debug)]
pub(crate) struct Speech {
    info: ModelInfo,
    answer: Answer,
    pause: Duration,
    clock: Arc<SystemClock>,
}

impl Speech {
    /// Creates a model with this name and these answers.
    pub(crate) fn new(name: &str, answer: Answer) -> Self {
        let info =
            ModelInfo { provider: "scripted".to_owned(), model: name.to_owned(), label: None };
        Self { info, answer, pause: PAUSE, clock: Arc::new(SystemClock::new()) }
    }

    /// Sets the time before each event.
    pub(crate) fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

impl ChatModel for Speech {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let clock = Arc::clone(&self.clock);
        let pause = self.pause;
        let events = Some((self.answer)(&request));
        Box::pin(stream::unfold(events, move |events| {
            let pause = clock.sleep(pause);
            async move {
                let mut events = events?;
                pause.await;
                let event = events.next()?;
                let is_last = matches!(event, ChatEvent::Finish { .. });
                Some((Ok(event), (!is_last).then_some(events)))
            }
        }))
    }
}

/// The events of a text.
pub(crate) fn text(text: &str) -> Events {
    let mut events = Vec::new();
    for (index, word) in text.split(' ').enumerate() {
        let space = if index == 0 { "" } else { " " };
        events.push(ChatEvent::TextDelta(format!("{space}{word}")));
    }
    events.push(finish(FinishReason::Stop));
    Box::new(events.into_iter())
}

/// The events of one call of a tool.
pub(crate) fn call(id: &str, tool: &str, args: &Value) -> Events {
    let call = ChatEvent::ToolCallDelta {
        index: 0,
        id: Some(id.to_owned()),
        name: Some(tool.to_owned()),
        args: args.to_string(),
    };
    Box::new([call, finish(FinishReason::ToolCalls)].into_iter())
}

/// The end of an answer.
pub(crate) fn finish(reason: FinishReason) -> ChatEvent {
    ChatEvent::Finish { reason, provider_call_id: None }
}

/// Returns `true` if a request has a result of a tool.
pub(crate) fn has_result(request: &ChatRequest) -> bool {
    request.messages.iter().any(|message| message.tool_results().next().is_some())
}
