//! Requests to authorization servers.

use super::error::{OauthError, to_words};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Map, Value};
use std::sync::Arc;
use url::{Host, Url};
use weftwork_types::port::{Egress, EgressRequest, Method, Redirects};

/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 10;
const FORM: &str = "application/x-www-form-urlencoded";
/// Minimum length of a value that is hidden in the words of a server, in bytes.
const HIDDEN_BYTES_MIN: usize = 6;
/// Members of forms that are not secret.
const PUBLIC: [&str; 7] = [
    "grant_type",
    "client_id",
    "redirect_uri",
    "resource",
    "scope",
    "token_type_hint",
    "response_type",
];

/// An answer: its status and its JSON object, which is empty if it has none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) members: Map<String, Value>,
}

impl Answer {
    /// Returns a member that is a text, not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns a number of seconds, which some servers send as a text.
    pub(crate) fn seconds(&self, name: &str) -> Option<u64> {
        match self.members.get(name)? {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_u64().or_else(|| number.as_f64().map(|seconds| seconds as u64)),
        }
    }

    /// Returns `true` if the request succeeded. Some servers put an error into a success.
    pub(crate) fn is_success(&self) -> bool {
        (200..=299).contains(&self.status) && self.error().is_none()
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.text("error")
    }

    /// Describes a refusal in the words of the server.
    pub(crate) fn problem(&self) -> String {
        let said = [self.error(), self.text("error_description")];
        let said: Vec<String> = said.into_iter().flatten().map(to_words).collect();
        match said.is_empty() {
            true => format!("HTTP status {}", self.status),
            false => format!("HTTP status {}: {}", self.status, said.join(": ")),
        }
    }
}

/// The client of authorization servers: the egress port, with limits.
#[derive(Debug, Clone)]
pub(crate) struct Requests(Arc<dyn Egress>);

impl Requests {
    pub(crate) fn new(egress: Arc<dyn Egress>) -> Self {
        Self(egress)
    }

    /// Reads a document. Carries no credentials, so that redirects are followed.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, OauthError> {
        let request = EgressRequest {
            headers: vec![new_header("accept", "application/json")],
            body_max: Some(ANSWER_BYTES_MAX),
            ..EgressRequest::new(Method::Get, url.as_str())
        };
        self.send(request, &[]).await
    }

    /// Sends JSON without credentials.
    pub(crate) async fn post_json(&self, url: &Url, body: &Value) -> Result<Answer, OauthError> {
        self.post_body(url, Vec::new(), "application/json", body.to_string(), &[]).await
    }

    /// Sends a form with credentials. Its secret members are hidden in the answer's words.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        headers: Vec<(String, String)>,
        form: &[(&str, String)],
    ) -> Result<Answer, OauthError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let secret = form.iter().filter(|(name, _)| !PUBLIC.contains(name));
        let mut hidden: Vec<&str> = secret.map(|(_, value)| value.as_str()).collect();
        hidden.extend(headers.iter().map(|(_, value)| value.as_str()));
        self.post_body(url, headers.clone(), FORM, body, &hidden).await
    }

    async fn post_body(
        &self,
        url: &Url,
        mut headers: Vec<(String, String)>,
        kind: &str,
        body: String,
        hidden: &[&str],
    ) -> Result<Answer, OauthError> {
        check_transport(url)?;
        headers.push(new_header("accept", "application/json"));
        headers.push(new_header("content-type", kind));
        let request = EgressRequest {
            headers,
            body: Bytes::from(body),
            body_max: Some(ANSWER_BYTES_MAX),
            // What a redirect names is not the server that the credentials are for.
            redirects: Redirects::Return,
            ..EgressRequest::new(Method::Post, url.as_str())
        };
        self.send(request, hidden).await
    }

    async fn send(&self, request: EgressRequest, hidden: &[&str]) -> Result<Answer, OauthError> {
        let mut response = self.0.send(request).await?;
        let mut text = Vec::new();
        while let Some(piece) = response.body.next().await {
            text.extend_from_slice(&piece?);
        }
        let mut members: Map<String, Value> = serde_json::from_slice(&text).unwrap_or_default();
        for name in ["error", "error_description"] {
            if let Some(Value::String(said)) = members.get_mut(name) {
                for secret in hidden.iter().filter(|secret| secret.len() >= HIDDEN_BYTES_MIN) {
                    *said = said.replace(secret, "***");
                }
            }
        }
        Ok(Answer { status: response.status, members })
    }
}

fn new_header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Refuses an address that credentials must not be sent to, or a browser must not open: all but
/// `https`, and `http` on this machine.
pub(crate) fn check_transport(url: &Url) -> Result<(), OauthError> {
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(url),
        _ => false,
    };
    match is_safe && url.username().is_empty() && url.password().is_none() {
        true => Ok(()),
        false => Err(OauthError::failed(format!(
            "the address `{}` of its authorization server is refused; expected `https` (`http` only on this machine), without a user name",
            to_words(&show_url(url))
        ))),
    }
}

/// An address for messages: without user name and query.
pub(crate) fn show_url(url: &Url) -> String {
    format!(
        "{}://{}{}",
        url.scheme(),
        url.authority().rsplit('@').next().unwrap_or_default(),
        url.path()
    )
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
