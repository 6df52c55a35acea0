//! What is particular about a server.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A way in which a server differs from the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quirk {
    /// It ignores `tools`; they are described in words, and the answer is constrained to a JSON
    /// schema from which the call is read back. One tool call per answer, and the answer after a
    /// result is always text.
    ToolsAsSchema,
    /// It wants `max_completion_tokens` where others want `max_tokens`.
    MaxCompletionTokens,
    /// It refuses `stream_options`; usage comes by itself or not at all.
    NoStreamOptions,
}

/// The quirks of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quirks(BTreeSet<Quirk>);

impl Quirks {
    /// Whether the server has it.
    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.0.contains(&quirk)
    }
}

impl FromIterator<Quirk> for Quirks {
    fn from_iter<I: IntoIterator<Item = Quirk>>(quirks: I) -> Self {
        Self(quirks.into_iter().collect())
    }
}
