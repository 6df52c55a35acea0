//! What a tool may fail with, and what can be wrong with tools, policies and the record of calls.

use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::port::{BudgetExceeded, JournalError};
use weftwork_types::tool::{ToolErrorKind, ToolFailure};

/// Codes of failures that the model and the person read as the result of a call.
pub mod code {
    use weftwork_types::ErrorCode;

    /// No tool has the name.
    pub const UNKNOWN_TOOL: ErrorCode = ErrorCode("W0401");
    /// The arguments break the tool's schema.
    pub const INVALID_ARGS: ErrorCode = ErrorCode("W0402");
    /// Policy does not allow the call.
    pub const POLICY_DENIED: ErrorCode = ErrorCode("W0403");
    /// A person said no.
    pub const APPROVAL_DENIED: ErrorCode = ErrorCode("W0404");
    /// The approval was given for something else.
    pub const APPROVAL_MISMATCH: ErrorCode = ErrorCode("W0405");
    /// The tool reported a failure.
    pub const TOOL_FAILED: ErrorCode = ErrorCode("W0406");
    /// The tool panicked.
    pub const TOOL_PANICKED: ErrorCode = ErrorCode("W0407");
    /// The tool took too long.
    pub const TOOL_TIMED_OUT: ErrorCode = ErrorCode("W0408");
    /// The result breaks the tool's declared schema.
    pub const INVALID_RESULT: ErrorCode = ErrorCode("W0409");
    /// The result is too large.
    pub const RESULT_TOO_LARGE: ErrorCode = ErrorCode("W0410");
    /// Nobody declared which members of the result may be shown.
    pub const NOTHING_SHOWN: ErrorCode = ErrorCode("W0411");
    /// The call was cut short.
    pub const CANCELLED: ErrorCode = ErrorCode("W0412");
    /// Nobody knows whether the call took effect, and it is not made again.
    pub const OUTCOME_UNKNOWN: ErrorCode = ErrorCode("W0413");
    /// The tool cannot be reached.
    pub const TOOL_UNAVAILABLE: ErrorCode = ErrorCode("W0414");
    /// The record of a call cannot be read.
    pub const RECORD_UNREADABLE: ErrorCode = ErrorCode("W0415");
    /// A call cannot be recorded.
    pub const NOT_RECORDED: ErrorCode = ErrorCode("W0416");
}

/// The longest message taken from a tool's error, in characters.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// A failure that a tool reports itself.
///
/// Its message is read by the model, by the person and by whoever reads the log: it says what went
/// wrong and what to try, and never holds a secret. Any [`std::error::Error`] becomes one through
/// `?`, with its own message and none of its causes.
///
/// It is no [`std::error::Error`] itself, so that `?` can turn every error into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    kind: Kind,
    safe_message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Unavailable,
    InvalidArgs,
}

impl ToolError {
    /// The tool ran and failed.
    #[must_use]
    pub fn failed(safe_message: impl std::fmt::Display) -> Self {
        Self::new(Kind::Failed, &safe_message)
    }

    /// What the tool needs cannot be reached.
    #[must_use]
    pub fn unavailable(safe_message: impl std::fmt::Display) -> Self {
        Self::new(Kind::Unavailable, &safe_message)
    }

    /// The arguments satisfy the schema and are wrong all the same.
    #[must_use]
    pub fn invalid_args(safe_message: impl std::fmt::Display) -> Self {
        Self::new(Kind::InvalidArgs, &safe_message)
    }

    fn new(kind: Kind, message: &dyn std::fmt::Display) -> Self {
        Self { kind, safe_message: cut(&message.to_string(), MESSAGE_CHARS_MAX) }
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.safe_message
    }

    pub(crate) fn into_failure(self) -> ToolFailure {
        let (kind, code) = match self.kind {
            Kind::Failed => (ToolErrorKind::Execution, code::TOOL_FAILED),
            Kind::Unavailable => (ToolErrorKind::Unavailable, code::TOOL_UNAVAILABLE),
            Kind::InvalidArgs => (ToolErrorKind::Validation, code::INVALID_ARGS),
        };
        ToolFailure::new(kind, code, self.safe_message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::failed(error)
    }
}

/// What a tool may return as its error: a [`ToolError`], or anything that can be displayed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "neither `ToolError` nor `Display`",
    note = "return `Result<T, ToolError>`, or implement `Display` for the error: the model reads it"
)]
pub trait IntoToolError {
    /// Turns it into a tool's failure.
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

/// A tool or a policy that cannot be used as it was declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolBoxError {
    /// The name is not usable.
    #[error(
        "tool name `{name}` is not valid: expected `tool` or `server/tool`, each part lower snake case beginning with a letter, without `__`, at most 64 characters together"
    )]
    Name {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// Two tools have one name.
    #[error("tool `{name}` is declared twice (on the wire both are `{wire_name}`); rename one")]
    Collision {
        /// The canonical name of the second.
        name: String,
        /// The wire name they share.
        wire_name: String,
    },
    /// A schema cannot be used.
    #[error("the {which} schema of tool `{name}` cannot be used: {detail}")]
    Schema {
        /// The tool.
        name: String,
        /// `parameters` or `output`.
        which: &'static str,
        /// Why, and what was expected.
        detail: String,
    },
    /// The tool says its outcome is looked up, and has no look-up.
    #[error(
        "tool `{name}` declares `on_unknown = reconcile` but has no look-up; give it `reconcile = function`, or choose `ask`"
    )]
    NoReconcile {
        /// The tool.
        name: String,
    },
    /// The tool takes something from the program that the program did not provide.
    #[error("tool `{name}` needs a `{type_name}`; add it with `ToolBox::provide`")]
    MissingDependency {
        /// The tool.
        name: String,
        /// The Rust type that is missing.
        type_name: &'static str,
    },
    /// An example breaks the tool's own schema.
    #[error("example {index} of tool `{name}` breaks the tool's own schema: {detail}")]
    Example {
        /// The tool.
        name: String,
        /// Which example, from 1.
        index: usize,
        /// How.
        detail: String,
    },
    /// A member is to be shown that the result does not have.
    #[error(
        "tool `{name}` shows `{member}`, which its result does not declare; declared are: {declared}"
    )]
    Shown {
        /// The tool.
        name: String,
        /// The member.
        member: String,
        /// The members that are declared.
        declared: String,
    },
    /// A policy rule cannot be used.
    #[error("policy rule for `{tool}` cannot be used: {detail}")]
    Rule {
        /// What the rule names.
        tool: String,
        /// Why, and what was expected.
        detail: String,
    },
}

impl ToolBoxError {
    /// The stable code.
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
            Self::Rule { .. } => "W0427",
        })
    }
}

/// Everything that is wrong with the tools of a program, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBoxErrors(Vec<ToolBoxError>);

impl ToolBoxErrors {
    /// `Ok` when nothing is wrong.
    pub(crate) fn unless_empty(problems: Vec<ToolBoxError>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    /// The problems; at least one.
    #[must_use]
    pub fn problems(&self) -> &[ToolBoxError] {
        &self.0
    }

    /// The code of the first problem.
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

/// A call could not be taken to an outcome: the node that makes it fails, and the model is not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunToolError {
    /// The journal refused. When it refused the announcement the tool was not called.
    #[error(transparent)]
    NotRecorded(#[from] JournalError),
    /// The journal holds a result of this call that cannot be read. It is not made again.
    #[error(
        "the recorded result of tool `{tool}`, call `{tool_call_id}`, cannot be read ({detail}); it was written by another version or is damaged"
    )]
    RecordUnreadable {
        /// The tool.
        tool: String,
        /// The call.
        tool_call_id: String,
        /// What the decoder found.
        detail: String,
    },
    /// No more tool calls may be made. The tool was not called.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

impl RunToolError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotRecorded(_) => code::NOT_RECORDED,
            Self::RecordUnreadable { .. } => code::RECORD_UNREADABLE,
            Self::Budget(exceeded) => exceeded.code(),
        }
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let retriable = matches!(self, Self::NotRecorded(error) if error.source.retriable);
        Fault::new(self.code(), self.to_string()).retriable(retriable)
    }
}

/// Cuts a text to a number of characters and says that it did.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
