//! The graph `clock`: an agent that says the time, word by word, so that clients can tell how old a
//! word is when they receive it.

use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weftwork::graph::SystemClock;
use weftwork::models::{ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo};
use weftwork::prelude::*;
use weftwork::types::port::Clock;

/// Time between two words.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of words of an answer.
const WORDS_MAX: usize = 1_000;

/// Says as many words as the last message asks for. A word is `at` and the microseconds since 1970
/// at which the model says it.
#[derive(Debug)]
struct Speaker {
    info: ModelInfo,
    clock: Arc<SystemClock>,
}

impl ChatModel for Speaker {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let words = request.messages.last().and_then(|last| last.joined_text().parse().ok());
        let words = words.unwrap_or(1).min(WORDS_MAX);
        let clock = Arc::clone(&self.clock);
        let said = stream::iter(0..words).then(move |_| {
            let pause = clock.sleep(PAUSE);
            async move {
                pause.await;
                Ok(ChatEvent::TextDelta(format!("at{} ", micros())))
            }
        });
        let end = ChatEvent::Finish { reason: FinishReason::Stop, provider_call_id: None };
        Box::pin(said.chain(stream::iter([Ok(end)])))
    }
}

#[expect(clippy::disallowed_methods, reason = "clients compare the word with the system's time")]
fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// Builds the agent.
///
/// # Errors
/// The problem of the graph.
pub(crate) fn clock() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let (provider, model) = ("scripted".to_owned(), "clock".to_owned());
    let info = ModelInfo { provider, model, label: None };
    let speaker = Speaker { info, clock: Arc::new(SystemClock::new()) };
    Ok(ReactAgent::new("clock", Arc::new(speaker)).build()?)
}
