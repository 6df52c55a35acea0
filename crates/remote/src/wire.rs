//! JSON of the Agent Server API, as far as remote graphs read it. Members that are not listed are
//! ignored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Run {
    pub(crate) run_id: String,
    #[serde(default)]
    pub(crate) assistant_id: String,
    pub(crate) status: RunStatus,
    #[serde(default)]
    pub(crate) created_at: String,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// Status of a run. A run that ended at a question is a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    Pending,
    Running,
    Success,
    Error,
    Timeout,
    /// Cancelled.
    Interrupted,
}

impl RunStatus {
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// An assistant: a version of the settings of a graph.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Assistant {
    pub(crate) graph_id: String,
    #[serde(default)]
    pub(crate) version: u64,
}

/// The state of a thread.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct State {
    #[serde(default)]
    pub(crate) values: Value,
    #[serde(default)]
    pub(crate) next: Vec<String>,
    #[serde(default)]
    pub(crate) tasks: Vec<Task>,
}

/// A task that is due.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Task {
    #[serde(default)]
    pub(crate) interrupts: Vec<Asked>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) value: Value,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response_schema: Option<Value>,
}

impl State {
    pub(crate) fn questions(&self) -> impl Iterator<Item = &Asked> {
        self.tasks.iter().flat_map(|task| &task.interrupts)
    }
}

/// Metadata of the first event of a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Started {
    pub(crate) run_id: String,
}

/// A failure in a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Failure {
    #[serde(default)]
    pub(crate) error: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// Partial text of a message with its id; `None` for other messages, and for an empty text.
pub(crate) fn partial_text(data: &Value) -> Option<(&str, String)> {
    let message = data.get(0)?;
    if message["type"] != "AIMessageChunk" {
        return None;
    }
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => return None,
    };
    let id = message["id"].as_str()?;
    (!text.is_empty()).then_some((id, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn partial_text_is_that_of_chunks() {
        let chunk =
            |content: Value| json!([{"type": "AIMessageChunk", "id": "m", "content": content}, {}]);
        assert_eq!(partial_text(&chunk(json!("Hi"))), Some(("m", "Hi".to_owned())));
        let blocks = chunk(json!([{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]));
        assert_eq!(partial_text(&blocks), Some(("m", "Hi".to_owned())));
        assert_eq!(partial_text(&chunk(json!(""))), None);
        assert_eq!(partial_text(&json!([{"type": "ai", "id": "m", "content": "Hi"}, {}])), None);
        assert_eq!(partial_text(&json!({})), None);
    }

    #[test]
    fn unknown_members_are_ignored_and_unknown_states_are_not() {
        let run = json!({"run_id": "r", "status": "running", "kwargs": {}, "metadata": null});
        assert!(serde_json::from_value::<Run>(run).expect("a run").status.is_active());
        let other = json!({"run_id": "r", "status": "dreaming"});
        assert!(serde_json::from_value::<Run>(other).is_err());
    }
}
