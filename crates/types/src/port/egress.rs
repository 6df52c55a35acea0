use crate::{BoxFuture, BoxStream, ErrorCode};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The only way to send HTTP requests out of the process.
///
/// An implementation refuses private, loopback, link-local and metadata addresses unless the
/// configuration allows them, whatever name they were resolved from. It applies the same check to
/// every redirect.
pub trait Egress: Send + Sync + std::fmt::Debug {
    /// Sends a request and waits for the head of the response. The body is a stream.
    ///
    /// # Cancel safety
    /// Dropping the future or the body closes the connection. The server may still have processed
    /// the request.
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>>;
}

/// Checks of URLs before requests are sent to them, for URLs that clients register.
pub trait CheckUrl: Egress {
    /// Checks a URL without a resolution of its name.
    ///
    /// # Errors
    /// [`EgressError::BadUrl`] and [`EgressError::Refused`], as [`Egress::send`].
    fn check_url(&self, url: &str) -> Result<(), EgressError>;
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

/// The treatment of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// At most five redirects are followed. Each is checked like a first request.
    #[default]
    Follow,
    /// A redirect is the response.
    Return,
}

/// An outgoing request.
#[derive(Clone)]
pub struct EgressRequest {
    /// The method.
    pub method: Method,
    /// Absolute URL, `http` or `https`.
    pub url: String,
    /// Headers, in order. Values may be secret and are never printed.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// Maximum wait for the head of the response.
    pub head_timeout: Duration,
    /// Maximum wait between two chunks of the body.
    pub idle_timeout: Duration,
    /// Maximum length of the response's body in bytes; `None` for streams without an end, whose
    /// reader limits them itself.
    pub body_max: Option<u64>,
    /// The treatment of redirects.
    pub redirects: Redirects,
}

impl EgressRequest {
    /// Creates a request without headers or body, with timeouts of 30 seconds, that follows
    /// redirects and accepts bodies of any length.
    #[must_use]
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
            body_max: None,
            redirects: Redirects::Follow,
        }
    }
}

impl std::fmt::Debug for EgressRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The head of a response and its body.
pub struct EgressResponse {
    /// The status code.
    pub status: u16,
    /// Headers with lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body, in chunks.
    pub body: BoxStream<'static, Result<Bytes, EgressError>>,
}

impl EgressResponse {
    /// Returns the first header with the given lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

impl std::fmt::Debug for EgressResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// An error of a request: it was not sent, or its response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The host resolved to an address that is not allowed.
    #[error(
        "address {address} of `{host}`{} is {class} and not allowed; allow the host in the configuration (`egress.allow`) if you trust it",
        redirecting(redirect.as_deref())
    )]
    Refused {
        /// Host name in the URL.
        host: String,
        /// Address that the host resolved to.
        address: String,
        /// Class of the address, such as `loopback`.
        class: &'static str,
        /// The redirect that led to the host.
        redirect: Option<Box<Redirected>>,
    },
    /// The URL is not supported.
    #[error("url `{url}` cannot be used: {reason}")]
    BadUrl {
        /// The URL, without user name, password or query.
        url: String,
        /// Reason.
        reason: &'static str,
    },
    /// The connection could not be established.
    #[error("cannot connect to `{host}`: {reason}")]
    Connect {
        /// The host.
        host: String,
        /// Error of the operating system.
        reason: String,
    },
    /// A time limit was reached.
    #[error("`{host}` did not {what} within {after_ms} ms")]
    Timeout {
        /// The host.
        host: String,
        /// Expected action of the host: `answer` or `send more`.
        what: &'static str,
        /// Time waited, in milliseconds.
        after_ms: u64,
    },
    /// The connection broke before the response was complete.
    #[error("the connection to `{host}` broke: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The body of the response exceeded the limit of the request.
    #[error("the response of `{host}` is longer than {limit} bytes")]
    TooLong {
        /// The host.
        host: String,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// An answer that sent a request to another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirected {
    /// Host that answered.
    pub host: String,
    /// Status of the answer.
    pub status: u16,
}

fn redirecting(redirect: Option<&Redirected>) -> String {
    redirect.map_or_else(String::new, |Redirected { host, status }| {
        format!(", to which `{host}` redirects with status {status},")
    })
}

impl EgressError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Refused { .. } => "W0801",
            Self::BadUrl { .. } => "W0802",
            Self::Connect { .. } => "W0803",
            Self::Timeout { .. } => "W0804",
            Self::Broken { .. } => "W0805",
            Self::TooLong { .. } => "W0809",
        })
    }

    /// Returns `true` if the same request may succeed later.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. })
    }
}
