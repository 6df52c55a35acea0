//! Declarations of tools, and outcomes of tool calls.

mod question;
mod summary;
mod unknown;
mod wire;

pub use question::{Questions, Reply, ToolQuestion, ToolRecord};
pub use summary::{AgentTools, Permission, ToolSummary};
pub use unknown::{UnknownAnswer, UnknownCall};
pub use wire::{WIRE_NAME_CHARS_MAX, is_hidden, snake_case, wire_name};

use crate::ErrorCode;
use crate::shown::present;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The tool only reads.
    ReadOnly,
    /// The tool changes state owned by this program.
    StateChange,
    /// The tool changes something outside, which cannot be undone.
    ExternalSideEffect,
}

/// The handling of a call whose intent is recorded but whose result is not: the process died during
/// the call, and it is unknown if the call took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownOutcome {
    /// Repeat the call with the same idempotency key; the receiver recognises it.
    Idempotent,
    /// Use the tool's lookup by idempotency key to find out if the call took effect.
    Reconcile,
    /// Stop and ask a person.
    Ask,
}

/// A tool as declared to models and policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Canonical name, `tool` or `server/tool`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments; its type is object.
    pub parameters: Value,
    /// JSON Schema of the result, if declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Effect of the tool.
    pub effect: Effect,
    /// Handling of calls whose outcome is unknown after a crash.
    pub on_unknown: UnknownOutcome,
    /// Members of the result that may be shown in streams and user interfaces, as names or as paths
    /// such as `hits[].url`. `.` selects the whole result, whatever its type. With `None`, the call fails before anything is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
    /// Short examples: a request and the resulting arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ToolExample>,
}

/// An example of a request and the resulting arguments. Small models learn the use of a tool from
/// one such example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolExample {
    /// A request as a user may phrase it.
    pub request: String,
    /// Arguments for the request.
    pub args: Value,
}

impl ToolSpec {
    /// Returns the wire name: lower snake case with at most 64 characters. `server/getPage` becomes
    /// `server__get_page`.
    #[must_use]
    pub fn wire_name(&self) -> String {
        wire_name(&self.name)
    }

    /// Returns `true` if a repeated call does no harm: the tool only reads, or the receiver
    /// recognises the call by its idempotency key.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        self.effect == Effect::ReadOnly || self.on_unknown == UnknownOutcome::Idempotent
    }
}

/// Codes of failures that say if a tool was called.
pub mod code {
    use crate::ErrorCode;

    /// Unknown tool name.
    pub const UNKNOWN_TOOL: ErrorCode = ErrorCode("W0401");
    /// The arguments violate the tool's schema.
    pub const INVALID_ARGS: ErrorCode = ErrorCode("W0402");
    /// The outcome of the call is unknown, and the call is not repeated.
    pub const OUTCOME_UNKNOWN: ErrorCode = ErrorCode("W0413");
    /// The conversation went on before the call was made.
    pub const NOT_MADE: ErrorCode = ErrorCode("W0418");
}

/// The kind of a tool failure, as reported to the model and the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments or the result violated the schema.
    Validation,
    /// The tool failed, panicked or timed out.
    Execution,
    /// The tool does not exist or is not reachable.
    Unavailable,
    /// The declaration does not state which members of the result may be shown.
    RedactionFailed,
    /// A policy or a person refused the call.
    PolicyDenied,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The call succeeded.
    Ok {
        /// Validated full value, which the model reads.
        value: Value,
        /// The members of the value that may be shown; `None` if the whole value may be shown.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        shown: Option<Value>,
    },
    /// The call failed.
    Failed(ToolFailure),
}

impl ToolOutcome {
    /// Creates the outcome of a call that succeeded with a value that may be shown as a whole.
    #[must_use]
    pub fn ok(value: Value) -> Self {
        Self::Ok { value, shown: None }
    }

    /// Returns the outcome with the value that may be shown, in place of the model's.
    #[must_use]
    pub fn into_shown(self) -> Self {
        match self {
            Self::Ok { value, shown } => Self::ok(shown.unwrap_or(value)),
            Self::Failed(failure) => Self::Failed(failure.into_shown()),
        }
    }
}

/// The failure of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// Kind, for programs.
    pub error_code: ToolErrorKind,
    /// Message, safe for the model and the user.
    pub safe_message: String,
    /// Message for the model alone, in place of the other one: the text of a tool of which nothing
    /// else may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_message: Option<String>,
    /// Code of the error page, such as `W0403`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl ToolFailure {
    /// Creates a failure.
    #[must_use]
    pub fn new(kind: ToolErrorKind, code: ErrorCode, safe_message: impl Into<String>) -> Self {
        Self {
            error_code: kind,
            safe_message: safe_message.into(),
            model_message: None,
            code: Some(code.0.to_owned()),
        }
    }

    /// Creates the failure of a call that was begun and has no outcome on record.
    #[must_use]
    pub fn outcome_unknown(tool: &str) -> Self {
        Self::new(
            ToolErrorKind::Execution,
            code::OUTCOME_UNKNOWN,
            format!(
                "`{tool}` was called and its outcome is unknown: it may have taken effect; do not call it again without checking whether it has"
            ),
        )
    }

    /// Returns `true` if the call failed before the tool was called.
    #[must_use]
    pub fn is_before_call(&self) -> bool {
        let is = |code: ErrorCode| self.code.as_deref() == Some(code.0);
        match self.error_code {
            ToolErrorKind::PolicyDenied | ToolErrorKind::RedactionFailed => true,
            ToolErrorKind::Validation => is(code::INVALID_ARGS),
            ToolErrorKind::Unavailable => is(code::UNKNOWN_TOOL) || is(code::NOT_MADE),
            ToolErrorKind::Execution => false,
        }
    }

    /// Returns the failure without the message for the model.
    #[must_use]
    pub fn into_shown(self) -> Self {
        Self { model_message: None, ..self }
    }

    /// Returns the failure as the model reads it.
    #[must_use]
    pub fn into_model_form(mut self) -> Self {
        if let Some(message) = self.model_message.take() {
            self.safe_message = message;
        }
        self
    }
}
