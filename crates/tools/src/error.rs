//! Errors of tools, of tool and policy declarations, and of running calls.

use std::time::Duration;
use weftwork_types::ErrorCode;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::port::{BudgetError, JournalError};
use weftwork_types::tool::{ToolErrorKind, ToolFailure};

/// Codes of failures that the model and the person see as the result of a call.
pub mod code {
    use weftwork_types::ErrorCode;
    pub use weftwork_types::tool::code::*;

    /// The policy does not allow the call.
    pub const POLICY_DENIED: ErrorCode = ErrorCode("W0403");
    /// A person refused the call.
    pub const APPROVAL_DENIED: ErrorCode = ErrorCode("W0404");
    /// The approval was given for a different call.
    pub const APPROVAL_MISMATCH: ErrorCode = ErrorCode("W0405");
    /// The tool reported a failure.
    pub const TOOL_FAILED: ErrorCode = ErrorCode("W0406");
    /// The tool panicked.
    pub const TOOL_PANICKED: ErrorCode = ErrorCode("W0407");
    /// The tool exceeded its time limit.
    pub const TOOL_TIMED_OUT: ErrorCode = ErrorCode("W0408");
    /// The result violates the tool's declared schema.
    pub const INVALID_RESULT: ErrorCode = ErrorCode("W0409");
    /// The result is too large.
    pub const RESULT_TOO_LARGE: ErrorCode = ErrorCode("W0410");
    /// The tool does not declare which members of its result may be shown.
    pub const NOTHING_SHOWN: ErrorCode = ErrorCode("W0411");
    /// The call was interrupted.
    pub const CANCELLED: ErrorCode = ErrorCode("W0412");
    /// The tool cannot be reached.
    pub const TOOL_UNAVAILABLE: ErrorCode = ErrorCode("W0414");
    /// The journal record of a call cannot be read.
    pub const RECORD_UNREADABLE: ErrorCode = ErrorCode("W0415");
    /// A call cannot be recorded.
    pub const NOT_RECORDED: ErrorCode = ErrorCode("W0416");
    /// The tool's questions to a person are over a limit or cannot be asked.
    pub const QUESTIONS_REFUSED: ErrorCode = ErrorCode("W0417");
    /// The call dispatches more events to its session than a call may.
    pub const TOO_MANY_EVENTS: ErrorCode = ErrorCode("W0620");
}

/// Maximum length in characters of a message from a tool's error.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// A failure reported by a tool.
///
/// The message is shown to the model, to the person and in the log. It describes the failure and a
/// way to proceed, and must not contain secrets. `?` converts any [`std::error::Error`], using its
/// own message without its sources.
///
/// This type does not implement [`std::error::Error`], so that `?` can convert every error into it.
///
/// ```
/// use weftwork_tools::{ToolError, tool};
///
/// /// Divides a number by another one.
/// #[tool]
/// fn divide(a: f64, b: f64) -> Result<f64, ToolError> {
///     if b == 0.0 { Err(ToolError::invalid_args("`b` must not be 0")) } else { Ok(a / b) }
/// }
///
/// /// Reads a number.
/// #[tool]
/// fn read_number(text: String) -> Result<i64, ToolError> {
///     Ok(text.trim().parse::<i64>()?)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    kind: FailureKind,
    code: Option<ErrorCode>,
    safe_message: String,
    model_message: Option<String>,
    retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    Failed,
    Unavailable,
    InvalidArgs,
    OutcomeUnknown,
}

impl ToolError {
    /// The tool ran and failed.
    #[must_use]
    pub fn failed(safe_message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Failed, &safe_message)
    }

    /// A resource that the tool requires is unavailable. Another attempt may succeed, if the policy
    /// [repeats](crate::Rule::retry) calls of the tool.
    #[must_use]
    pub fn unavailable(safe_message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Unavailable, &safe_message)
    }

    /// The arguments match the schema but are not valid.
    #[must_use]
    pub fn invalid_args(safe_message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::InvalidArgs, &safe_message)
    }

    /// The tool does not know if the call took effect, for example because the connection to a
    /// service broke. Its declaration for unknown outcomes decides what follows.
    #[must_use]
    pub fn outcome_unknown(safe_message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::OutcomeUnknown, &safe_message)
    }

    pub(crate) fn is_outcome_unknown(&self) -> bool {
        self.kind == FailureKind::OutcomeUnknown
    }

    fn new(kind: FailureKind, message: &dyn std::fmt::Display) -> Self {
        let safe_message = cut(&message.to_string(), MESSAGE_CHARS_MAX);
        Self { kind, code: None, safe_message, model_message: None, retry_after: None }
    }

    /// Returns `true` if another attempt of the call may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.kind, FailureKind::Unavailable | FailureKind::OutcomeUnknown)
    }

    pub(crate) fn asked_delay(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Sets the delay that the tool asks for before another attempt, such as that of a service which
    /// limits its requests. It counts if the policy [repeats](crate::Rule::retry) the call.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Sets a message for the model alone, which reads it in place of the other one. It is in no
    /// event, stream or log.
    #[must_use]
    pub fn with_model_message(mut self, message: &str) -> Self {
        self.model_message = Some(cut(message, MESSAGE_CHARS_MAX));
        self
    }

    /// Sets the stable code, for failures that have a page of their own.
    #[must_use]
    pub fn with_code(mut self, code: ErrorCode) -> Self {
        self.code = Some(code);
        self
    }

    /// Puts a text in front of the message, such as the part of the work that failed.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        self.safe_message = cut(&format!("{part}: {}", self.safe_message), MESSAGE_CHARS_MAX);
        self
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.safe_message
    }

    /// Shows the message for the model to everybody, for a tool whose whole results may be shown.
    #[must_use]
    pub fn show_model_message(mut self) -> Self {
        if let Some(message) = self.model_message.take() {
            self.safe_message = message;
        }
        self
    }

    /// The message for the model alone, if there is one.
    #[must_use]
    pub fn model_message(&self) -> Option<&str> {
        self.model_message.as_deref()
    }

    pub(crate) fn into_failure(self) -> ToolFailure {
        let (kind, code) = match self.kind {
            FailureKind::Failed => (ToolErrorKind::Execution, code::TOOL_FAILED),
            FailureKind::OutcomeUnknown => (ToolErrorKind::Execution, code::OUTCOME_UNKNOWN),
            FailureKind::Unavailable => (ToolErrorKind::Unavailable, code::TOOL_UNAVAILABLE),
            FailureKind::InvalidArgs => (ToolErrorKind::Validation, code::INVALID_ARGS),
        };
        let failure = ToolFailure::new(kind, self.code.unwrap_or(code), self.safe_message);
        ToolFailure { model_message: self.model_message, ..failure }
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::failed(error)
    }
}

/// The error type of a tool: a [`ToolError`], or any type that implements `Display`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "neither `ToolError` nor `Display`",
    note = "return `Result<T, ToolError>`, or implement `Display` for the error: the model reads it"
)]
pub trait IntoToolError {
    /// Converts the error into a tool failure.
    fn into_tool_error(self) -> ToolError;
}

impl IntoToolError for ToolError {
    fn into_tool_error(self) -> ToolError {
        self
    }
}

impl<E: std::fmt::Display> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        ToolError::failed(self)
    }
}

/// An invalid declaration of a tool or a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolBoxError {
    /// The name is invalid.
    #[error(
        "tool name `{name}` is not valid: expected a name in lower snake case beginning with a letter, without `__`, of at most 64 characters, or `server/tool` with a server of ASCII letters, digits, `_`, `-` and `.`, and a tool of at most 1024 characters, none of them hidden"
    )]
    Name {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// Two tools have the same wire name.
    #[error("tools `{other}` and `{name}` are both `{wire_name}` on the wire; rename one")]
    Collision {
        /// The canonical name of the first tool.
        other: String,
        /// The canonical name of the second tool.
        name: String,
        /// The wire name of both tools.
        wire_name: String,
    },
    /// A schema is invalid.
    #[error("the {which} schema of tool `{name}` cannot be used: {detail}")]
    Schema {
        /// The tool.
        name: String,
        /// `parameters` or `output`.
        which: &'static str,
        /// The problem, and the expected form.
        detail: String,
    },
    /// The tool declares that a lookup determines unknown outcomes, but has no lookup.
    #[error(
        "tool `{name}` declares `on_unknown = reconcile` but has no lookup; add `reconcile = function`, or choose `ask`"
    )]
    NoReconcile {
        /// The tool.
        name: String,
    },
    /// The tool requires a value that the program does not provide.
    #[error(
        "tool `{name}` needs a `{type_name}`; add it with `ToolBox::provide`, or declare with `ToolBox::provide_run_scoped` that each run has one"
    )]
    MissingDependency {
        /// The tool.
        name: String,
        /// The missing Rust type.
        type_name: &'static str,
    },
    /// An example violates the tool's own schema.
    #[error("example {index} of tool `{name}` breaks the tool's own schema: {detail}")]
    Example {
        /// The tool.
        name: String,
        /// Number of the example, from 1.
        index: usize,
        /// The violations.
        detail: String,
    },
    /// The tool lists a shown member that its result does not declare.
    #[error(
        "tool `{name}` shows `{member}`, which its result does not declare; declared are: {declared}"
    )]
    Shown {
        /// The tool.
        name: String,
        /// The undeclared member.
        member: String,
        /// The declared members.
        declared: String,
    },
    /// The policy is in a format that this program does not support.
    #[error(
        "`version`: expected {known}, found {found}; the policy was written for another release"
    )]
    PolicyVersion {
        /// Version of the policy.
        found: u32,
        /// Newest version that this program supports.
        known: u32,
    },
    /// A policy rule is invalid.
    #[error("policy rule for `{tool}` cannot be used: {detail}")]
    Rule {
        /// The tool pattern of the rule.
        tool: String,
        /// The problem, and the expected form.
        detail: String,
    },
    /// An option of a policy rule stands before the first rule.
    #[error(
        "policy option `{option}` has no rule; put it after the `allow`, `ask_human` or `deny` that it belongs to"
    )]
    OptionWithoutRule {
        /// The option.
        option: &'static str,
    },
    /// A policy rule names a tool that does not exist.
    #[error(
        "policy rule for `{tool}`: there is no such tool{}",
        nearest.as_ref().map_or_else(|| "; correct the name, or remove the rule".to_owned(), |name| format!(", did you mean `{name}`?"))
    )]
    RuleWithoutTool {
        /// The tool that the rule names.
        tool: String,
        /// The most similar name of a tool.
        nearest: Option<String>,
    },
}

impl ToolBoxError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Name { .. } => "W0420",
            Self::Collision { .. } => "W0421",
            Self::Schema { .. } => "W0422",
            Self::NoReconcile { .. } => "W0423",
            Self::MissingDependency { .. } => "W0424",
            Self::Example { .. } => "W0425",
            Self::Shown { .. } => "W0426",
            Self::Rule { .. }
            | Self::OptionWithoutRule { .. }
            | Self::RuleWithoutTool { .. }
            | Self::PolicyVersion { .. } => "W0427",
        })
    }
}

/// All problems of a program's tools, in the order in which the tools were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBoxErrors(Vec<ToolBoxError>);

impl ToolBoxErrors {
    /// Returns `Ok` if there is no problem.
    pub(crate) fn unless_empty(problems: Vec<ToolBoxError>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    /// The problems, at least one.
    #[must_use]
    pub fn problems(&self) -> &[ToolBoxError] {
        &self.0
    }

    /// Returns the code of the first problem.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.first().map_or(ErrorCode("W0420"), ToolBoxError::code)
    }
}

impl std::fmt::Display for ToolBoxErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ToolBoxErrors {}

/// A call could not be brought to an outcome. The node that makes it fails, and the model gets no
/// result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunToolError {
    /// The journal refused a record. If it refused the intent, the tool was not called.
    #[error(transparent)]
    NotRecorded(#[from] JournalError),
    /// The journal record of this call cannot be read. The call is not repeated.
    #[error(
        "the recorded result of tool `{tool}`, call `{tool_call_id}`, cannot be read ({detail}); it was written by another version or is damaged"
    )]
    RecordUnreadable {
        /// The tool.
        tool: String,
        /// The call.
        tool_call_id: String,
        /// The decoder's message.
        detail: String,
    },
    /// The budget allows no further tool calls, or cannot be checked. The tool was not called.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

impl RunToolError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotRecorded(_) => code::NOT_RECORDED,
            Self::RecordUnreadable { .. } => code::RECORD_UNREADABLE,
            Self::Budget(error) => error.code(),
        }
    }

    /// The error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let retriable = match self {
            Self::NotRecorded(error) => error.source.retriable,
            Self::Budget(error) => return error.fault().in_phase(Phase::Tool),
            Self::RecordUnreadable { .. } => false,
        };
        Fault::new(self.code(), self.to_string())
            .retriable(retriable)
            .with_sources_of(self)
            .in_phase(Phase::Tool)
    }
}

/// Cuts a text to a number of characters and marks the cut.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
