//! Results of servers as values for models.

use crate::lock::Output;
use crate::media::{Block, read_block};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use weftwork_tools::{ToolError, ToolOutput};
use weftwork_types::message::{Part, content_blocks};

/// The failure of a call as it is shown.
const FAILED: &str = "the server reports a failure, whose text is for the model alone";

/// Returns a result: its structured content, with the content that says more than that, or else its
/// content alone.
///
/// # Errors
/// [`ToolError`] if the server reports a failure, and for results without the structured content
/// that the recorded schema requires. The text of a failure may repeat what the result would hide,
/// so it is for the model alone.
pub(crate) fn read_output(result: CallToolResult, kind: Output) -> Result<ToolOutput, ToolError> {
    if result.is_error == Some(true) {
        return Err(read_failure(result));
    }
    let blocks: Vec<Block> = result.content.into_iter().map(read_block).collect();
    match (result.structured_content, kind) {
        (Some(value), _) => Ok(with_content(value, blocks)),
        (None, Output::Opaque) => Ok(ToolOutput::Value(content_of_blocks(&blocks))),
        (None, Output::Schema) => {
            let is_text = |block: &Block| matches!(block, Block::Text(_));
            let texts: Vec<Block> = blocks.iter().filter(|block| is_text(block)).cloned().collect();
            let text = text_of(&texts);
            match serde_json::from_str(&text) {
                Ok(value @ (Value::Object(_) | Value::Array(_))) => Ok(with_content(value, blocks)),
                _ if texts.len() == blocks.len() => Err(unstructured_result(&text)),
                _ => Err(unstructured_result(&describe_blocks(&blocks).to_string())),
            }
        }
    }
}

fn read_failure(result: CallToolResult) -> ToolError {
    let blocks: Vec<Block> = result.content.into_iter().map(read_block).collect();
    let said = match blocks.iter().all(|block| matches!(block, Block::Text(_))) {
        true => text_of(&blocks),
        false => describe_blocks(&blocks).to_string(),
    };
    // Such as a code, and when to try again.
    let details = result.structured_content.map(|details| details.to_string());
    let details = details.filter(|details| !said.contains(details.as_str()));
    let said = Some(said).filter(|said| !said.trim().is_empty());
    let text = match (said, details) {
        (None, None) => "the server reports a failure without a message".to_owned(),
        (said, details) => said.into_iter().chain(details).collect::<Vec<_>>().join("\n"),
    };
    ToolError::failed(FAILED).with_model_message(&crate::text::clean(&text))
}

/// The error for a result without the structured content that the server declares. The model has its
/// text: the call was made.
fn unstructured_result(text: &str) -> ToolError {
    let problem = "the tool ran, but the server sent no structured content, which it declares";
    let error = ToolError::failed(problem);
    error.with_model_message(&crate::text::clean(&format!("{problem}. It answered: {text}")))
}

/// Structured content with the blocks that say more. Servers repeat it as text for older clients.
fn with_content(value: Value, blocks: Vec<Block>) -> ToolOutput {
    let says_more = |block: &Block| match block {
        Block::Text(text) => !is_repeated(text, &value),
        Block::Media(_) | Block::Other(_) => true,
    };
    let content: Vec<Part> = blocks.into_iter().filter(says_more).map(Block::into_part).collect();
    match content.is_empty() {
        true => ToolOutput::Value(value),
        false => ToolOutput::WithContent { value, content },
    }
}

/// Returns `true` if a text is a value or a part of it, as JSON or as it is.
fn is_repeated(text: &str, value: &Value) -> bool {
    let text = text.trim();
    let parsed = serde_json::from_str::<Value>(text).ok();
    let is_same = |found: &Value| {
        found.as_str().is_some_and(|found| found.trim() == text)
            || parsed.as_ref().is_some_and(|parsed| is_equal(parsed, found))
    };
    text.is_empty() || is_within(value, &is_same)
}

fn is_within(value: &Value, is_same: &dyn Fn(&Value) -> bool) -> bool {
    is_same(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| is_within(item, is_same)),
            Value::Object(members) => members.values().any(|member| is_within(member, is_same)),
            _ => false,
        }
}

/// Compares values, in which 1 and 1.0 are one number.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|pair| is_equal(pair.0, pair.1))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |name: &String, value| other.get(name).is_some_and(|o| is_equal(value, o));
            one.len() == other.len() && one.iter().all(|member| has(member.0, member.1))
        }
        (one, other) => one == other,
    }
}

fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Media(_) | Block::Other(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Content without structured content: a text, a list of texts and media, or the parts as they are.
fn content_of_blocks(blocks: &[Block]) -> Value {
    if blocks.iter().all(|block| matches!(block, Block::Text(_))) {
        return text_of(blocks).into();
    }
    if blocks.iter().any(|block| matches!(block, Block::Media(_))) {
        let parts: Vec<Part> = blocks.iter().cloned().map(Block::into_part).collect();
        return content_blocks(&parts);
    }
    describe_blocks(blocks)
}

/// The parts as they are, with the size of data in its place.
fn describe_blocks(blocks: &[Block]) -> Value {
    let described = |block: &Block| match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Media(media) => json!({"type": media.media_type, "bytes": media.bytes()}),
        Block::Other(other) => other.clone(),
    };
    blocks.iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).expect("a result")
    }

    #[test]
    fn results_become_values() {
        let text =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        let both =
            json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}});
        let image = json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:1", "blob": "AAAAAAAA"}},
        ]});
        let parts = json!([
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": r#"{"type":"resource","resource":{"uri":"x:1","bytes":6}}"#},
        ]);
        let value = |found, kind| match read_output(found, kind)? {
            ToolOutput::Value(value) => Ok::<_, ToolError>(value),
            ToolOutput::WithContent { value, content } => {
                Ok(json!([value, content_blocks(&content)]))
            }
            other => panic!("{other:?}"),
        };
        let more = json!([{"n": 1}, [{"type": "text", "text": "a"}]]);
        for (found, output, expected) in [
            (text.clone(), Output::Opaque, Ok(json!("a\nb"))),
            (both.clone(), Output::Opaque, Ok(more.clone())),
            (both, Output::Schema, Ok(more)),
            (text, Output::Schema, Err("It answered: a\nb")),
            (image, Output::Opaque, Ok(parts)),
            (
                json!({"content": [{"type": "text", "text": "{\"n\": 1}"}]}),
                Output::Schema,
                Ok(json!({"n": 1})),
            ),
            (
                json!({"content": [], "structuredContent": {"code": 7}, "isError": true}),
                Output::Schema,
                Err(r#"{"code":7}"#),
            ),
            (json!({"content": []}), Output::Opaque, Ok(json!(""))),
            (json!({"content": [], "isError": true}), Output::Opaque, Err("without a message")),
            (
                json!({"content": [{"type": "text", "text": "\u{1b}[1mno"}], "isError": true}),
                Output::Schema,
                Err("no"),
            ),
        ] {
            match (value(result(found), output), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => {
                    let text = found.model_message().unwrap_or(found.message());
                    assert!(text.ends_with(expected), "{found:?}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn what_structured_content_repeats_is_read_once() {
        for (structured, text, is_once) in [
            (json!({"a": 1, "b": [2]}), "{\n  \"b\": [2.0],\n  \"a\": 1\n}", true),
            (json!({"result": "It rains."}), "It rains.", true),
            (json!({"result": ["one", {"n": 2}]}), "{\"n\": 2}", true),
            (json!({"result": 7}), " 7 ", true),
            (json!({"a": 1}), "", true),
            (json!({"a": 1}), "One of them is cheaper: a.", false),
            (json!({"a": 1}), "{\"a\": 1, \"b\": 2}", false),
            (json!({"a": 1}), "[1", false),
        ] {
            let found = result(json!({
                "content": [{"type": "text", "text": text}], "structuredContent": structured,
            }));
            let is_value = matches!(read_output(found, Output::Schema), Ok(ToolOutput::Value(_)));
            assert_eq!(is_value, is_once, "{structured} {text}");
        }
    }
}
