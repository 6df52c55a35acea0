//! Deviations of servers from the protocol.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A way in which a server differs from the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quirk {
    /// The server ignores `tools`. The prompt describes them, a JSON schema constrains the answer,
    /// and the call is parsed from it. There is one tool call per answer, and the answer after a
    /// result is always text.
    ToolsAsSchema,
    /// The server expects `max_completion_tokens` instead of `max_tokens`.
    MaxCompletionTokens,
    /// The server expects `random_seed` instead of `seed`.
    RandomSeed,
    /// The server rejects `stream_options`; it reports usage unasked or not at all.
    NoStreamOptions,
    /// The server accepts ids of tool calls with nine letters and digits only.
    NineCharacterIds,
    /// The server refuses a message of the user or of the system right after the results of tools, so
    /// that a message of the assistant is written between them.
    NoUserAfterTool,
}

/// The quirks of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quirks(BTreeSet<Quirk>);

impl Quirks {
    /// Returns `true` if the server has this quirk.
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
