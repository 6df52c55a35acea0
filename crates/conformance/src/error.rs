//! How a spec is refused.

use weftwork_types::ErrorCode;

/// A spec that cannot be read. Nothing of it was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The line is not JSON.
    #[error("the spec is not JSON: {reason}")]
    NotJson {
        /// What is wrong with it, and where.
        reason: String,
    },
    /// Something in it is not what the format has there.
    #[error("the spec has {found} at `{place}`; expected {expected}")]
    Unexpected {
        /// Where: a JSON pointer.
        place: String,
        /// What stands there, cut short.
        found: String,
        /// What may stand there.
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
