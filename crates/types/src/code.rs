//! Stable error codes.

use serde::{Deserialize, Serialize};

/// A stable code of a user-visible error, such as `W0301`.
///
/// Each code has a page in `docs/errors/`, shown by `weft explain <code>`. The ranges:
/// 01 graphs and engine, 02 stores, 03 models, 04 tools, 05 embedded model and weights,
/// 06 agents, 07 command line and configuration, 08 egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(pub &'static str);

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// An error as stored and shown: a code, a message, and whether a retry can succeed.
///
/// The message is safe to show to the user who started the run; it never contains secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Stable code, such as `W0301`.
    pub code: String,
    /// Description of the error, with the names of the things involved.
    pub message: String,
    /// `true` if the same call may succeed later without a change.
    #[serde(default)]
    pub retriable: bool,
    /// Kind of the failure in the terms of its origin, such as `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl Fault {
    /// Creates a fault that a retry cannot resolve.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.0.to_owned(), message: message.into(), retriable: false, kind: None }
    }

    /// Sets the kind of the failure.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Sets if a retry may resolve the fault.
    #[must_use]
    pub fn retriable(mut self, retriable: bool) -> Self {
        self.retriable = retriable;
        self
    }
}
