//! Capabilities of models: data with a source (`models.toml`).

use crate::chat::{ChatRequest, ToolChoice};
use serde::Deserialize;
use std::sync::LazyLock;
use weftwork_types::message::Part;

const BUILT_IN: &str = include_str!("../models.toml");

/// Something that a request may ask of a model and that some models cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// [`ChatRequest::temperature`].
    Temperature,
    /// [`ChatRequest::max_tokens`].
    MaxTokens,
    /// [`ChatRequest::tools`].
    Tools,
    /// A [`ChatRequest::tool_choice`] other than `auto`.
    ToolChoice,
    /// [`ChatRequest::parallel_tool_calls`].
    ParallelToolCalls,
    /// [`ChatRequest::parallel_tool_calls`] with `false`.
    SerialToolCalls,
    /// [`ChatRequest::response_schema`].
    ResponseSchema,
    /// Images in messages.
    Images,
    /// Audio in messages.
    Audio,
    /// Video in messages.
    Video,
    /// Documents in messages, such as PDF.
    Documents,
    /// Reasoning before an answer. No request asks for it.
    Reasoning,
}

impl Capability {
    /// All capabilities, in the order in which they are listed.
    pub const ALL: [Self; 12] = [
        Self::Tools,
        Self::ToolChoice,
        Self::ParallelToolCalls,
        Self::SerialToolCalls,
        Self::ResponseSchema,
        Self::Images,
        Self::Audio,
        Self::Video,
        Self::Documents,
        Self::Reasoning,
        Self::Temperature,
        Self::MaxTokens,
    ];

    /// Name of the capability. That of an option is its name in requests and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::MaxTokens => "max_tokens",
            Self::Tools => "tools",
            Self::ToolChoice => "tool_choice",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::SerialToolCalls => "parallel_tool_calls = false",
            Self::ResponseSchema => "response_schema",
            Self::Images => "images",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Documents => "documents",
            Self::Reasoning => "reasoning",
        }
    }

    /// Returns `true` if a request asks for it.
    #[must_use]
    pub fn is_asked_by(self, request: &ChatRequest) -> bool {
        match self {
            Self::Temperature => request.temperature.is_some(),
            Self::MaxTokens => request.max_tokens.is_some(),
            Self::Tools => !request.tools.is_empty(),
            Self::ToolChoice => request.tool_choice != ToolChoice::Auto,
            Self::ParallelToolCalls => request.parallel_tool_calls.is_some(),
            Self::SerialToolCalls => {
                request.parallel_tool_calls == Some(false) && !request.tools.is_empty()
            }
            Self::ResponseSchema => request.response_schema.is_some(),
            Self::Images => has_media(request, |kind| kind.starts_with("image/")),
            Self::Audio => has_media(request, |kind| kind.starts_with("audio/")),
            Self::Video => has_media(request, |kind| kind.starts_with("video/")),
            Self::Documents => has_media(request, |kind| {
                !["image/", "audio/", "video/"].iter().any(|other| kind.starts_with(other))
            }),
            Self::Reasoning => false,
        }
    }

    /// The refusal of a request by a model without this capability.
    pub(crate) fn refusal(self) -> String {
        match self {
            Self::Images | Self::Audio | Self::Video | Self::Documents => {
                format!("it does not take {}; leave them out of the messages", self.name())
            }
            Self::Tools => "it does not call tools; leave them out".to_owned(),
            other => format!("it has no option `{}`; leave the option out", other.name()),
        }
    }
}

fn has_media(request: &ChatRequest, is: impl Fn(&str) -> bool) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| matches!(part, Part::Media(media) if is(&media.media_type)))
}

/// Token limits of a model; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenLimits {
    /// The maximum number of tokens of request and answer together.
    pub context: Option<u64>,
    /// The maximum number of tokens of an answer.
    pub output: Option<u64>,
}

/// Known facts about a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// Capabilities that the model lacks.
    pub lacks: Vec<Capability>,
    /// Token limits of the model.
    pub limits: TokenLimits,
}

/// Returns what is known of a model by its id, `provider:model`: the row with the longest beginning
/// of it.
pub(crate) fn facts(id: &str) -> ModelFacts {
    let rows = TABLE.model.iter().flat_map(|row| row.ids.iter().map(move |begins| (begins, row)));
    let matching = rows.filter(|(begins, _)| id.starts_with(begins.as_str()));
    let best = matching.max_by_key(|(begins, _)| begins.len());
    best.map_or_else(ModelFacts::default, |(_, row)| ModelFacts {
        lacks: row.lacks.clone(),
        limits: TokenLimits { context: row.context_tokens, output: row.output_tokens },
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ids: Vec<String>,
    #[serde(default)]
    lacks: Vec<Capability>,
    context_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[expect(dead_code, reason = "for readers of the table")]
    source: String,
}

#[expect(clippy::expect_used, reason = "the table is part of the program; a test reads it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(BUILT_IN).expect("the built-in table is valid"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_of_an_id_decides() {
        let facts_of = |id| facts(id).limits.context;
        assert_eq!(facts_of("openai:gpt-4o-mini-2024-07-18"), Some(128_000));
        assert_eq!(facts_of("openai:gpt-4.1-mini"), Some(1_047_576));
        assert_eq!(facts("openai:gpt-5-mini").lacks, [Capability::Temperature]);
        assert_eq!(facts("lab:tiny"), ModelFacts::default());
    }

    #[test]
    fn every_capability_is_listed_once() {
        let mut names: Vec<&str> = Capability::ALL.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Capability::ALL.len());
    }
}
