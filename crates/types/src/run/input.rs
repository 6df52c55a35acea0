use crate::InterruptId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The input of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum RunInput {
    /// New input: an object of channel writes, or the argument of a flow.
    Start {
        /// Writes by channel name.
        input: Value,
    },
    /// Answers, writes and targets, applied to the thread as it stands.
    Command(RunCommand),
    /// No new input. The run continues at the newest checkpoint, after a crash or a failure. At an
    /// older checkpoint, it runs the tasks due there again, on a branch of its own.
    Continue,
    /// A change from outside. The writes are applied as if a node had made them, the successors of
    /// that node become due, and no task runs.
    Update {
        /// Writes by channel name; `null` for none.
        writes: Value,
        /// Node; `None` selects the node that ran last, if it is the only one. Reserved names are
        /// `__start__`, `__input__` (new input, which runs later), `__end__` (drops what is due)
        /// and `__copy__` (copies the checkpoint).
        as_node: Option<String>,
    },
}

/// A command to a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCommand {
    /// Answers to open questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// Writes by channel name, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<(String, Value)>,
    /// Targets besides the tasks that are due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goto: Vec<Target>,
}

/// Answers to open questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The answer to the only open question.
    One(Value),
    /// Answers by the ids of the questions.
    ById(BTreeMap<InterruptId, Value>),
    /// Answers by the keys of the questions. An answer applies to all open questions with its key.
    ByKey(BTreeMap<String, Value>),
}

/// The answer to one question, which it names.
///
/// Answers to several questions are collected:
///
/// ```
/// use weftwork_types::interrupt::Interrupt;
/// use weftwork_types::run::Answers;
///
/// fn approve_all(questions: &[Interrupt]) -> Answers {
///     questions.iter().map(Interrupt::approve).collect()
/// }
/// assert_eq!(approve_all(&[]), Answers::ById([].into()));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerTo {
    /// The question.
    pub question: InterruptId,
    /// The answer.
    pub value: Value,
}

/// A target of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A node.
    Node(String),
    /// A separate task of a node, with an argument.
    Send {
        /// Name of the node.
        node: String,
        /// Argument of the task.
        arg: Value,
    },
}

impl RunInput {
    /// Creates a command that only answers questions.
    pub fn answers(answers: impl Into<Answers>) -> Self {
        Self::Command(RunCommand { answers: Some(answers.into()), ..RunCommand::default() })
    }

    /// Returns `true` if the input answers questions.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Command(RunCommand { answers: Some(_), .. }))
    }

    /// Returns the answers by the ids of their questions, if the input has such answers.
    #[must_use]
    pub fn answers_by_id(&self) -> Option<&BTreeMap<InterruptId, Value>> {
        match self {
            Self::Command(RunCommand { answers: Some(Answers::ById(answers)), .. }) => {
                Some(answers)
            }
            _ => None,
        }
    }
}

impl RunCommand {
    /// Returns `true` if the command writes nothing and names no target.
    #[must_use]
    pub fn only_answers(&self) -> bool {
        self.update.is_empty() && self.goto.is_empty()
    }
}

impl From<Value> for Answers {
    fn from(answer: Value) -> Self {
        Self::One(answer)
    }
}

impl From<AnswerTo> for Answers {
    fn from(answer: AnswerTo) -> Self {
        Self::from_iter([answer])
    }
}

impl FromIterator<AnswerTo> for Answers {
    fn from_iter<I: IntoIterator<Item = AnswerTo>>(answers: I) -> Self {
        Self::ById(answers.into_iter().map(|answer| (answer.question, answer.value)).collect())
    }
}

impl From<BTreeMap<InterruptId, Value>> for Answers {
    fn from(answers: BTreeMap<InterruptId, Value>) -> Self {
        Self::ById(answers)
    }
}

impl From<BTreeMap<String, Value>> for Answers {
    fn from(answers: BTreeMap<String, Value>) -> Self {
        Self::ByKey(answers)
    }
}

/// The stored form. A command that only has answers by id is stored as before there were others.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Stored {
    Start {
        input: Value,
    },
    Resume {
        answers: BTreeMap<InterruptId, Value>,
    },
    Command(RunCommand),
    Continue,
    Update {
        writes: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_node: Option<String>,
    },
}

impl From<Stored> for RunInput {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Start { input } => Self::Start { input },
            Stored::Resume { answers } => Self::answers(answers),
            Stored::Command(command) => Self::Command(command),
            Stored::Continue => Self::Continue,
            Stored::Update { writes, as_node } => Self::Update { writes, as_node },
        }
    }
}

impl From<RunInput> for Stored {
    fn from(input: RunInput) -> Self {
        match input {
            RunInput::Start { input } => Self::Start { input },
            RunInput::Command(command) if command.only_answers() => match command.answers {
                Some(Answers::ById(answers)) => Self::Resume { answers },
                answers => Self::Command(RunCommand { answers, ..RunCommand::default() }),
            },
            RunInput::Command(command) => Self::Command(command),
            RunInput::Continue => Self::Continue,
            RunInput::Update { writes, as_node } => Self::Update { writes, as_node },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_by_id_are_stored_as_before_there_were_commands() {
        let input = RunInput::answers(BTreeMap::from([(InterruptId(7), json!("yes"))]));
        let stored = json!(input);
        let id = json!(InterruptId(7));
        assert_eq!(stored, json!({"kind": "resume", "answers": {id.as_str().unwrap(): "yes"}}));
        assert_eq!(serde_json::from_value::<RunInput>(stored).unwrap(), input);
    }

    #[test]
    fn each_input_is_read_as_it_was_written() {
        let command = RunCommand {
            answers: Some(Answers::One(json!(1))),
            update: vec![("log".to_owned(), json!(["a"]))],
            goto: vec![
                Target::Node("a".to_owned()),
                Target::Send { node: "b".to_owned(), arg: json!({}) },
            ],
        };
        let by_key = BTreeMap::from([("order".to_owned(), json!(true))]);
        let update = RunInput::Update { writes: json!({}), as_node: None };
        for input in [
            RunInput::Start { input: json!(null) },
            RunInput::Command(command),
            RunInput::answers(by_key),
            RunInput::answers(json!(null)),
            RunInput::Continue,
            update,
        ] {
            let stored = serde_json::to_string(&input).unwrap();
            assert_eq!(serde_json::from_str::<RunInput>(&stored).unwrap(), input, "{stored}");
        }
    }
}
