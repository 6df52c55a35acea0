//! Requests to the server of a chat.

use crate::CliError;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use url::Url;
use weftwork::Config;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::types::port::{Egress, EgressRequest, EgressResponse, Method, Redirects};

/// Maximum size of an answer that is not a stream, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a message of the server that is shown, in characters.
const DETAIL_CHARS_MAX: usize = 500;

/// A server, with the token for it.
pub(super) struct Server {
    client: GuardedClient,
    /// Address without a slash at its end.
    url: String,
    token: Option<String>,
}

impl Server {
    /// Creates a client that connects to the host of the URL, which the operator has named, and to
    /// no other.
    pub(super) fn new(url: &str, token: Option<String>, config: &Config) -> Result<Self, CliError> {
        let bad = |reason: &str| CliError::BadInput {
            reason: format!("--url: {reason}; expected an address such as http://127.0.0.1:8123"),
        };
        let parsed = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad(&format!("the scheme is `{}`", parsed.scheme())));
        }
        let has_more = parsed.query().is_some() || parsed.fragment().is_some();
        if has_more || !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(bad("the address has a user name, a query or a fragment"));
        }
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            return Err(bad("the address has no host"));
        };
        let allow = vec![format!("{host}:{port}").parse().map_err(weftwork::Error::from)?];
        let egress = EgressConfig { allow, proxy: config.proxy.clone(), ..EgressConfig::default() };
        let client = GuardedClient::new(egress).map_err(weftwork::Error::from)?;
        let url = parsed.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client, url, token })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns `true` if a token is sent over the network without encryption.
    pub(super) fn exposes_token(&self) -> bool {
        let local = ["http://127.", "http://localhost", "http://[::1]"];
        let is_local = local.iter().any(|start| self.url.starts_with(start));
        self.token.is_some() && self.url.starts_with("http:") && !is_local
    }

    /// Sends a request, and returns the answer of a request that was accepted.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<EgressResponse, CliError> {
        let mut request = EgressRequest::new(method, format!("{}{path}", self.url));
        // The token is for this server, and no redirect may carry it elsewhere.
        request.redirects = Redirects::Return;
        if let Some(token) = &self.token {
            request.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        if let Some(body) = body {
            request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
            request.body = Bytes::from(body.to_string());
        }
        let response = self.client.send(request).await?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let status = response.status;
        let body = whole(response).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = body["detail"].as_str().unwrap_or("without a reason");
        let detail = crate::terminal::short(detail, DETAIL_CHARS_MAX);
        Err(CliError::Refused { url: self.url.clone(), status, detail })
    }

    /// Sends a request, and returns the JSON of the answer.
    pub(super) async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let body = whole(self.send(method, path, body).await?).await?;
        serde_json::from_slice(&body).map_err(|error| CliError::BadAnswerOfServer {
            reason: format!("{path} is not JSON: {error}"),
        })
    }
}

/// Reads a body, which has a limit.
async fn whole(mut response: EgressResponse) -> Result<Vec<u8>, CliError> {
    let mut body = Vec::new();
    while let Some(piece) = response.body.next().await {
        body.extend_from_slice(&piece?);
        if body.len() as u64 > BODY_BYTES_MAX {
            let reason = format!("the body has more than {BODY_BYTES_MAX} bytes");
            return Err(CliError::BadAnswerOfServer { reason });
        }
    }
    Ok(body)
}
