//! Values of headers, which are hidden in errors.

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use std::collections::HashMap;

/// Minimum length of the value of a header that is hidden in answers, in bytes. A shorter one may be a
/// part of any text.
const HIDDEN_BYTES_MIN: usize = 6;

/// Values of the headers of a request, which a server may repeat in an error, and which neither people
/// nor models read. Results stay as they are: a value may be a word of them.
#[derive(Debug, Clone)]
pub(crate) struct HeaderValues(Vec<String>);

impl HeaderValues {
    pub(crate) fn of(token: Option<&str>, headers: &HashMap<HeaderName, HeaderValue>) -> Self {
        let values = headers.values().filter(|value| value.is_sensitive());
        let values = values.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
        let mut all: Vec<String> = Vec::new();
        for value in values.chain(token.map(str::to_owned)) {
            // With and without a scheme such as `Bearer`.
            let last = value.rsplit(' ').next().unwrap_or_default().to_owned();
            for text in [value, last].into_iter().filter(|text| text.len() >= HIDDEN_BYTES_MIN) {
                let json = Value::from(text.as_str()).to_string();
                all.push(json.trim_matches('"').to_owned());
                all.push(text);
            }
        }
        all.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        Self(all)
    }

    /// Replaces the values in a body with an error status, and in an error of the protocol.
    pub(crate) fn hide_in_error(&self, status: u16, text: &str) -> String {
        let is_error = || {
            let message = serde_json::from_str::<Value>(text).unwrap_or_default();
            message.get("error").is_some_and(|error| !error.is_null())
        };
        if (200..=299).contains(&status) && !is_error() {
            return text.to_owned();
        }
        self.0.iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), "***"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_are_hidden_in_errors_and_results_stay_as_they_are() {
        let mut value = HeaderValue::from_static("Bearer tok-123456");
        value.set_sensitive(true);
        let headers = HashMap::from([(HeaderName::from_static("authorization"), value)]);
        let sent = HeaderValues::of(None, &headers);
        let error = r#"{"id":1,"error":{"message":"no access for tok-123456"}}"#;
        let result = r#"{"id":1,"result":{"content":[{"text":"tok-123456","error":null}]}}"#;
        assert_eq!(sent.hide_in_error(200, error), error.replace("tok-123456", "***"));
        assert_eq!(sent.hide_in_error(403, "bad Bearer tok-123456"), "bad ***");
        assert_eq!(sent.hide_in_error(200, result), result);
    }
}
