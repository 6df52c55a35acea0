//! Sources of the context of a build.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A source of the context of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Kind.
    pub kind: SourceKind,
    /// Time after which the source is left out, such as `2s`; five seconds by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(w|d|h|ms|m|s))+$"))]
    pub(super) deadline: Option<String>,
    /// Maximum number of records, items or messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<u32>,
    /// Labels of the namespace of a store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub namespace: Vec<String>,
    /// Words of which an item of a store has at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_000))]
    pub query: Option<String>,
    /// Files of the folder of the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 200)))]
    pub paths: Vec<String>,
}

/// Kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceKind {
    /// The instructions: the key `context`.
    Markdown,
    /// The current version of the plan that the request names, or of the newest one.
    Plan,
    /// The current versions of the newest deliverables of the conversation.
    Deliverables,
    /// The messages before that of the request.
    History,
    /// The result of the agent `subAgentSlug`.
    SubAgent,
    /// The results of the steps of the orchestration.
    Steps,
    /// Items of the long-term store.
    Store,
    /// Files of the folder of the definition.
    Files,
}

impl SourceKind {
    /// Returns the word for the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Plan => "plan",
            Self::Deliverables => "deliverables",
            Self::History => "history",
            Self::SubAgent => "sub_agent",
            Self::Steps => "steps",
            Self::Store => "store",
            Self::Files => "files",
        }
    }
}

impl Source {
    /// Creates a source of a kind without options.
    #[must_use]
    pub fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            deadline: None,
            limit: None,
            namespace: Vec::new(),
            query: None,
            paths: Vec::new(),
        }
    }

    /// Returns the time after which the source is left out; `None` for the usual one.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline.as_deref().and_then(parse_duration)
    }
}

/// Longest duration of a definition: 52 weeks.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(52 * 7 * 24 * 60 * 60);

/// Parses a duration such as `90s` or `1m30s`. `None` for another text.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let units = &rest[digits..];
        let end = units.find(|c: char| c.is_ascii_digit()).unwrap_or(units.len());
        let ms = match &units[..end] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        total = total.checked_add(Duration::from_millis(number.checked_mul(ms)?))?;
        rest = &units[end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, ms) in [("90s", 90_000), ("1m30s", 90_000), ("250ms", 250), ("2h", 7_200_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["s", "9", "9x", "99999999999999999999s", "18446744073709551615w"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
