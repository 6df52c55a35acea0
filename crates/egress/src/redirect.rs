//! Redirects.

use crate::allow::AllowedHost;
use crate::target::{Target, bad_url};
use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};
use weftwork_types::port::{EgressError, Method};

/// Maximum number of redirects of a request.
const REDIRECTS_MAX: u32 = 5;

/// Headers that are sent on to another host. All others are dropped, because any of them may be a
/// secret (`authorization`, `x-api-key`, `cookie`).
const HARMLESS: [&str; 5] = ["accept", "accept-language", "content-type", "range", "user-agent"];

/// A request, as modified by its redirects.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) target: Target,
    pub(crate) method: Method,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    followed: u32,
}

impl Hop {
    pub(crate) fn first(
        target: Target,
        method: Method,
        headers: Vec<(String, String)>,
        body: Bytes,
    ) -> Self {
        Self { target, method, headers, body, followed: 0 }
    }

    /// Returns the next request if the response is a redirect.
    pub(crate) fn next(
        self,
        response: &Response,
        allow: &[AllowedHost],
    ) -> Result<Step, EgressError> {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|_| is_redirect(status)) else {
            return Ok(Step::Arrived);
        };
        let url = self.target.url.join(location);
        let url = url.map_err(|_| bad_url(location, "the target of a redirect is not a URL"))?;
        if self.followed == REDIRECTS_MAX {
            return Err(bad_url(url.as_str(), "it is the sixth redirect in a row"));
        }
        if self.target.url.scheme() == "https" && url.scheme() == "http" {
            return Err(bad_url(url.as_str(), "a redirect leads from https to http"));
        }
        let target = Target::check(url, allow)?;
        let mut headers = self.headers;
        if !self.target.same_origin(&target) {
            headers.retain(|(name, _)| HARMLESS.iter().any(|ok| name.eq_ignore_ascii_case(ok)));
        }
        let mut method = self.method;
        let mut body = self.body;
        if becomes_get(status, method) {
            method = Method::Get;
            body = Bytes::new();
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        Ok(Step::Again(Self { target, method, headers, body, followed: self.followed + 1 }))
    }
}

/// The next action after a response.
#[derive(Debug)]
pub(crate) enum Step {
    /// The response is final.
    Arrived,
    /// Another request is required.
    Again(Hop),
}

/// Returns `true` if the redirected request is a `GET` without body. As in browsers and permitted by
/// RFC 9110, 301 and 302 replace `POST` only, 303 every method but `HEAD`, and 307 and 308 none.
fn becomes_get(status: StatusCode, method: Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => method != Method::Head,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::Post,
        _ => false,
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
