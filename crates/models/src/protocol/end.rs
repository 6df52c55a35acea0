//! Names that providers give to the end of an answer.

use crate::chat::FinishReason;

/// Parts of words for an end without an answer.
const GAVE_UP: [&str; 9] = [
    "malformed",
    "cancel",
    "abort",
    "timeout",
    "timed_out",
    "deadline",
    "interrupt",
    "incomplete",
    "disconnect",
];

/// Meaning of the name that a provider gives to the end of an answer.
pub(super) enum End {
    Finish(FinishReason),
    /// The provider ended without an answer; another attempt may succeed.
    GaveUp,
}

impl End {
    /// Returns the meaning of a word, in any notation; `None` for an unknown one.
    pub(super) fn of(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase().replace([' ', '-'], "_");
        let word = word.strip_prefix("finish_reason_").unwrap_or(&word);
        Some(match word {
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" | "end" | "complete"
            | "completed" | "stopped" | "finish" | "finished" | "done" => {
                Self::Finish(FinishReason::Stop)
            }
            "pause_turn" => Self::Finish(FinishReason::Paused),
            "tool_calls" | "tool_call" | "tool_use" | "function_call" | "function_calls" => {
                Self::Finish(FinishReason::ToolCalls)
            }
            // Anthropic, Z.ai; servers after them have words of their own.
            word if word.contains("context_window") || word.contains("context_length") => {
                Self::Finish(FinishReason::ContextLength)
            }
            "refusal"
            | "recitation"
            | "prohibited_content"
            | "spii"
            | "language"
            | "image_prohibited_content"
            | "image_recitation"
            | "sensitive" => Self::Finish(FinishReason::ContentFilter),
            "error"
            | "insufficient_system_resource"
            | "network_error"
            | "failed"
            | "other"
            | "no_image"
            | "image_other"
            | "unexpected_tool_call"
            | "too_many_tool_calls"
            | "missing_thought_signature" => Self::GaveUp,
            // Many servers make up words of their own.
            word => {
                let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
                if has(&GAVE_UP) {
                    Self::GaveUp
                } else if has(&["filter", "safety", "block", "moderation", "policy", "guard"]) {
                    Self::Finish(FinishReason::ContentFilter)
                } else if has(&["max_", "length", "limit", "budget", "truncat"]) {
                    Self::Finish(FinishReason::Length)
                } else {
                    return None;
                }
            }
        })
    }
}
