//! Errors of values that are to become graphs.

use super::BuildError;
use weftwork_types::ErrorCode;

/// A graph could not be made: it, or the agent that it is made of, is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InvalidGraph {
    code: ErrorCode,
    text: String,
}

impl InvalidGraph {
    /// Creates an error with a code and the problems as text.
    #[must_use]
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Joins the errors of several graphs, with the code of the first; `None` if there are none.
    #[must_use]
    pub fn join(errors: Vec<Self>) -> Option<Self> {
        let code = errors.first()?.code;
        let texts: Vec<String> = errors.into_iter().map(|error| error.text).collect();
        Some(Self { code, text: texts.join("\n") })
    }

    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

impl From<BuildError> for InvalidGraph {
    fn from(error: BuildError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
