//! Requests of servers for input from a person.

use crate::text::{clean, is_hidden, short};
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequiredResult,
    InputResponses,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_tools::{Reply, ToolQuestion};
use weftwork_types::canonical;

/// Maximum length of a server's question, in characters.
const QUESTION_CHARS_MAX: usize = 4_000;

/// Parts of names of fields that ask for a secret.
const SECRETS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "credential",
    "privatekey",
    "accesskey",
    "cvv",
    "cvc",
    "pincode",
];

/// The state of a call while a person is asked. It is recorded with the questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Waiting {
    /// The server has ended the request, and expects it again with the input.
    Required {
        /// Keys of the requests that are put to the person, in order of the questions.
        keys: Vec<String>,
        /// Keys of the requests that are refused.
        refused: Vec<String>,
        /// State of the server, passed back as it is.
        request_state: Option<String>,
    },
    /// The server waits within the request, as in older versions of the protocol.
    Open {
        /// Hash of the request for input.
        request: String,
    },
}

/// Returns the question of a request; `None` if it asks for a secret or cannot be shown.
pub(crate) fn question_of(server: &str, request: &ElicitRequestParams) -> Option<ToolQuestion> {
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let mut schema = serde_json::to_value(requested_schema).ok()?;
            if asks_for_secret(&schema) || crate::text::clean_schema(&mut schema).is_err() {
                return None;
            }
            let text = format!("MCP server `{server}` asks: {}", shorten_question(message));
            Some(ToolQuestion::new(text, schema))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            if !is_web || url.chars().any(|letter| is_hidden(letter) || letter.is_whitespace()) {
                return None;
            }
            let text = format!(
                "MCP server `{server}` asks you to open {} yourself, and to accept when you are done there: {}",
                short(url, 2_000),
                shorten_question(message)
            );
            Some(ToolQuestion::new(text, json!({"type": "object", "additionalProperties": false})))
        }
        _ => None,
    }
}

fn shorten_question(message: &str) -> String {
    clean(message).chars().take(QUESTION_CHARS_MAX).collect()
}

/// Returns `true` if a field has the name, title or format of a secret.
fn asks_for_secret(schema: &Value) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().any(|(name, field)| {
        let title = field.get("title").and_then(Value::as_str).unwrap_or_default();
        let format = field.get("format").and_then(Value::as_str).unwrap_or_default();
        [name.as_str(), title, format].iter().any(|text| {
            let letters = text.chars().filter(|letter| letter.is_alphanumeric());
            let text: String = letters.flat_map(char::to_lowercase).collect();
            SECRETS.iter().any(|secret| text.contains(secret))
        })
    })
}

/// The hash of a request for input, by which a repeated one is recognised.
pub(crate) fn fingerprint_request(request: &ElicitRequestParams) -> String {
    let mut request = json!(request);
    if let Some(members) = request.as_object_mut() {
        // Different in each request.
        members.remove("elicitationId");
        members.remove("_meta");
    }
    canonical::hash(&request).to_string()
}

/// Returns a person's reply in the form of the protocol.
pub(crate) fn result_of_reply(reply: &Reply) -> ElicitResult {
    match reply {
        Reply::Accept { content } => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content.clone())
        }
        Reply::Decline => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// Splits the input that a server requires into questions and what is recorded with them.
///
/// # Errors
/// The kind of a request that is not supported.
pub(crate) fn split_required(
    server: &str,
    found: InputRequiredResult,
) -> Result<(Vec<ToolQuestion>, Waiting), &'static str> {
    let mut questions = Vec::new();
    let mut keys = Vec::new();
    let mut refused = Vec::new();
    for (key, request) in found.input_requests.unwrap_or_default() {
        match request {
            InputRequest::Elicitation(request) => match question_of(server, &request.params) {
                Some(question) => {
                    questions.push(question);
                    keys.push(key);
                }
                None => refused.push(key),
            },
            InputRequest::CreateMessage(_) => return Err("a model's answer"),
            InputRequest::ListRoots(_) => return Err("folders of the client"),
            _ => return Err("input of an unknown kind"),
        }
    }
    let request_state = found.request_state;
    Ok((questions, Waiting::Required { keys, refused, request_state }))
}

/// Returns the answers to the requests of a server.
pub(crate) fn responses_of(
    keys: &[String],
    replies: &[Reply],
    refused: &[String],
) -> InputResponses {
    let declined = refused.iter().map(|key| (key.clone(), json!(result_of_reply(&Reply::Decline))));
    let answered =
        keys.iter().zip(replies).map(|(key, one)| (key.clone(), json!(result_of_reply(one))));
    declined.chain(answered).collect::<BTreeMap<_, _>>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name_title_and_format() {
        for (field, secret) in [
            (json!({"user_name": {"type": "string"}}), false),
            (json!({"colour": {"type": "string", "title": "Favourite colour"}}), false),
            (json!({"Pass-Word": {"type": "string"}}), true),
            (json!({"x": {"type": "string", "title": "Your API key"}}), true),
            (json!({"x": {"type": "string", "format": "password"}}), true),
            (json!({"accessToken": {"type": "string"}}), true),
        ] {
            let schema = json!({"type": "object", "properties": field});
            assert_eq!(asks_for_secret(&schema), secret, "{schema}");
        }
    }

    #[test]
    fn addresses_are_shown_and_others_than_of_the_web_refused() {
        let request = |url: &str| ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message: "Sign in.".to_owned(),
            url: url.to_owned(),
            elicitation_id: "1".to_owned(),
        };
        let asked = question_of("s", &request("https://127.0.0.1/a?b=c")).expect("shown");
        assert!(asked.question.contains("https://127.0.0.1/a?b=c yourself"), "{}", asked.question);
        for bad in ["file:///etc/passwd", "javascript:alert(1)", "https://a\u{202e}b", "http://a b"]
        {
            assert_eq!(question_of("s", &request(bad)), None, "{bad}");
        }
    }
}
