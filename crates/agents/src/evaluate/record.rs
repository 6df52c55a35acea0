//! The evaluation as the options of its runs store it, so that any process can continue it.

use super::EvaluationError;
use super::error::Blame;
use crate::prompt::{Overrides, PromptId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::port::Limits;
use weftwork_types::run::RunOptions;
use weftwork_types::{ErrorCode, ThreadId};

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
        let (params, overrides) = (Value::Null, Overrides::new());
        Self { v: VERSION, id, prompt, params, overrides, hash, session, limits: None }
    }

    /// The settings of a run of the evaluation.
    pub(crate) fn settings(&self) -> Map<String, Value> {
        Map::from_iter([(SETTING.to_owned(), json!(self))])
    }

    /// Reads the evaluation of a run; `None` if the run belongs to none.
    pub(crate) fn of(options: &RunOptions) -> Option<Result<Self, Fault>> {
        let stored = options.configurable.get(SETTING)?;
        let unreadable = |problem: String| {
            let text = format!("the stored evaluation of a run cannot be read: {problem}");
            Fault::new(UNREADABLE, text)
        };
        let record = Self::deserialize(stored).map_err(|error| unreadable(error.to_string()));
        Some(record.and_then(|record| match record.v {
            VERSION => Ok(record),
            v => Err(unreadable(format!("it has version {v}; this program reads {VERSION}"))),
        }))
    }
}

/// The stored evaluation of a run cannot be read.
const UNREADABLE: ErrorCode = ErrorCode("W0622");

/// The error of a thread without an evaluation.
pub(crate) fn no_evaluation(thread: &ThreadId, blame: &Blame) -> EvaluationError {
    let text = format!(
        "thread `{thread}` has no evaluation to continue; begin one with `Evaluator::evaluate`"
    );
    blame.fault(Fault::new(UNREADABLE, text))
}
