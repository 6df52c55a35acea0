//! Capabilities of models: data with a source (`models.toml`).

use crate::chat::{ChatModel, ChatRequest, ToolChoice};
use crate::error::ModelError;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};
use weftwork_types::message::{
    Media, Message, Part, Role, ToolResult, content_parts, media_note, note_media,
};

const BUILT_IN: &str = include_str!("../models.toml");
/// Reason for a note in place of a medium.
const NOT_TAKEN: &str = "this model does not take it";

/// Something that a request may ask of a model and that some models cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// [`ChatRequest::temperature`].
    Temperature,
    /// [`ChatRequest::top_p`].
    TopP,
    /// [`ChatRequest::stop`].
    Stop,
    /// [`ChatRequest::seed`].
    Seed,
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
    pub const ALL: [Self; 15] = [
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
        Self::TopP,
        Self::Stop,
        Self::Seed,
        Self::MaxTokens,
    ];

    /// Name of the capability. That of an option is its name in requests and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::Stop => "stop",
            Self::Seed => "seed",
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
            Self::TopP => request.top_p.is_some(),
            Self::Stop => !request.stop.is_empty(),
            Self::Seed => request.seed.is_some(),
            Self::MaxTokens => request.max_tokens.is_some(),
            Self::Tools => !request.tools.is_empty(),
            Self::ToolChoice => request.tool_choice != ToolChoice::Auto,
            Self::ParallelToolCalls => request.parallel_tool_calls.is_some(),
            Self::SerialToolCalls => {
                request.parallel_tool_calls == Some(false) && !request.tools.is_empty()
            }
            Self::ResponseSchema => request.response_schema.is_some(),
            Self::Images | Self::Audio | Self::Video | Self::Documents => has_media(request, self),
            Self::Reasoning => false,
        }
    }

    fn is_media(self) -> bool {
        matches!(self, Self::Images | Self::Audio | Self::Video | Self::Documents)
    }

    /// The capability that a medium asks for.
    fn of_media(media_type: &str) -> Self {
        match media_type.split('/').next() {
            Some("image") => Self::Images,
            Some("audio") => Self::Audio,
            Some("video") => Self::Video,
            _ => Self::Documents,
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

/// Replaces media that a model cannot take by notes, in all messages before the last one of the user.
/// A conversation goes on after a model refused an image, and with another model than the one that
/// saw it.
pub(crate) fn note_older_media(model: &dyn ChatModel, request: &mut ChatRequest) {
    let last = request.messages.iter().rposition(|message| message.role == Role::User);
    for message in &mut request.messages[..last.unwrap_or_default()] {
        for part in &mut message.parts {
            let Part::Media(media) = part else { continue };
            let is_sent = media.url.starts_with("https:") || media.url.starts_with("data:");
            let capability = Capability::of_media(&media.media_type);
            let is_taken =
                !model.lacks().contains(&capability) && model.check_medium(media).is_ok();
            if !is_taken || !is_sent {
                let text = format!(
                    "[a message part of type {} that this model does not take]",
                    media.media_type
                );
                *part = Part::Text { text };
            }
        }
    }
}

/// Replaces inline files of users by their texts if they are texts, such as CSV. Every model reads
/// those, and most protocols have no form for the files.
pub(crate) fn read_text_files(request: &mut ChatRequest) {
    let said = request.messages.iter_mut().filter(|message| message.role == Role::User);
    for part in said.flat_map(|message| &mut message.parts) {
        let Part::Media(media) = &*part else { continue };
        if let Some(text) = media.text() {
            *part = Part::Text { text: format!("[file of type {}]\n{text}", media.media_type) };
        }
    }
}

/// Checks that a model takes the media of new messages of a conversation.
///
/// # Errors
/// [`ModelError::Unsupported`] with the media that it does not take, as a call would have.
pub fn check_media(model: &dyn ChatModel, messages: Vec<Message>) -> Result<(), ModelError> {
    let mut request = ChatRequest { messages, ..ChatRequest::default() };
    read_text_files(&mut request);
    note_older_media(model, &mut request);
    let mut lacking = model.lacks().iter().filter(|capability| capability.is_media());
    let lacking = lacking.find(|capability| has_media(&request, **capability));
    let what = match lacking {
        Some(capability) => Err(capability.refusal()),
        None => request.messages.iter().flat_map(|message| &message.parts).try_for_each(|part| {
            match part {
                Part::Media(media) => model.check_medium(media),
                _ => Ok(()),
            }
        }),
    };
    what.map_err(|what| ModelError::Unsupported { model: model.info().id(), what })
}

/// Replaces media in results of tools that a model cannot take by notes: the calls were made, so the
/// request is not refused for them.
pub(crate) fn note_result_media(
    lacks: &[Capability],
    mut request: Arc<ChatRequest>,
) -> Arc<ChatRequest> {
    let is_lacking = |media: &Media| lacks.contains(&Capability::of_media(&media.media_type));
    let has_lacking = |result: &ToolResult| {
        let parts = content_parts(&result.value).unwrap_or_default();
        parts.iter().any(|part| matches!(part, Part::Media(media) if is_lacking(media)))
    };
    if request.messages.iter().flat_map(Message::tool_results).any(has_lacking) {
        let reason = |media: &Media| is_lacking(media).then(|| NOT_TAKEN.to_owned());
        let messages = Arc::make_mut(&mut request).messages.iter_mut();
        for part in messages.flat_map(|message| &mut message.parts) {
            if let Part::ToolResult(result) = part {
                note_media(&mut result.value, reason);
            }
        }
    }
    request
}

/// Replaces all media that a model refused by notes. Without such media, this is the same request.
pub(crate) fn note_all_media(
    refused: &[Capability],
    request: Arc<ChatRequest>,
) -> Arc<ChatRequest> {
    let mut request = note_result_media(refused, request);
    if refused.iter().any(|refused| has_media(&request, *refused)) {
        let messages = Arc::make_mut(&mut request).messages.iter_mut();
        for part in messages.flat_map(|message| &mut message.parts) {
            if let Part::Media(media) = part
                && refused.contains(&Capability::of_media(&media.media_type))
            {
                *part = Part::Text { text: media_note(media, NOT_TAKEN) };
            }
        }
    }
    request
}

fn has_media(request: &ChatRequest, asked: Capability) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| match part {
        Part::Media(media) => Capability::of_media(&media.media_type) == asked,
        _ => false,
    })
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
    model: Vec<CapabilityRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapabilityRow {
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
    use crate::chat::{ChatStream, ModelInfo};
    use weftwork_types::MessageId;

    #[test]
    fn the_longest_beginning_of_an_id_decides() {
        let facts_of = |id| facts(id).limits.context;
        assert_eq!(facts_of("openai:gpt-4o-mini-2024-07-18"), Some(128_000));
        assert_eq!(facts_of("openai:gpt-4.1-mini"), Some(1_047_576));
        let reasoning = [Capability::Temperature, Capability::TopP, Capability::Stop];
        assert_eq!(facts("openai:gpt-5-mini").lacks, reasoning);
        assert_eq!(facts("lab:tiny"), ModelFacts::default());
    }

    #[test]
    fn every_capability_is_listed_once() {
        let mut names: Vec<&str> = Capability::ALL.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Capability::ALL.len());
    }

    #[test]
    fn media_of_results_are_noted_for_a_model_that_does_not_take_them() {
        let image = "data:image/png;base64,AA==";
        let value = serde_json::json!([{"type": "image_url", "image_url": {"url": image}}]);
        let result = ToolResult {
            tool_call_id: weftwork_types::ToolCallId::new("c").expect("an id"),
            name: "t".to_owned(),
            value: value.clone(),
            shown: None,
            is_error: false,
        };
        let messages = vec![Message::tool_result(MessageId::new("m").expect("an id"), result)];
        let request = Arc::new(ChatRequest { messages, ..ChatRequest::default() });
        let read = |lacks: &[Capability]| {
            let noted = note_result_media(lacks, Arc::clone(&request));
            let result = noted.messages[0].tool_results().next().expect("a result");
            result.value.clone()
        };
        assert_eq!(read(&[Capability::Audio]), value);
        let note = "[image/png of 1 bytes: this model does not take it]";
        assert_eq!(
            read(&[Capability::Images]),
            serde_json::json!([{"type": "text", "text": note}])
        );
    }

    /// A model that lacks capabilities and takes no GIF.
    #[derive(Debug)]
    struct Lacking(Vec<Capability>);

    impl ChatModel for Lacking {
        fn info(&self) -> &ModelInfo {
            static INFO: LazyLock<ModelInfo> = LazyLock::new(|| ModelInfo {
                provider: "lab".to_owned(),
                model: "tiny".to_owned(),
                label: None,
            });
            &INFO
        }

        fn lacks(&self) -> &[Capability] {
            &self.0
        }

        fn check_medium(&self, media: &Media) -> Result<(), String> {
            match media.media_type.as_str() {
                "image/gif" => Err("media of type `image/gif`".to_owned()),
                _ => Ok(()),
            }
        }

        fn stream(&self, _: Arc<ChatRequest>) -> ChatStream {
            panic!("it is not called")
        }
    }

    #[test]
    fn media_that_a_model_cannot_be_sent_are_refused_and_noted_once_they_are_older() {
        let said = |id: &str, media_type: &str, data: &str| {
            let url = format!("data:{media_type};base64,{data}");
            let media = Media { media_type: media_type.to_owned(), url };
            let id = MessageId::new(id).expect("an id");
            Message::new(id, Role::User, vec![Part::Media(media)])
        };
        let model = Lacking(vec![Capability::Documents]);
        let gif = said("a", "image/gif", "AA==");
        let csv = said("b", "text/csv", "YSxi");
        let error = check_media(&model, vec![csv.clone(), gif.clone()]).expect_err("a GIF");
        assert_eq!(error.code().0, "W0310");
        assert!(error.to_string().contains("`image/gif`"), "{error}");
        // An older one is a note, and a text is read as such.
        check_media(&model, vec![gif.clone(), csv.clone()]).expect("taken");
        let mut request = ChatRequest { messages: vec![gif, csv], ..ChatRequest::default() };
        read_text_files(&mut request);
        note_older_media(&model, &mut request);
        let texts: Vec<_> = request.messages.iter().map(Message::joined_text).collect();
        assert_eq!(
            texts,
            [
                "[a message part of type image/gif that this model does not take]",
                "[file of type text/csv]\na,b"
            ]
        );
    }

    #[test]
    fn older_media_are_noted_for_a_model_that_does_not_take_them() {
        let media = |url: &str| {
            Part::Media(Media { media_type: "image/png".to_owned(), url: url.to_owned() })
        };
        let said = |id: &str, url: &str| {
            let id = MessageId::new(id).expect("an id");
            Message::new(id, Role::User, vec![media(url)])
        };
        let messages =
            vec![said("a", "https://x/y"), said("b", "http://x/y"), said("c", "https://x/y")];
        let kept = |lacks: &[Capability]| {
            let mut request = ChatRequest { messages: messages.clone(), ..ChatRequest::default() };
            note_older_media(&Lacking(lacks.to_vec()), &mut request);
            let is_media = |message: &Message| matches!(message.parts[0], Part::Media(_));
            request.messages.iter().map(is_media).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[]), [true, false, true]);
        // The last one is refused by name.
        assert_eq!(kept(&[Capability::Images]), [false, false, true]);
    }
}
