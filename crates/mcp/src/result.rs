//! Results of servers as values for models.

use crate::lock::Output;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use weftwork_tools::ToolError;

/// The failure of a call as it is shown.
const FAILED: &str = "the server reports a failure, whose text is for the model alone";

/// Returns the value of a result: its structured content, or else its text.
///
/// # Errors
/// [`ToolError`] if the server reports a failure, and for results without the structured content
/// that the recorded schema requires. The text of a failure may repeat what the result would hide,
/// so it is for the model alone.
pub(crate) fn value(result: CallToolResult, output: Output) -> Result<Value, ToolError> {
    if result.is_error == Some(true) {
        let said = match content(result.content) {
            Value::String(text) => text,
            Value::Array(parts) if !parts.is_empty() => Value::Array(parts).to_string(),
            _ => String::new(),
        };
        // Such as a code, and when to try again.
        let details = result.structured_content.map(|details| details.to_string());
        let details = details.filter(|details| !said.contains(details.as_str()));
        let said = Some(said).filter(|said| !said.trim().is_empty());
        let text = match (said, details) {
            (None, None) => "the server reports a failure without a message".to_owned(),
            (said, details) => said.into_iter().chain(details).collect::<Vec<_>>().join("\n"),
        };
        let error = ToolError::failed(FAILED);
        return Err(error.with_model_message(&crate::text::clean(&text)));
    }
    match (result.structured_content, output) {
        (Some(value), _) => Ok(value),
        (None, Output::Opaque) => Ok(content(result.content)),
        (None, Output::Schema) => match content(result.content) {
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(value @ (Value::Object(_) | Value::Array(_))) => Ok(value),
                _ => Err(unstructured(&text)),
            },
            parts => Err(unstructured(&parts.to_string())),
        },
    }
}

/// The error for a result without the structured content that the server declares. The model has its
/// text: the call was made.
fn unstructured(text: &str) -> ToolError {
    let problem = "the tool ran, but the server sent no structured content, which it declares";
    let error = ToolError::failed(problem);
    error.with_model_message(&crate::text::clean(&format!("{problem}. It answered: {text}")))
}

/// Text, or the parts if some are not text. Data that is not text is described only.
fn content(blocks: Vec<ContentBlock>) -> Value {
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text(_));
    if blocks.iter().all(is_text) {
        let texts = blocks.into_iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text),
            _ => None,
        });
        return Value::String(texts.collect::<Vec<_>>().join("\n"));
    }
    Value::Array(blocks.into_iter().map(|block| described(json!(block))).collect())
}

/// Replaces encoded data by its length.
fn described(mut block: Value) -> Value {
    let Value::Object(members) = &mut block else { return block };
    for name in ["data", "blob"] {
        if let Some(data) = members.remove(name) {
            let length = data.as_str().map_or(0, str::len);
            members.insert("bytes".to_owned(), json!(length / 4 * 3));
        }
    }
    if let Some(inner) = members.get_mut("resource") {
        *inner = described(inner.take());
    }
    block
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
            {"type": "image", "mimeType": "image/png", "bytes": 3},
            {"type": "resource", "resource": {"uri": "x:1", "bytes": 6}},
        ]);
        for (found, output, expected) in [
            (text.clone(), Output::Opaque, Ok(json!("a\nb"))),
            (both.clone(), Output::Opaque, Ok(json!({"n": 1}))),
            (both, Output::Schema, Ok(json!({"n": 1}))),
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
}
