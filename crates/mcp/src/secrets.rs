//! Values of an entry of the file of servers that may be secret, and which are hidden in errors.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;
use std::fmt;

/// Minimum length of the value of a header or a variable that is hidden, in bytes. A shorter one may
/// be a part of any text.
const HIDDEN_BYTES_MIN: usize = 6;
/// Minimum length of a value that the file itself has in `env` or in an address, in bytes.
const LITERAL_BYTES_MIN: usize = 8;
/// Minimum length of a part of an address that a variable has as a whole, in bytes.
const PATH_BYTES_MIN: usize = 16;
/// The text in place of a hidden value.
const HIDDEN: &str = "***";

/// Values that a server may repeat in an error, and which neither people nor models read. Results stay
/// as they are: a value may be a word of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("values", &self.0.len()).finish()
    }
}

impl Secrets {
    /// Adds the value of a header, or of a variable that the file names.
    pub(crate) fn add(&mut self, value: &str) {
        // With and without a scheme such as `Bearer`.
        let last = value.rsplit(' ').next().unwrap_or_default();
        for text in [value, last] {
            self.add_spellings(text, HIDDEN_BYTES_MIN);
        }
    }

    /// Adds a value that the file itself has.
    pub(crate) fn add_literal(&mut self, value: &str) {
        self.add_spellings(value, LITERAL_BYTES_MIN);
    }

    /// Adds the value of a variable in an address, or the long parts of a value that is an address.
    pub(crate) fn add_part_of_address(&mut self, value: &str) {
        if !value.contains("://") {
            return self.add(value);
        }
        for part in value.split(['/', '?', '&', '=', '#']) {
            self.add_spellings(part, PATH_BYTES_MIN);
        }
    }

    /// Adds the password and the values in the query of an address. Its host is not hidden.
    pub(crate) fn add_address(&mut self, address: &str) {
        let Ok(url) = url::Url::parse(address) else { return };
        self.add_literal(url.password().unwrap_or_default());
        for pair in url.query().unwrap_or_default().split('&') {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            self.add_literal(value);
        }
        for (_, value) in url.query_pairs() {
            self.add_literal(&value);
        }
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        self.0.retain(|value| !host.contains(&value.to_ascii_lowercase()));
    }

    /// Adds a value as it is, as in JSON, and as in an address.
    fn add_spellings(&mut self, value: &str, bytes_min: usize) {
        if value.len() < bytes_min {
            return;
        }
        let json = Value::from(value).to_string();
        let encoded = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>();
        let percent = encoded.replace('+', "%20");
        let json = json.trim_matches('"').to_owned();
        for text in [value.to_owned(), json, encoded, percent] {
            if !self.0.contains(&text) {
                self.0.push(text);
            }
        }
        // A value may be a part of another one.
        self.0.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
    }

    /// Returns the values with those of a login's token.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        let mut all = self.clone();
        if let Some(token) = token {
            all.add(token);
        }
        all
    }

    /// Replaces the values in a text.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), HIDDEN))
    }

    /// Replaces the values in a body with an error status, and in an error of the protocol.
    pub(crate) fn hide_in_error(&self, status: u16, text: &str) -> String {
        let is_error = || {
            let message = serde_json::from_str::<Value>(text).unwrap_or_default();
            message.get("error").is_some_and(|error| !error.is_null())
        };
        match (200..=299).contains(&status) && !is_error() {
            true => text.to_owned(),
            false => self.hide(text),
        }
    }

    /// Replaces the values in the result of a call that failed.
    pub(crate) fn hide_in_result(&self, result: CallToolResult) -> CallToolResult {
        if result.is_error != Some(true) || self.0.is_empty() {
            return result;
        }
        let mut hidden = serde_json::to_value(&result).unwrap_or_default();
        self.hide_in_value(&mut hidden);
        // A result that is no longer one says so, rather than nothing.
        serde_json::from_value(hidden).unwrap_or_else(|_| {
            let text =
                "the tool failed; its error is not shown, as it has a secret of the MCP file";
            CallToolResult::error(vec![ContentBlock::text(text)])
        })
    }

    fn hide_in_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in_value(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.hide_in_value(member));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_hidden_in_errors_and_results_stay_as_they_are() {
        let sent = Secrets::default().with_token(Some("Bearer tok-123456"));
        let error = r#"{"id":1,"error":{"message":"no access for tok-123456"}}"#;
        let result = r#"{"id":1,"result":{"content":[{"text":"tok-123456","error":null}]}}"#;
        assert_eq!(sent.hide_in_error(200, error), error.replace("tok-123456", "***"));
        assert_eq!(sent.hide_in_error(403, "bad Bearer tok-123456"), "bad ***");
        assert_eq!(sent.hide_in_error(200, result), result);
        let called = |is_error: bool| {
            let result =
                json!({"content": [{"type": "text", "text": "tok-123456"}], "isError": is_error});
            let result = serde_json::from_value(result).expect("a result");
            serde_json::to_string(&sent.hide_in_result(result)).expect("JSON")
        };
        assert!(called(false).contains("tok-123456"));
        assert!(called(true).contains("***") && !called(true).contains("tok-123456"));
    }

    #[test]
    fn a_secret_of_an_address_is_hidden_in_all_its_spellings() {
        let mut secrets = Secrets::default();
        secrets.add_address("https://me:pass-1234@127.0.0.1/mcp?key=a%2Fb%3Dc-12345&zone=UTC");
        for text in ["pass-1234", "a%2Fb%3Dc-12345", "a/b=c-12345"] {
            assert_eq!(secrets.hide(&format!("bad {text}, UTC")), "bad ***, UTC");
        }
        secrets.add_part_of_address("https://host.example.com/s/key-of-a-person-1/mcp");
        secrets.add_part_of_address("other.example.com");
        secrets.add_address("https://host.example.com/s/key-of-a-person-1/mcp");
        assert_eq!(
            secrets.hide("https://host.example.com/s/key-of-a-person-1/mcp"),
            "https://host.example.com/s/***/mcp"
        );
        secrets.add_address("https://other.example.com/mcp");
        assert_eq!(secrets.hide("https://other.example.com/mcp"), "https://other.example.com/mcp");
    }
}
