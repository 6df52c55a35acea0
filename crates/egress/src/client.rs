//! The guarded client.

use crate::allow::AllowedHost;
use crate::redirect::{Hop, Step};
use crate::resolver::{GuardedResolver, Lookup, SystemLookup};
use crate::target::{Target, Trust};
use crate::{ConfigError, failure, tls};
use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Proxy, Response, redirect};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use weftwork_types::port::{
    CheckUrl, Egress, EgressError, EgressRequest, EgressResponse, Method, Redirected, Redirects,
};
use weftwork_types::{BoxFuture, BoxStream};

/// Configuration of the client.
#[derive(Debug, Clone)]
pub struct EgressConfig {
    /// Hosts that may resolve to loopback and private addresses.
    pub allow: Vec<AllowedHost>,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// An HTTP proxy, `http://host:port`. Proxy variables of the environment are ignored. The proxy
    /// resolves names itself, so behind a proxy only hosts written as addresses are checked here.
    /// Hosts on the allow list are reached without the proxy.
    pub proxy: Option<String>,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self { allow: Vec::new(), connect_timeout: Duration::from_secs(10), proxy: None }
    }
}

/// An HTTP client that refuses hosts and addresses that are not permitted.
///
/// Each request and each of its redirects is sent at most once: there are no retries below this
/// client.
pub struct GuardedClient {
    allow: Vec<AllowedHost>,
    /// For hosts that are not on the allow list. It has its own connection pool, so that a
    /// connection made for an allowed host is never reused for another host.
    public: Client,
    /// For hosts on the allow list.
    allowed: Client,
}

impl fmt::Debug for GuardedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedClient").field("allow", &self.allow).finish_non_exhaustive()
    }
}

impl GuardedClient {
    /// Creates a client that uses the system's resolver.
    ///
    /// # Errors
    /// [`ConfigError`] if the proxy or the trusted certificates cannot be used.
    pub fn new(config: EgressConfig) -> Result<Self, ConfigError> {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    /// Creates a client with another resolver.
    ///
    /// # Errors
    /// [`ConfigError`] if the proxy or the trusted certificates cannot be used.
    pub fn with_lookup(config: EgressConfig, lookup: Arc<dyn Lookup>) -> Result<Self, ConfigError> {
        let tls = tls::config()?;
        let build = |trust, proxy: Option<Proxy>| {
            // The operator configured the proxy, so its address needs no check.
            let trust = if proxy.is_some() { Trust::Allowed } else { trust };
            let builder = Client::builder()
                .no_proxy()
                .tls_backend_preconfigured(tls.clone())
                .dns_resolver(GuardedResolver::new(Arc::clone(&lookup), trust))
                .redirect(redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(config.connect_timeout)
                .user_agent(concat!("weftwork/", env!("CARGO_PKG_VERSION")));
            let builder = proxy.into_iter().fold(builder, reqwest::ClientBuilder::proxy);
            builder.build().map_err(|error| ConfigError::Tls { reason: error.to_string() })
        };
        let proxy = config.proxy.as_deref().map(read_proxy).transpose()?;
        let public = build(Trust::Public, proxy)?;
        let allowed = build(Trust::Allowed, None)?;
        Ok(Self { allow: config.allow, public, allowed })
    }

    async fn fetch(&self, request: EgressRequest) -> Result<EgressResponse, EgressError> {
        let target = Target::parse(&request.url, &self.allow)?;
        let wait = request.head_timeout;
        let mut asked = target.name.clone();
        let hop = Hop::first(target, request.method, request.headers, request.body);
        let arrived = timeout(wait, self.follow(hop, request.redirects, &mut asked)).await;
        let (response, host) = arrived.unwrap_or_else(|_| {
            Err(EgressError::Timeout { host: asked, what: "answer", after_ms: millis(wait) })
        })?;
        Ok(EgressResponse {
            status: response.status().as_u16(),
            headers: shown_headers(&response),
            body: body(response, host, request.idle_timeout, request.body_max),
        })
    }

    /// Sends a request and follows its redirects.
    async fn follow(
        &self,
        mut hop: Hop,
        redirects: Redirects,
        asked: &mut String,
    ) -> Result<(Response, String), EgressError> {
        let mut redirect = None;
        loop {
            asked.clone_from(&hop.target.name);
            let response = self.send_once(&hop).await;
            let response = response.map_err(|error| name_redirect(error, redirect.take()))?;
            let host = hop.target.name.clone();
            if redirects == Redirects::Return {
                return Ok((response, host));
            }
            redirect = Some(Redirected { host: host.clone(), status: response.status().as_u16() });
            let next = hop.next(&response, &self.allow);
            match next.map_err(|error| name_redirect(error, redirect.take()))? {
                Step::Arrived => return Ok((response, host)),
                Step::Again(next) => hop = next,
            }
        }
    }

    async fn send_once(&self, hop: &Hop) -> Result<Response, EgressError> {
        let host = &hop.target.name;
        let client = match hop.target.trust {
            Trust::Public => &self.public,
            Trust::Allowed => &self.allowed,
        };
        let url = hop.target.url.clone();
        let mut request = match hop.method {
            Method::Get => client.get(url),
            Method::Head => client.head(url),
            Method::Post => client.post(url),
            Method::Put => client.put(url),
            Method::Patch => client.patch(url),
            Method::Delete => client.delete(url),
        };
        // A POST without content still states its length; a GET has no content at all.
        if hop.method == Method::Post || !hop.body.is_empty() {
            request = request.body(hop.body.clone());
        }
        for (name, value) in &hop.headers {
            let (name, value) = read_header(host, name, value)?;
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| failure::sending(host, &error))
    }
}

impl Egress for GuardedClient {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        Box::pin(self.fetch(request))
    }
}

impl CheckUrl for GuardedClient {
    fn check_url(&self, url: &str) -> Result<(), EgressError> {
        Target::parse(url, &self.allow).map(drop)
    }
}

/// Names the redirect that led to a refused address.
fn name_redirect(mut error: EgressError, led: Option<Redirected>) -> EgressError {
    if let EgressError::Refused { redirect, .. } = &mut error {
        *redirect = led.map(Box::new);
    }
    error
}

/// Returns the body, which is read on demand and ends with an error at the limit.
fn body(
    response: Response,
    host: String,
    idle: Duration,
    limit: Option<u64>,
) -> BoxStream<'static, Result<Bytes, EgressError>> {
    Box::pin(stream::unfold(Some((response, host, 0)), move |state| async move {
        let (mut response, host, before): (_, _, u64) = state?;
        let failed = match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(piece))) => {
                let length = before.saturating_add(piece.len() as u64);
                match limit {
                    Some(limit) if length > limit => EgressError::TooLong { host, limit },
                    _ => return Some((Ok(piece), Some((response, host, length)))),
                }
            }
            Ok(Ok(None)) => return None,
            Ok(Err(error)) => failure::reading(&host, &error),
            Err(_) => EgressError::Timeout { host, what: "send more", after_ms: millis(idle) },
        };
        Some((Err(failed), None))
    }))
}

fn shown_headers(response: &Response) -> Vec<(String, String)> {
    let headers = response.headers().iter();
    headers
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

fn read_header(
    host: &str,
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), EgressError> {
    // The value is not shown: it may be a key with a pasted line break.
    let bad = || EgressError::BadUrl {
        url: host.to_owned(),
        reason: "a header for it contains invalid characters",
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn read_proxy(text: &str) -> Result<Proxy, ConfigError> {
    let shown = || text.rsplit('@').next().unwrap_or_default().to_owned();
    let bad = |reason: &str| ConfigError::Proxy { found: shown(), reason: reason.to_owned() };
    let url = url::Url::parse(text).map_err(|_| bad("it is not an absolute URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(bad("only http and https proxies are supported"));
    }
    Proxy::all(url).map_err(|_| bad("the HTTP library does not accept it"))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
