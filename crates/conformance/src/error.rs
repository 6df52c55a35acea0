//! Errors of reading specs.

use weftwork_types::ErrorCode;

/// A spec that cannot be read. Nothing of it was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The line is not JSON.
    #[error("the spec is not JSON: {reason}")]
    NotJson {
        /// The problem, and its position.
        reason: String,
    },
    /// Something in it is not what the format has there.
    #[error("the spec has {found} at `{pointer}`; expected {expected}")]
    Unexpected {
        /// The pointer: a JSON pointer.
        pointer: String,
        /// The value found, cut short.
        found: String,
        /// The values allowed there.
        expected: String,
    },
}

impl SpecError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0714")
    }
}
