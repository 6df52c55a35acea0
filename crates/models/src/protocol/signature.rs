//! Signatures of reasoning.
//!
//! A provider accepts its reasoning back only with the signature that it issued, and refuses that
//! of another provider. Therefore signatures in messages begin with the name of their format.

use crate::chat::ChatEvent;

/// The format of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Signature of an Anthropic thinking block.
    Anthropic,
    /// Data of an Anthropic thinking block without readable text.
    AnthropicRedacted,
    /// Gemini's thought signature of the part that follows.
    Gemini,
    /// An OpenAI reasoning item as JSON, with its id and encrypted content.
    Openai,
}

impl Format {
    fn prefix(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic:",
            Self::AnthropicRedacted => "anthropic-redacted:",
            Self::Gemini => "gemini:",
            Self::Openai => "openai:",
        }
    }

    /// The event for a signature as the provider issued it.
    pub(super) fn event(self, issued: &str) -> ChatEvent {
        ChatEvent::ReasoningSignature(format!("{}{issued}", self.prefix()))
    }

    /// The signature as the provider issued it; `None` if it has another format.
    pub(super) fn issued(self, signature: Option<&str>) -> Option<&str> {
        signature?.strip_prefix(self.prefix())
    }
}
