//! Reads the documents of an answer.

use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{
    Flaw, Progress, Reader, if_readable, or_default, structure, unknown_reason,
};
use crate::protocol::signature::Format;
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::usage::Tokens;

/// A reader for one answer. The body ends after the document with the reason.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Answer {
    calls: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Document {
    #[serde(deserialize_with = "if_readable")]
    response_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    candidates: Vec<Candidate>,
    usage_metadata: Value,
    #[serde(deserialize_with = "if_readable")]
    prompt_feedback: Option<Feedback>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    #[serde(deserialize_with = "or_default")]
    index: u64,
    #[serde(deserialize_with = "or_default")]
    content: Content,
    finish_reason: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "or_default")]
    parts: Vec<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    #[serde(deserialize_with = "or_default")]
    text: String,
    /// `true` if the text is a summary of the model's reasoning.
    #[serde(deserialize_with = "or_default")]
    thought: bool,
    #[serde(deserialize_with = "or_default")]
    thought_signature: String,
    function_call: Option<Call>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call {
    id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    name: String,
    args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

/// Returns the counts of an account; `None` if it has none that is known. The protocol counts
/// reasoning beside the answer, and leaves out counts of zero.
fn tokens(usage: &Value) -> Option<Tokens> {
    let account = Account(usage);
    let count = |path: &str| account.count(&[path]);
    let thoughts = count("/thoughtsTokenCount");
    account.input().or(account.output()).or(thoughts)?;
    let tools = count("/toolUsePromptTokenCount").unwrap_or_default();
    let input = account.input().unwrap_or_default().saturating_add(tools);
    let thoughts = thoughts.unwrap_or_default();
    let output = account.output().unwrap_or_default().saturating_add(thoughts);
    let cached = count("/cachedContentTokenCount").unwrap_or_default();
    Some(Tokens::reported(input, output).cached(cached).reasoning(thoughts))
}

impl Reader for Answer {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let document: Document = structure(document)?;
        if let Some(error) = document.error {
            return Err(Flaw::Refused(error));
        }
        progress.set_id(document.response_id);
        progress.tokens = tokens(&document.usage_metadata).or(progress.tokens);
        if document.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            progress.finish = Some(FinishReason::ContentFilter);
        }
        for candidate in document.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.parts {
                self.part(part, progress);
            }
            if let Some(word) = candidate.finish_reason {
                progress.finish = Some(self.reason(&word, candidate.finish_message.as_deref())?);
            }
        }
        Ok(())
    }
}

impl Answer {
    fn part(&mut self, part: Part, progress: &mut Progress) {
        if part.thought {
            progress.reasoning(&part.text);
        }
        // The signature belongs to this part. A message keeps it as reasoning before the part.
        if !part.thought_signature.is_empty() {
            progress.events.push_back(Format::Gemini.event(&part.thought_signature));
        }
        if !part.thought {
            progress.text(&part.text);
        }
        if let Some(call) = part.function_call {
            let has_args = call.args.as_object().is_some_and(|args| !args.is_empty());
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index: self.calls,
                id: call.id.filter(|id| !id.is_empty()),
                name: Some(call.name),
                args: if has_args { call.args.to_string() } else { String::new() },
            });
            self.calls += 1;
        }
    }

    fn reason(&self, word: &str, message: Option<&str>) -> Result<FinishReason, Flaw> {
        Ok(match word {
            "STOP" if self.calls > 0 => FinishReason::ToolCalls,
            "STOP" => FinishReason::Stop,
            "MAX_TOKENS" => FinishReason::Length,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => FinishReason::ContentFilter,
            "OTHER"
            | "NO_IMAGE"
            | "IMAGE_OTHER"
            | "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MISSING_THOUGHT_SIGNATURE"
            | "MALFORMED_RESPONSE" => {
                let message = message.map(|message| format!(": {message}")).unwrap_or_default();
                return Err(Flaw::Truncated(format!("the provider gave up: `{word}`{message}")));
            }
            other => return Err(unknown_reason(other)),
        })
    }
}
