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

/// An error as it is stored and shown: a code, one message, and whether trying again can help.
///
/// The message is safe to show to the person who started the run; secrets never enter it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The stable code, such as `W0301`.
    pub code: String,
    /// What went wrong, with the names of the things involved.
    pub message: String,
    /// Whether the same call may succeed later without a change.
    #[serde(default)]
    pub retriable: bool,
    /// What kind of failure it is, in the words of whoever failed: `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl Fault {
    /// Makes a fault that will not go away by trying again.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.0.to_owned(), message: message.into(), retriable: false, kind: None }
    }

    /// Says what kind of failure it is.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Marks the fault as one that trying again may cure.
    #[must_use]
    pub fn retriable(mut self, retriable: bool) -> Self {
        self.retriable = retriable;
        self
    }
}
