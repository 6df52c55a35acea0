//! Reads the documents of an answer.

use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{Flaw, Progress, Reader, structure};
use crate::protocol::fields::{
    error_member, fragment, if_readable, index, list, or_default, text_or_default,
};
use crate::protocol::signature::Format;
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::usage::Tokens;

/// A reader for one answer. The body ends after the document with the reason.
#[derive(Debug, Default)]
pub(in crate::protocol) struct GeminiReader {
    calls: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiDocument {
    #[serde(deserialize_with = "if_readable")]
    response_id: Option<String>,
    #[serde(deserialize_with = "list")]
    candidates: Vec<Candidate>,
    usage_metadata: Value,
    #[serde(deserialize_with = "if_readable")]
    prompt_feedback: Option<Feedback>,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    #[serde(deserialize_with = "index")]
    index: Option<u64>,
    #[serde(deserialize_with = "if_readable")]
    content: CandidateContent,
    #[serde(alias = "finish_reason", deserialize_with = "text_or_default")]
    finish_reason: String,
    #[serde(deserialize_with = "if_readable")]
    finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CandidateContent {
    #[serde(deserialize_with = "list")]
    parts: Vec<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    #[serde(deserialize_with = "text_or_default")]
    text: String,
    /// `true` if the text is a summary of the model's reasoning.
    #[serde(deserialize_with = "or_default")]
    thought: bool,
    #[serde(alias = "thought_signature", deserialize_with = "text_or_default")]
    thought_signature: String,
    #[serde(alias = "function_call", deserialize_with = "if_readable")]
    function_call: Option<FunctionCall>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionCall {
    #[serde(alias = "partialArgs")]
    partial_args: Value,
    #[serde(alias = "willContinue")]
    will_continue: Value,
    #[serde(deserialize_with = "text_or_default")]
    id: String,
    #[serde(deserialize_with = "text_or_default")]
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

impl Reader for GeminiReader {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let document: GeminiDocument = structure(document)?;
        if let Some(error) = error_member(document.error) {
            return Err(Flaw::Refused(error));
        }
        progress.set_id(document.response_id);
        progress.tokens = tokens(&document.usage_metadata).or(progress.tokens);
        if document.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            progress.finish = Some(FinishReason::ContentFilter);
        }
        // Several answers are not asked for.
        let numbered = (0..).zip(document.candidates);
        let mut first = numbered.filter(|(at, candidate)| candidate.index.unwrap_or(*at) == 0);
        if let Some((_, candidate)) = first.next() {
            for part in candidate.content.parts {
                self.read_part(part, progress)?;
            }
            let word = match candidate.finish_reason.as_str() {
                "STOP" if self.calls > 0 => "tool_calls",
                word => word,
            };
            progress.end(word, candidate.finish_message.as_deref())?;
        }
        Ok(())
    }
}

impl GeminiReader {
    fn read_part(&mut self, part: Part, progress: &mut Progress) -> Result<(), Flaw> {
        if part.thought {
            progress.reasoning(&part.text);
        }
        // The signature belongs to this part. A message keeps it as reasoning before the part.
        progress.sign(Format::Gemini, &part.thought_signature);
        if !part.thought {
            progress.text(&part.text);
        }
        if let Some(call) = part.function_call {
            if !call.partial_args.is_null() || call.will_continue == Value::Bool(true) {
                let problem = "it streams the arguments of a call, which was not asked for";
                return Err(Flaw::Malformed(problem.to_owned()));
            }
            let args = match &call.args {
                Value::Object(args) if args.is_empty() => String::new(),
                args => fragment(args),
            };
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index: self.calls,
                id: Some(call.id).filter(|id| !id.is_empty()),
                name: Some(call.name),
                args,
            });
            self.calls += 1;
        }
        Ok(())
    }
}
