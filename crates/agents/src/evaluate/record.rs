//! The evaluation as the options of its runs store it, so that any process can continue it.

use super::EvaluationError;
use super::error::ErrorContext;
use crate::prompt::{Overrides, PromptId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weftwork_types::canonical::{Hash, first_128};
use weftwork_types::code::Fault;
use weftwork_types::port::Limits;
use weftwork_types::run::RunOptions;
use weftwork_types::{ErrorCode, MessageId, ThreadId};

/// Name of the setting of a run that has the evaluation.
pub(crate) const SETTING: &str = "weft_evaluation";

/// Version of the stored form.
const VERSION: u32 = 1;

/// An evaluation, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    v: u32,
    /// Id of the evaluation, the same in all its runs.
    pub(crate) id: String,
    pub(crate) prompt: PromptId,
    pub(crate) params: Value,
    pub(crate) overrides: Overrides,
    /// Hash of the rendered prompt.
    pub(crate) hash: Hash,
    pub(crate) session: ThreadId,
    /// Limits of the whole evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Limits>,
}

impl Record {
    pub(crate) fn new(id: String, prompt: PromptId, hash: Hash, session: ThreadId) -> Self {
        Self {
            v: VERSION,
            id,
            prompt,
            params: Value::Null,
            overrides: Overrides::new(),
            hash,
            session,
            limits: None,
        }
    }

    /// The settings of a run of the evaluation.
    pub(crate) fn settings(&self) -> Map<String, Value> {
        Map::from_iter([(SETTING.to_owned(), json!(self))])
    }

    /// Reads the evaluation of a run; `None` if the run belongs to none.
    pub(crate) fn of(options: &RunOptions) -> Option<Result<Self, Fault>> {
        Self::of_settings(&options.configurable)
    }

    /// As [`of`](Self::of), from the settings of a run.
    pub(crate) fn of_settings(settings: &Map<String, Value>) -> Option<Result<Self, Fault>> {
        let stored = settings.get(SETTING)?;
        let unreadable = |problem: String| {
            let text = format!("the stored evaluation of a run cannot be read: {problem}");
            Fault::new(UNREADABLE, text)
        };
        // A newer version may have members that this one does not read.
        Some(match stored.get("v") {
            Some(v) if *v != VERSION => {
                Err(unreadable(format!("it has version {v}; this program reads {VERSION}")))
            }
            _ => Self::deserialize(stored).map_err(|error| unreadable(error.to_string())),
        })
    }

    /// Id of the message with the rendered prompt.
    pub(crate) fn message_id(&self) -> MessageId {
        let bits = first_128(&format!("{}\u{0}message", self.id));
        MessageId::from_uuid(uuid::Uuid::from_u128(bits))
    }
}

/// The stored evaluation of a run cannot be read.
const UNREADABLE: ErrorCode = ErrorCode("W0622");

/// The error of a thread without an evaluation.
pub(crate) fn no_evaluation(thread: &ThreadId, errors: &ErrorContext) -> EvaluationError {
    let text = format!(
        "thread `{thread}` has no evaluation to continue; begin one with `Evaluator::evaluate`"
    );
    errors.fault(Fault::new(UNREADABLE, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_named_also_if_it_has_other_members() {
        let settings = |stored: Value| Map::from_iter([(SETTING.to_owned(), stored)]);
        let newer = settings(json!({"v": 2, "id": "e", "priority": 1}));
        let error = Record::of_settings(&newer).expect("an evaluation").expect_err("newer");
        assert!(error.message.contains("version 2"), "{error}");
        let damaged = settings(json!({"v": 1, "id": "e", "priority": 1}));
        let error = Record::of_settings(&damaged).expect("an evaluation").expect_err("damaged");
        assert!(error.message.contains("priority"), "{error}");
        assert!(Record::of_settings(&Map::new()).is_none());
    }
}
