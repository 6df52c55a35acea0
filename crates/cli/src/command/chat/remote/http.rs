//! Requests to the server of a chat.

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use url::{Host, Url};
use weftwork::Config;
use weftwork::egress::{EgressConfig, GuardedClient, classify, is_loopback};
use weftwork::types::port::{Egress, EgressRequest, EgressResponse, Method, Redirects};
use weftwork_cli_base::CliError;

/// Maximum size of an answer that is not a stream, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of a refusal that is read, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a message of the server that is shown, in characters.
const DETAIL_CHARS_MAX: usize = 500;

/// A server, with the token for it.
pub(super) struct Server {
    client: GuardedClient,
    url: Url,
    /// Normalised address without a slash at its end.
    address: String,
    token: Option<String>,
}

impl Server {
    /// Creates a client for the host of the URL, which the operator has named. A host on this
    /// machine, in a private network or on the allow list is reached without the proxy.
    pub(super) fn new(url: &str, config: &Config) -> Result<Self, CliError> {
        let bad = |reason: &str| CliError::BadInput {
            reason: format!("--url: {reason}; expected an address such as http://127.0.0.1:8123"),
        };
        let url = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(&format!("the scheme is `{}`", url.scheme())));
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("the address has a user name, a query or a fragment"));
        }
        let Some((host, port)) = url.host_str().zip(url.port_or_known_default()) else {
            return Err(bad("the address has no host"));
        };
        // The client uses the proxy only for hosts that are not on its allow list. Without a proxy,
        // the name of the host may resolve to a private address.
        let mut allow = config.allow.clone();
        if config.proxy.is_none() || is_near(&url) {
            allow.push(format!("{host}:{port}").parse().map_err(weftwork::Error::from)?);
        }
        let egress = EgressConfig { allow, proxy: config.proxy.clone(), ..EgressConfig::default() };
        let client = GuardedClient::new(egress).map_err(weftwork::Error::from)?;
        let address = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client, url, address, token: None })
    }

    /// Adds the token that requests have.
    pub(super) fn with_token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// Returns the normalised address, without a slash at its end.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of a path, whose segments are encoded.
    pub(super) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Returns `true` if a token is sent over the network without encryption.
    pub(super) fn exposes_token(&self) -> bool {
        self.token.is_some() && self.url.scheme() == "http" && !is_loopback(&self.url)
    }

    /// Requests a stream, and returns the answer of a request that was accepted.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
    ) -> Result<EgressResponse, CliError> {
        self.send_request(method, url, body, None).await
    }

    /// Sends a request, and returns the JSON of the answer.
    pub(super) async fn json(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let mut response = self.send_request(method, url, body, Some(BODY_BYTES_MAX)).await?;
        let mut body = Vec::new();
        while let Some(piece) = response.body.next().await {
            body.extend_from_slice(&piece?);
        }
        serde_json::from_slice(&body).map_err(|error| CliError::BadAnswerOfServer {
            reason: format!("{} is not JSON: {error}", url.path()),
        })
    }

    async fn send_request(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
        body_max: Option<u64>,
    ) -> Result<EgressResponse, CliError> {
        let mut request = EgressRequest::new(method, url.as_str());
        request.body_max = body_max;
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
        let body: Value =
            serde_json::from_slice(&read_beginning(response).await).unwrap_or_default();
        let detail = body["detail"].as_str().unwrap_or("without a reason");
        let detail = weftwork_cli_base::terminal::shorten(detail, DETAIL_CHARS_MAX);
        Err(CliError::Refused { url: self.address.clone(), status, detail })
    }
}

/// Returns `true` if the host of a URL is this machine or an address of a private network.
fn is_near(url: &Url) -> bool {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        _ => None,
    };
    is_loopback(url) || address.is_some_and(|address| classify(address).can_be_allowed())
}

/// Reads the beginning of a refusal. The rest and an error while reading do not matter.
async fn read_beginning(mut response: EgressResponse) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < REFUSAL_BYTES_MAX
        && let Some(Ok(piece)) = response.body.next().await
    {
        body.extend_from_slice(&piece);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::{Server, is_near};
    use url::Url;
    use weftwork::Config;

    fn server(url: &str) -> Server {
        Server::new(url, &Config::in_memory()).expect("an address").with_token(Some("t".to_owned()))
    }

    #[test]
    fn a_token_is_exposed_by_clear_text_to_other_machines() {
        for (url, exposed) in [
            ("http://127.0.0.1:1", false),
            ("http://localhost", false),
            ("http://[::1]:80/base", false),
            ("https://agents.example", false),
            ("http://agents.example", true),
            ("http://localhost.evil.com", true),
            ("http://127.evil.com", true),
            ("HTTP://192.168.0.1", true),
        ] {
            assert_eq!(server(url).exposes_token(), exposed, "{url}");
        }
    }

    #[test]
    fn addresses_are_normalised_and_segments_of_paths_are_encoded() {
        let server = server("HTTP://Agents.Example:80/base/");
        assert_eq!(server.address(), "http://agents.example/base");
        let url = server.at(&["chat", "a/../b?c", "t"]);
        assert_eq!(url.as_str(), "http://agents.example/base/chat/a%2F..%2Fb%3Fc/t");
        let plain = self::server("http://a");
        assert_eq!(plain.address(), "http://a");
        assert_eq!(plain.at(&["threads", "search"]).as_str(), "http://a/threads/search");
    }

    #[test]
    fn only_near_hosts_are_reached_without_the_proxy() {
        for (url, near) in [
            ("http://localhost", true),
            ("http://10.1.2.3", true),
            ("http://[fd00::1]", true),
            ("http://8.8.8.8", false),
            ("http://agents.example", false),
        ] {
            assert_eq!(is_near(&Url::parse(url).expect("a URL")), near, "{url}");
        }
    }
}
