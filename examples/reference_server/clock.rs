//! The graph `clock`: an agent that says the time, word by word, so that clients can tell how old a
//! word is when they receive it.

use crate::speech::{Events, Speech, finish};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weftwork::models::{ChatEvent, ChatRequest, FinishReason};
use weftwork::prelude::*;

/// Time between two words.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of words of an answer.
const WORDS_MAX: usize = 1_000;

#[expect(clippy::disallowed_methods, reason = "clients compare the word with the system's time")]
fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// Says as many words as the last message asks for. A word is `at` and the microseconds since 1970
/// at which the model says it.
fn words(request: &ChatRequest) -> Events {
    let words = request.messages.last().and_then(|last| last.joined_text().parse().ok());
    let words = (0..words.unwrap_or(1).min(WORDS_MAX))
        .map(|_| ChatEvent::TextDelta(format!("at{} ", micros())));
    Box::new(words.chain([finish(FinishReason::Stop)]))
}

/// Builds the agent.
///
/// # Errors
/// The problem of the graph.
pub(crate) fn clock() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let model = Speech::new("clock", words).with_pause(PAUSE);
    Ok(ReactAgent::new("clock", Arc::new(model)).build()?)
}
