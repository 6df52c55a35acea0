//! What a tool is, and what comes of a call.

use crate::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a tool changes in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only looks.
    ReadOnly,
    /// It changes state of ours.
    StateChange,
    /// It changes something outside that we cannot take back.
    ExternalSideEffect,
}

/// What to do with a call whose intent is recorded but whose result is not: the process died
/// inside it, and nobody knows whether it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownOutcome {
    /// Call again with the same idempotency key; the other side recognises it.
    Idempotent,
    /// Ask the tool's own look-up, by idempotency key, whether it happened.
    Reconcile,
    /// Stop and ask a person.
    Ask,
}

/// What a person says about a call of unknown outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
pub enum UnknownAnswer {
    /// It took effect, and this is its result.
    Happened {
        /// The result, as the call would have given it.
        value: Value,
    },
    /// It did not take effect: make it again, with the same idempotency key.
    CallAgain,
    /// Leave it: nobody knows.
    GiveUp,
}

impl UnknownAnswer {
    /// JSON Schema of an answer, when results are of this schema.
    #[must_use]
    pub fn schema(result: Value) -> Value {
        json!({"oneOf": [
            {
                "type": "object",
                "properties": {"answer": {"const": "happened"}, "value": result},
                "required": ["answer", "value"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "properties": {"answer": {"enum": ["call_again", "give_up"]}},
                "required": ["answer"],
                "additionalProperties": false,
            },
        ]})
    }
}

/// A tool as models and policies see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The canonical name, `tool` or `server/tool`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub parameters: Value,
    /// JSON Schema of the result, when it is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What it changes.
    pub effect: Effect,
    /// What to do when a crash leaves its outcome unknown.
    pub on_unknown: UnknownOutcome,
    /// The members of the result that may be shown in streams and user interfaces.
    /// `.` stands for the whole result, whatever its shape.
    /// `None` means nobody decided, and the call fails before it shows anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
    /// Short examples: a request in words and the arguments it leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ToolExample>,
}

/// A request in words and the arguments it leads to; small models learn a tool from one of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolExample {
    /// What a person might say.
    pub request: String,
    /// The arguments that follow from it.
    pub args: Value,
}

impl ToolSpec {
    /// The name on the wire: lower snake case of at most 64 characters, `server/tool` becomes
    /// `server__tool`.
    #[must_use]
    pub fn wire_name(&self) -> String {
        self.name.replace('/', "__")
    }
}

/// How a tool call failed, as the model and the person may know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments or the result broke the schema.
    Validation,
    /// The tool ran and failed, panicked or ran out of time.
    Execution,
    /// No such tool, or it cannot be reached.
    Unavailable,
    /// Nobody declared which members of the result may be shown.
    RedactionFailed,
    /// Policy or a person refused the call.
    PolicyDenied,
}

/// What comes of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It worked.
    Ok {
        /// The validated full value: what the model reads.
        value: Value,
    },
    /// It did not.
    Failed(ToolFailure),
}

/// Why a tool call gave no value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// The kind, for programs.
    pub error_code: ToolErrorKind,
    /// The message, safe for the model and the person.
    pub safe_message: String,
    /// The page that explains it, such as `W0403`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl ToolFailure {
    /// Makes a failure.
    #[must_use]
    pub fn new(kind: ToolErrorKind, code: ErrorCode, safe_message: impl Into<String>) -> Self {
        Self { error_code: kind, safe_message: safe_message.into(), code: Some(code.0.to_owned()) }
    }
}
