//! A deterministic, rule-based stand-in for a model, for demos, tests and documentation.
//!
//! [`ModelInfo::label`] marks all its answers as scripted wherever they are shown. The answers of the
//! rules begin with [`MARK`] themselves, so that every event, stream and state has it.

mod extract;
mod plan;
mod rules;
mod sentences;
mod steps;

pub use steps::Step;

use crate::ModelError;
use crate::chat::{ChatEvent, ChatModel, ChatRequest, ChatStream, ModelInfo};
use crate::registry::ModelProvider;
use futures_util::{StreamExt as _, stream as streams};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weftwork_types::port::Clock;

/// The label shown with all answers.
pub const LABEL: &str = "scripted model: deterministic rules, not a language model";

/// The beginning of each text that the rules give as an answer.
pub const MARK: &str = "[scripted model] ";

/// A model that follows rules or a fixed list of steps.
#[derive(Debug)]
pub struct ScriptedModel {
    info: ModelInfo,
    script: Script,
    asked: AtomicUsize,
    clock: Option<Arc<dyn Clock>>,
    pause: Duration,
}

enum Script {
    Rules,
    Steps(Vec<Step>),
    Function(Box<dyn Fn(&ChatRequest) -> Step + Send + Sync>),
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules => f.write_str("Rules"),
            Self::Steps(steps) => f.debug_tuple("Steps").field(steps).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

impl ScriptedModel {
    /// Creates a model that compares the words of a request with each tool's name, description and
    /// examples, and extracts the arguments of matching tools. Its texts end before the stop texts of
    /// a request. Options of the sampling change nothing: the rules have one answer.
    #[must_use]
    pub fn rules() -> Self {
        Self::with(Script::Rules, "rules")
    }

    /// Creates a model that plays one step per attempt, regardless of the request, and fails with
    /// [`ModelError::NotRecorded`] after the last.
    #[must_use]
    pub fn from_steps(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(Script::Steps(steps.into_iter().collect()), "steps")
    }

    /// Creates a model whose every attempt does what a function makes of the request.
    ///
    /// ```
    /// use weftwork_models::scripted::ScriptedModel;
    /// use weftwork_models::scripted::Step;
    ///
    /// let model = ScriptedModel::from_fn(|request| match request.last_tool_result() {
    ///     Some(result) => Step::text(format!("Order A1: {}", result.text())),
    ///     None => Step::call("look_up", serde_json::json!({"order": "A1"})),
    /// });
    /// assert_eq!(model.calls(), 0);
    /// ```
    #[must_use]
    pub fn from_fn(answer: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static) -> Self {
        Self::with(Script::Function(Box::new(answer)), "function")
    }

    fn with(script: Script, model: &str) -> Self {
        Self {
            info: ModelInfo {
                provider: "scripted".to_owned(),
                model: model.to_owned(),
                label: Some(LABEL.to_owned()),
            },
            script,
            asked: AtomicUsize::new(0),
            clock: None,
            pause: Duration::ZERO,
        }
    }

    /// Adds a pause before each event. Steps with a wait need this clock too.
    #[must_use]
    pub fn paced(mut self, clock: Arc<dyn Clock>, pause: Duration) -> Self {
        self.clock = Some(clock);
        self.pause = pause;
        self
    }

    /// The number of attempts so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn next_step(&self, request: &ChatRequest) -> Step {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        match &self.script {
            Script::Rules => rules::answer(request),
            Script::Function(answer) => answer(request),
            Script::Steps(steps) => steps.get(number).cloned().unwrap_or_else(|| {
                Step::fails(ModelError::NotRecorded {
                    file: "script".to_owned(),
                    index: number + 1,
                    reason: format!("it has {} steps", steps.len()),
                })
            }),
        }
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let Step { wait, events, hangs } = self.next_step(&request);
        let clock = self.clock.clone();
        let pause = self.pause;
        let paced = streams::iter(events).enumerate().then(move |(number, event)| {
            let wait = if number == 0 { wait + pause } else { pause };
            let sleep = clock.as_ref().filter(|_| !wait.is_zero()).map(|clock| clock.sleep(wait));
            async move {
                if let Some(sleep) = sleep {
                    sleep.await;
                }
                event
            }
        });
        if hangs { paced.chain(streams::pending()).boxed() } else { paced.boxed() }
    }
}

/// The events of a text, one per word.
fn text_events(text: &str) -> impl Iterator<Item = ChatEvent> {
    text.split_inclusive(' ').map(|word| ChatEvent::TextDelta(word.to_owned()))
}

/// A provider with the model `scripted:rules`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptedProvider;

impl ModelProvider for ScriptedProvider {
    fn name(&self) -> &str {
        "scripted"
    }

    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        match model {
            "rules" => Ok(Arc::new(ScriptedModel::rules())),
            other => Err(ModelError::Unknown {
                found: format!("scripted:{other}"),
                known: vec!["scripted:rules".to_owned()],
            }),
        }
    }

    fn list(&self) -> Vec<ModelInfo> {
        vec![ScriptedModel::rules().info]
    }

    fn ready(&self) -> Result<(), ModelError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
