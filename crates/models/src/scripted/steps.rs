//! Predefined answers.

use super::text_events;
use crate::ModelError;
use crate::chat::{ChatEvent, FinishReason};
use serde_json::Value;
use std::time::Duration;
use weftwork_types::usage::Tokens;

/// The behaviour of a scripted model in one attempt.
#[derive(Debug, Clone)]
pub struct Step {
    pub(super) wait: Duration,
    pub(super) events: Vec<Result<ChatEvent, ModelError>>,
    pub(super) hangs: bool,
}

impl Step {
    /// A step with exactly these events.
    #[must_use]
    pub fn events(events: Vec<Result<ChatEvent, ModelError>>) -> Self {
        Self { wait: Duration::ZERO, events, hangs: false }
    }

    /// A complete text answer.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        let mut step = Self::cut(text.as_ref());
        step.finish(FinishReason::Stop);
        step
    }

    /// A complete answer with one tool call.
    #[must_use]
    pub fn call(name: &str, args: Value) -> Self {
        Self::calls(vec![(name.to_owned(), args)])
    }

    /// A complete answer with tool calls, whose arguments arrive in fragments.
    #[must_use]
    pub fn calls(calls: Vec<(String, Value)>) -> Self {
        let mut step = Self::events(Vec::new());
        for (index, (name, args)) in calls.into_iter().enumerate() {
            let args = args.to_string();
            let middle = args.char_indices().nth(args.chars().count() / 2).map_or(0, |(at, _)| at);
            let (first, rest) = args.split_at(middle);
            for (name, args) in [(Some(name), first), (None, rest)] {
                let args = args.to_owned();
                step.events.push(Ok(ChatEvent::ToolCallDelta { index, id: None, name, args }));
            }
        }
        step.finish(FinishReason::ToolCalls);
        step
    }

    /// An attempt that fails immediately.
    #[must_use]
    pub fn fails(error: ModelError) -> Self {
        Self::events(vec![Err(error)])
    }

    /// An answer that is cut off after this text.
    #[must_use]
    pub fn cut(text: &str) -> Self {
        Self::events(text_events(text).map(Ok).collect())
    }

    /// The same step, but the stream never ends after its events.
    #[must_use]
    pub fn hanging(mut self) -> Self {
        self.events.retain(|event| !matches!(event, Ok(ChatEvent::Finish { .. })));
        self.hangs = true;
        self
    }

    /// The same step after a wait, on the clock given to
    /// [`ScriptedModel::paced`](super::ScriptedModel::paced).
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same step with a token count before its end.
    #[must_use]
    pub fn using(mut self, tokens: Tokens) -> Self {
        let end = self.events.len().saturating_sub(1);
        self.events.insert(end, Ok(ChatEvent::Usage(tokens)));
        self
    }

    fn finish(&mut self, reason: FinishReason) {
        self.events.push(Ok(ChatEvent::Finish { reason, provider_call_id: None }));
    }
}
