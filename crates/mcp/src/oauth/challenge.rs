//! `WWW-Authenticate`: why a server refuses a request, and where it says how to log in.

use weftwork_types::port::EgressResponse;

/// The parameters of a `Bearer` challenge. All are texts of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Address of the metadata of the protected resource (RFC 9728).
    pub(crate) resource_metadata: Option<String>,
    /// Scopes that the request needs.
    pub(crate) scopes: Option<String>,
    /// Reason, such as `invalid_token` or `insufficient_scope`.
    pub(crate) error: Option<String>,
    /// Reason in words.
    pub(crate) description: Option<String>,
}

impl Challenge {
    /// Reads the challenges of a response. Some servers and proxies send several, of which only those
    /// of the scheme `Bearer` count.
    pub(crate) fn of(response: &EgressResponse) -> Self {
        let mut all = Self::default();
        for (name, value) in &response.headers {
            if name == "www-authenticate" {
                all.read(value);
            }
        }
        all
    }

    /// Returns `true` if a token with more scopes would be accepted.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn read(&mut self, header: &str) {
        let mut rest = header.trim_start();
        let mut is_bearer = false;
        while !rest.is_empty() {
            let end = rest.find(['=', ' ', ',', '\t']).unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default();
            let after = rest.get(end..).unwrap_or_default();
            let value = after.trim_start().strip_prefix('=');
            rest = match value {
                Some(value) => {
                    let value = Value::first(value.trim_start());
                    if is_bearer {
                        self.set_parameter(name, value.text);
                    }
                    value.rest
                }
                None => {
                    if !name.is_empty() {
                        is_bearer = name.eq_ignore_ascii_case("bearer");
                    }
                    after
                }
            };
            rest = rest.trim_start_matches([',', ' ', '\t']);
        }
    }

    fn set_parameter(&mut self, name: &str, value: String) {
        let member = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scopes,
            "error" => &mut self.error,
            "error_description" => &mut self.description,
            _ => return,
        };
        if !value.is_empty() {
            member.get_or_insert(value);
        }
    }
}

/// The value of a parameter, and the text behind it.
struct Value<'a> {
    text: String,
    rest: &'a str,
}

impl<'a> Value<'a> {
    fn first(text: &'a str) -> Self {
        let Some(quoted) = text.strip_prefix('"') else {
            let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
            let (value, rest) = text.split_at(end);
            return Self { text: value.to_owned(), rest };
        };
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => return Self { text: value, rest: quoted.get(at + 1..).unwrap_or_default() },
                '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
                letter => value.push(letter),
            }
        }
        // The closing quote is missing.
        Self { text: value, rest: "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_in_all_forms_that_servers_send() {
        let expected =
            |metadata: Option<&str>, scope: Option<&str>, error: Option<&str>| Challenge {
                resource_metadata: metadata.map(str::to_owned),
                scopes: scope.map(str::to_owned),
                error: error.map(str::to_owned),
                description: None,
            };
        let meta = "https://a.example/.well-known/oauth-protected-resource";
        for (header, found) in [
            ("Bearer".to_owned(), expected(None, None, None)),
            ("Basic realm=\"x\"".to_owned(), expected(None, None, None)),
            (format!("Bearer resource_metadata=\"{meta}\""), expected(Some(meta), None, None)),
            (format!("bearer resource_metadata={meta}"), expected(Some(meta), None, None)),
            (
                format!(
                    "Basic realm=\"a, b\", Bearer realm=\"x\",scope=\"a b\" , resource_metadata = \"{meta}\""
                ),
                expected(Some(meta), Some("a b"), None),
            ),
            (
                format!(
                    "Bearer error=\"insufficient_scope\", scope=\"a\", resource_metadata=\"{meta}\", Basic scope=\"no\""
                ),
                expected(Some(meta), Some("a"), Some("insufficient_scope")),
            ),
            (
                "Bearer error=\"in\\\"v\", scope=\"open".to_owned(),
                expected(None, Some("open"), Some("in\"v")),
            ),
            ("Bearer =, ==, é=ü, scope=\"\"".to_owned(), expected(None, None, None)),
        ] {
            let mut challenge = Challenge::default();
            challenge.read(&header);
            assert_eq!(challenge, found, "{header}");
        }
    }
}
