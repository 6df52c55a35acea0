//! Additions of a configuration to the requests of a provider or of a model.

use crate::Secret;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Members of a request's body that the library writes itself, and those that ask for several answers.
const RESERVED: [&str; 15] = [
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "tools",
    "stream",
    "stream_options",
    "store",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "best_of",
    "candidateCount",
];
/// Minimum length in bytes of a value of a header or of the query that is hidden in messages.
const SECRET_BYTES_MIN: usize = 12;
/// Headers of a request that the library writes itself.
const RESERVED_HEADERS: [&str; 6] =
    ["host", "content-length", "content-type", "accept", "transfer-encoding", "connection"];

/// Additions to requests, as a configuration states them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Additions {
    /// Headers. In values, `${NAME}` stands for an environment variable.
    pub headers: BTreeMap<String, String>,
    /// Members of the query of the URL. In values, `${NAME}` stands for an environment variable.
    pub query: BTreeMap<String, String>,
    /// Members of the body. Objects are merged with those of the request.
    pub body: Map<String, Value>,
}

impl Additions {
    /// Reads the values from the environment.
    ///
    /// # Errors
    /// The addition that cannot be used, and why.
    pub(crate) fn resolve(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<RequestExtras, String> {
        let mut extras = RequestExtras { body: self.body.clone(), ..RequestExtras::default() };
        for (name, value) in &self.headers {
            let name = name.to_ascii_lowercase();
            if !is_header_name(&name) {
                return Err(format!("`{name}` in `headers` is no name of a header"));
            }
            if is_reserved_header(&name) {
                return Err(format!("the header `{name}` cannot be set"));
            }
            let what = format!("the header `{name}`");
            let value = extras.expanded(&what, value, env)?;
            if value.chars().any(char::is_control) {
                return Err(format!("the header `{name}` has a control character"));
            }
            extras.headers.extend(Secret::new(&value).map(|value| (name, value)));
        }
        for (name, value) in &self.query {
            let value = extras.expanded(&format!("`{name}` in `query`"), value, env)?;
            extras.query.extend(Secret::new(&value).map(|value| (name.clone(), value)));
        }
        match RESERVED.iter().find(|name| self.body.contains_key(**name)) {
            Some(name) => {
                Err(format!("`{name}` in `body` cannot be set: each request has its own"))
            }
            None => Ok(extras),
        }
    }
}

/// Returns `true` for the name of a header.
pub(crate) fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Returns `true` for the name of a header that the library writes itself.
pub(crate) fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Additions to requests with the values of their variables. Values are not printed: they may be
/// keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestExtras {
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) query: Vec<(String, Secret)>,
    pub(crate) body: Map<String, Value>,
    /// Values of variables, which errors do not show, however short they are.
    pub(crate) variables: Vec<Secret>,
    /// Description of the addition that needs a variable that is not set. It costs the requests that
    /// would have it, not the configuration.
    pub(crate) missing: Option<String>,
}

impl RequestExtras {
    /// Replaces `${NAME}` by the values of environment variables.
    fn expanded(
        &mut self,
        what: &str,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) =
                after.split_once('}').ok_or_else(|| format!("{what} has `${{` without `}}`"))?;
            out.push_str(before);
            match env(name).filter(|value| !value.trim().is_empty()) {
                Some(value) => {
                    self.variables.extend(Secret::new(&value));
                    out.push_str(value.trim());
                }
                None => {
                    let missing = format!("{what} needs the environment variable `{name}`");
                    self.missing.get_or_insert(missing);
                }
            }
            rest = after;
        }
        Ok(out + rest)
    }

    /// Returns these additions with others, which come first.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (known, more) in [(&mut all.headers, &other.headers), (&mut all.query, &other.query)] {
            known.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
            known.extend(more.iter().cloned());
        }
        merge(&mut all.body, &other.body);
        all.variables.extend(other.variables.iter().cloned());
        all.missing = all.missing.or_else(|| other.missing.clone());
        all
    }

    /// Adds the members of the body.
    pub(crate) fn add_to(&self, body: &mut Value) {
        if let Value::Object(members) = body {
            merge(members, &self.body);
        }
    }

    /// Returns a path with the members of the query.
    pub(crate) fn path(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for (name, value) in &self.query {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&encoded(name));
            path.push('=');
            path.push_str(&encoded(value.expose()));
        }
        path
    }

    /// Values that errors must not show: those of variables, and headers and members of the query
    /// that are long enough for a key. Each also as a URL and JSON have it.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let all = self.headers.iter().chain(&self.query).map(|(_, value)| value);
        let long = all.filter(|value| value.expose().len() >= SECRET_BYTES_MIN);
        let values = self.variables.iter().chain(long).map(Secret::expose);
        let forms = values.flat_map(|value| {
            let json = Value::from(value).to_string();
            [value.to_owned(), encoded(value), json.trim_matches('"').to_owned()]
        });
        let forms: BTreeSet<String> = forms.collect();
        forms.iter().filter_map(|form| Secret::new(form)).collect()
    }
}

fn merge(members: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (members.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            _ => {
                members.insert(name.clone(), value.clone());
            }
        }
    }
}

fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |mut out, byte| {
        match is_plain(byte) {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn additions(text: &str) -> Additions {
        toml::from_str(text).expect("additions")
    }

    #[test]
    fn values_of_variables_are_read_and_never_printed() {
        let env = |name: &str| (name == "KEY").then(|| "hunter2-hunter2".to_owned());
        let extras = additions(
            "headers = { X-Api = \"k ${KEY}\" }\nquery = { api-version = \"2024-10-21\", a = \"b c\" }",
        );
        let extras = extras.resolve(&env).expect("extras");
        assert_eq!(extras.headers[0].1.expose(), "k hunter2-hunter2");
        assert!(!format!("{extras:?}").contains("hunter2"));
        assert_eq!(extras.path("/chat"), "/chat?a=b%20c&api-version=2024-10-21");
        assert_eq!(extras.path("/x?alt=sse"), "/x?alt=sse&a=b%20c&api-version=2024-10-21");
    }

    #[test]
    fn secrets_are_known_in_the_forms_of_urls_and_json() {
        let env = |_: &str| Some("a/b \"c".to_owned());
        let extras = additions("query = { key = \"${K}\", region = \"eu\" }").resolve(&env);
        let secrets = extras.expect("extras").secrets();
        let mut secrets: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        secrets.sort_unstable();
        assert_eq!(secrets, ["a%2Fb%20%22c", "a/b \"c", "a/b \\\"c"]);
    }

    #[test]
    fn additions_that_cannot_be_used_are_named() {
        for (text, said) in [
            ("headers = { \"a b\" = \"x\" }", "`a b`"),
            ("headers = { Host = \"x\" }", "`host` cannot be set"),
            ("headers = { a = \"x\\ny\" }", "control character"),
            ("query = { a = \"${NONE\" }", "without `}`"),
            ("body = { stream = false }", "`stream`"),
            ("body = { n = 2 }", "`n`"),
            ("body = { max_tokens = 2 }", "`max_tokens`"),
        ] {
            let error = additions(text).resolve(&|_| None).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_when_it_is_needed() {
        let extras = additions("headers = { a = \"${NONE}\" }").resolve(&|_| None);
        let missing = extras.expect("extras").missing.expect("is missing");
        assert_eq!(missing, "the header `a` needs the environment variable `NONE`");
    }

    #[test]
    fn those_of_a_model_come_before_those_of_its_provider() {
        let of = |text: &str| additions(text).resolve(&|_| None).expect("extras");
        let provider =
            of("headers = { a = \"1\", b = \"1\" }\nbody = { options = { x = 1, y = 1 } }");
        let model = of("headers = { b = \"2\" }\nbody = { options = { y = 2 }, z = true }");
        let both = provider.with(&model);
        let headers: Vec<_> =
            both.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("a", "1"), ("b", "2")]);
        let mut body = json!({"options": {"w": 0}, "model": "m"});
        both.add_to(&mut body);
        let expected = json!({"options": {"w": 0, "x": 1, "y": 2}, "z": true, "model": "m"});
        assert_eq!(body, expected);
    }
}
