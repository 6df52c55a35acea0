//! The result of a run that was awaited to its end.

use std::fmt;
use weftwork_models::ModelInfo;
use weftwork_types::InterruptId;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::{RunOutcome, RunRef};

/// An open question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The id, by which an answer refers to the question.
    pub id: InterruptId,
    /// The content: a question, an approval request, a value or a timer.
    pub ask: Ask,
    /// Name of the subgraph that asks, such as the member of a team; `None` for the outermost graph.
    pub graph: Option<String>,
}

/// The result of a run: its events, the messages it added, its open questions, and its outcome.
///
/// [`Display`](fmt::Display) writes the answer text. Each line starts with the model's [`tag`] in
/// brackets if the model has a label, as the scripted model does.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    run: RunRef,
    model: ModelInfo,
    events: Vec<RunEvent>,
    outcome: RunOutcome,
}

impl Reply {
    pub(crate) fn new(
        run: RunRef,
        model: ModelInfo,
        events: Vec<RunEvent>,
        outcome: RunOutcome,
    ) -> Self {
        Self { run, model, events, outcome }
    }

    /// The run and its thread.
    #[must_use]
    pub fn run(&self) -> &RunRef {
        &self.run
    }

    /// All events of the run, in order.
    #[must_use]
    pub fn events(&self) -> &[RunEvent] {
        &self.events
    }

    /// The outcome of the run.
    #[must_use]
    pub fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    /// The messages that the run added, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|event| match &event.event {
            AiEvent::MessageFinal { message } => Some(message),
            _ => None,
        })
    }

    /// The questions that the run asked and that need an answer.
    pub fn questions(&self) -> impl Iterator<Item = Question> {
        self.events.iter().filter_map(|event| match &event.event {
            AiEvent::HumanInputRequired { interrupt_id, ask, graph } => {
                Some(Question { id: *interrupt_id, ask: ask.clone(), graph: graph.clone() })
            }
            _ => None,
        })
    }

    /// The text of the last assistant message; empty if there is none.
    #[must_use]
    pub fn text(&self) -> String {
        let said = self.messages().filter(|message| message.role == Role::Assistant).last();
        said.map(Message::joined_text).unwrap_or_default()
    }
}

/// Id of the model that follows rules.
const RULES: &str = "scripted:rules";

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = tag(&self.model).map_or_else(String::new, |tag| format!("[{tag}] "));
        let text = self.text();
        let mut lines = text.lines();
        write!(f, "{mark}{}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| write!(f, "\n{mark}{line}"))
    }
}

/// The short form of a model's label, shown before each line of its answers; `None` for models
/// without a label, and for the scripted rules, whose answers begin with it themselves.
#[must_use]
pub fn tag(info: &ModelInfo) -> Option<&str> {
    if info.id() == RULES {
        return None;
    }
    let label = info.label.as_deref()?;
    Some(label.split([':', ',', ';']).next().unwrap_or(label).trim())
}
