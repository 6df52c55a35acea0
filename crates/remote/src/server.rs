//! The client of an Agent Server: its address, its key, and requests.

use crate::error::RemoteError;
use crate::limits::{
    ATTEMPTS_MAX, BODY_BYTES_MAX, DETAIL_CHARS_MAX, HEAD_TIMEOUT, IDLE_TIMEOUT, delay,
};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use url::Url;
use weftwork_types::BoxFuture;
use weftwork_types::code::Fault;
use weftwork_types::port::{
    Clock, Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects, RemoteAddress,
    RemoteThreads,
};
use weftwork_types::secret::SECRET;

/// Minimum length of a key that is removed from texts of the server, in bytes.
const KEY_BYTES_MIN: usize = 4;

/// An Agent Server, with the HTTP client and the key for it. Clones share the client.
#[derive(Clone)]
pub struct RemoteServer {
    name: Arc<str>,
    url: Url,
    key: Option<Arc<str>>,
    /// Environment variable that should have the key and is not set.
    missing: Option<Arc<str>>,
    egress: Arc<dyn Egress>,
}

impl std::fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        let url = self.url.as_str();
        f.debug_struct("RemoteServer")
            .field("name", name)
            .field("url", &url)
            .finish_non_exhaustive()
    }
}

/// A request: what it is for errors, its method, its URL and its JSON body.
pub(crate) struct Request<'a> {
    pub(crate) what: &'static str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<&'a Value>,
}

impl RemoteServer {
    /// Creates the client of a server. `name` is its name in errors, `url` its address, with the
    /// path below which its routes are.
    ///
    /// # Errors
    /// [`RemoteError::BadAddress`] if the address is not a plain `http` or `https` URL.
    pub fn new(name: &str, url: &str, egress: Arc<dyn Egress>) -> Result<Self, RemoteError> {
        let bad = |found: &str, reason| RemoteError::BadAddress {
            remote: name.to_owned(),
            found: found.to_owned(),
            reason,
        };
        let Ok(mut parsed) = Url::parse(url.trim()) else {
            // It may contain a password that could not be found.
            let shown = url.rsplit('@').next().unwrap_or_default();
            return Err(bad(shown, "it is no URL"));
        };
        // They may contain a key, and are not shown.
        let has_more = parsed.query().is_some() || parsed.fragment().is_some();
        parsed.set_query(None);
        parsed.set_fragment(None);
        let has_user = !parsed.username().is_empty() || parsed.password().is_some();
        if has_user {
            // Fails for URLs without a host only, which have no user name.
            let cleared = parsed.set_username("").and_then(|()| parsed.set_password(None));
            let shown = cleared.map_or("", |()| parsed.as_str());
            return Err(bad(shown, "it has a user name or a password; give the key by itself"));
        }
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad(parsed.as_str(), "its scheme is neither http nor https"));
        }
        if has_more {
            return Err(bad(parsed.as_str(), "it has a query or a fragment"));
        }
        Ok(Self { name: name.into(), url: parsed, key: None, missing: None, egress })
    }

    /// Sets the key, which requests to this server have in the headers `x-api-key` and
    /// `authorization`. It is removed from everything that the server sends.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.key = Some(key.as_ref().into());
        self
    }

    /// Sets the environment variable that should have the key and is not set. The error of a request
    /// that the server refuses for lack of a key names it.
    #[must_use]
    pub fn missing_key(mut self, variable: &str) -> Self {
        self.missing = Some(variable.into());
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Returns name and address, for records.
    pub(crate) fn remote_address(&self) -> RemoteAddress {
        RemoteAddress { name: self.name.to_string(), url: self.address().to_owned() }
    }

    /// Returns the URL of a path, whose segments are encoded.
    pub(crate) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Removes the key from a text of the server.
    pub(crate) fn scrub(&self, text: &mut String) {
        if let Some(key) = self.key.as_deref().filter(|key| key.len() >= KEY_BYTES_MIN)
            && text.contains(key)
        {
            *text = text.replace(key, SECRET);
        }
    }

    /// Returns a text of the server for an error: shortened, and without the key and control
    /// characters.
    pub(crate) fn short(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.scrub(&mut text);
        let shown = text.chars().map(|one| if one.is_control() { ' ' } else { one });
        shown.take(DETAIL_CHARS_MAX).collect()
    }

    /// Returns the error of something that is not of the protocol.
    pub(crate) fn malformed(&self, what: &'static str, reason: impl AsRef<str>) -> RemoteError {
        RemoteError::Malformed {
            remote: self.name.to_string(),
            what,
            reason: self.short(reason.as_ref()),
        }
    }

    /// Returns the error of something that exceeds its limit.
    pub(crate) fn too_large(&self, what: &'static str, max: String) -> RemoteError {
        RemoteError::TooLarge { remote: self.name.to_string(), what, max }
    }

    /// Returns the error of a failure of the HTTP client.
    pub(crate) fn broken(&self, what: &'static str, source: EgressError) -> RemoteError {
        match source {
            EgressError::TooLong { limit, .. } => self.too_large(what, format!("{limit} bytes")),
            source => RemoteError::Unreachable { remote: self.name.to_string(), source },
        }
    }

    /// Sends a request that may be repeated until the server is reached, and returns the JSON of
    /// the answer.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub(crate) async fn repeat(
        &self,
        clock: &dyn Clock,
        request: &Request<'_>,
    ) -> Result<Value, RemoteError> {
        let mut failed = 0;
        loop {
            let error = match self.json(request).await {
                Err(error) if error.is_retriable() => error,
                other => return other,
            };
            failed += 1;
            if failed == ATTEMPTS_MAX {
                return Err(error);
            }
            tracing::debug!(%error, "trying again");
            clock.sleep(delay(failed)).await;
        }
    }

    /// Sends a request, and returns the JSON of the answer.
    pub(crate) async fn json(&self, request: &Request<'_>) -> Result<Value, RemoteError> {
        let mut response = self.open(request, Some(BODY_BYTES_MAX)).await?;
        let mut body = Vec::new();
        while let Some(piece) = response.body.next().await {
            body.extend_from_slice(&piece.map_err(|error| self.broken(request.what, error))?);
        }
        let mut text = String::from_utf8(body)
            .map_err(|error| self.malformed(request.what, error.to_string()))?;
        self.scrub(&mut text);
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| self.malformed(request.what, error.to_string()))
    }

    /// Sends a request, and returns the answer if the server accepted it.
    pub(crate) async fn open(
        &self,
        request: &Request<'_>,
        body_max: Option<u64>,
    ) -> Result<EgressResponse, RemoteError> {
        self.open_after(request, None, body_max).await
    }

    /// The same for a stream that continues after an event.
    pub(crate) async fn open_after(
        &self,
        request: &Request<'_>,
        last_event: Option<&str>,
        body_max: Option<u64>,
    ) -> Result<EgressResponse, RemoteError> {
        let Request { what, method, url, body } = request;
        let mut sent = EgressRequest::new(*method, url.as_str());
        sent.redirects = Redirects::Return;
        sent.body_max = body_max;
        sent.head_timeout = HEAD_TIMEOUT;
        sent.idle_timeout = IDLE_TIMEOUT;
        let mut header = |name: &str, value: String| sent.headers.push((name.to_owned(), value));
        if let Some(key) = &self.key {
            header("x-api-key", key.to_string());
            header("authorization", format!("Bearer {key}"));
        }
        if let Some(id) = last_event {
            header("last-event-id", id.to_owned());
        }
        if let Some(body) = body {
            header("content-type", "application/json".to_owned());
            sent.body = Bytes::from(body.to_string());
        }
        let response = self.egress.send(sent).await.map_err(|error| self.broken(what, error))?;
        let remote = self.name.to_string();
        let status = response.status;
        match status {
            200..=299 => Ok(response),
            300..=399 => Err(RemoteError::Redirected { remote, what, status }),
            _ => {
                let mut detail = self.read_detail(response).await;
                if let Some(variable) = &self.missing
                    && matches!(status, 401 | 403)
                {
                    detail.push_str(&format!(
                        "; the environment variable `{variable}` with the key of this remote is not set: set it, and continue the run"
                    ));
                }
                Err(RemoteError::Refused { remote, what, status, detail })
            }
        }
    }

    /// Returns the reason of a refusal. An error while it is read does not matter.
    async fn read_detail(&self, mut response: EgressResponse) -> String {
        let mut body = Vec::new();
        while body.len() < DETAIL_CHARS_MAX * 8
            && let Some(Ok(piece)) = response.body.next().await
        {
            body.extend_from_slice(&piece);
        }
        let text = String::from_utf8_lossy(&body);
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        match json["detail"].as_str().unwrap_or(text.trim()) {
            "" => "without a reason".to_owned(),
            text => self.short(text),
        }
    }
}

impl RemoteThreads for RemoteServer {
    fn server(&self) -> RemoteAddress {
        self.remote_address()
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let what = "the deletion of a thread";
            let url = self.at(&["threads", thread]);
            let request = Request { what, method: Method::Delete, url, body: None };
            match self.open(&request, Some(BODY_BYTES_MAX)).await {
                // It was deleted before, or its run never began.
                Ok(_) | Err(RemoteError::Refused { status: 404 | 410, .. }) => Ok(()),
                Err(error) => Err(error.fault()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RemoteServer;
    use std::sync::Arc;
    use weftwork_types::BoxFuture;
    use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse};

    /// A client that is not used.
    #[derive(Debug)]
    struct Nowhere;

    impl Egress for Nowhere {
        fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
            unreachable!("the tests send nothing")
        }
    }

    fn server(url: &str) -> Result<RemoteServer, String> {
        let made = RemoteServer::new("r", url, Arc::new(Nowhere));
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_checked_and_passwords_are_not_shown() {
        for (url, reason) in [
            ("nonsense", "it is no URL"),
            ("ftp://a", "its scheme"),
            ("http://a?key=secret", "a query"),
            ("http://ada:secret@a/", "a user name"),
            ("http://ada:secret@[bad", "it is no URL"),
        ] {
            let error = server(url).expect_err(url);
            assert!(error.contains(reason) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn segments_are_encoded_below_the_path() {
        let server = server("http://a/base/").expect("valid");
        assert_eq!(server.address(), "http://a/base");
        assert_eq!(server.at(&["runs", "a/../b?c"]).as_str(), "http://a/base/runs/a%2F..%2Fb%3Fc");
    }

    #[test]
    fn the_key_is_in_no_text() {
        let server = server("http://a").expect("valid").key("s3cr3t");
        assert_eq!(server.short("no\nkey s3cr3t here"), "no key [secret] here");
        assert!(!format!("{server:?}").contains("s3cr3t"));
    }
}
