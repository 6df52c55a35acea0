//! Signatures of reasoning.
//!
//! A provider accepts its reasoning back only with the signature that it issued, and refuses that
//! of another provider. Therefore signatures in messages begin with the name of their format, and
//! with that of the provider unless it is the one that the format is from.

use weftwork_types::message::Part;

/// The format of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Signature of an Anthropic thinking block.
    Anthropic,
    /// Data of an Anthropic thinking block without readable text.
    AnthropicRedacted,
    /// The content of an answer that Anthropic paused, as JSON.
    AnthropicTurn,
    /// An Anthropic thinking block that its server did not sign; there is nothing to issue.
    AnthropicUnsigned,
    /// Gemini's thought signature of the part that follows.
    Gemini,
    /// An OpenAI reasoning item as JSON, with its id and encrypted content.
    Openai,
    /// Members of the OpenAI message item whose text follows, as JSON.
    OpenaiMessage,
    /// Parts of an answer in chat completions that go back to its provider, as JSON.
    Chat,
}

impl Format {
    /// The name of the format, and the provider that it is from.
    fn format_and_provider(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("anthropic", "anthropic"),
            Self::AnthropicRedacted => ("anthropic-redacted", "anthropic"),
            Self::AnthropicTurn => ("anthropic-turn", "anthropic"),
            Self::AnthropicUnsigned => ("anthropic-unsigned", "anthropic"),
            Self::Gemini => ("gemini", "gemini"),
            Self::Openai => ("openai", "openai-responses"),
            Self::OpenaiMessage => ("openai-message", "openai-responses"),
            Self::Chat => ("chat", ""),
        }
    }

    /// Returns `true` if a part of a message has a signature of this format, of any provider.
    pub(super) fn is_of(self, part: &Part) -> bool {
        let name = self.format_and_provider().0;
        let Part::Reasoning { signature: Some(signature), .. } = part else { return false };
        signature.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '@']))
    }

    /// The form in a message of a signature as a provider issued it.
    pub(super) fn signature(self, issued: &str, provider: &str) -> String {
        let (name, own) = self.format_and_provider();
        match provider == own {
            true => format!("{name}:{issued}"),
            false => format!("{name}@{provider}:{issued}"),
        }
    }

    /// The signature as the provider issued it; `None` if it has another format or is that of
    /// another provider.
    pub(super) fn issued<'a>(self, signature: Option<&'a str>, provider: &str) -> Option<&'a str> {
        let (name, own) = self.format_and_provider();
        let rest = signature?.strip_prefix(name)?;
        match rest.strip_prefix('@') {
            None => rest.strip_prefix(':').filter(|_| provider == own),
            Some(rest) => rest.strip_prefix(provider)?.strip_prefix(':'),
        }
    }
}
