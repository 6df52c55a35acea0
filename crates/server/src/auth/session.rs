//! Sessions of the page: a cookie that scripts cannot read, in place of a token.
//!
//! The value of a cookie is the time of its end, signed with the secret of its token: for a token of the
//! program the token itself, so that the session outlives a restart of the server. A session ends with
//! its token. Cookies are sent by pages of other ports of the host too,
//! so that a request with one must come from the page itself.

use super::keys::TokenHash;
use super::new_token;
use axum::http::header::{COOKIE, HOST, HeaderMap, ORIGIN};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weftwork_types::Timestamp;

/// Beginning of the name of the cookie; see [`cookie_name`].
const NAME: &str = "weft_session";
/// Time for which a session is valid.
const SESSION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Time for which a ticket is valid.
const TICKET: Duration = Duration::from_secs(5 * 60);
/// Maximum number of tickets; the first ones to end give way.
const TICKETS_MAX: usize = 64;

/// The session of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session<'a> {
    /// End, in milliseconds since the Unix epoch.
    end: i64,
    /// Signature in hexadecimal digits.
    signature: &'a str,
}

impl<'a> Session<'a> {
    /// Reads the session of a request.
    pub(crate) fn of(headers: &'a HeaderMap) -> Option<Self> {
        let name = cookie_name(headers);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
        let value = pairs.find_map(|pair| pair.strip_prefix(&*name)?.strip_prefix('='))?;
        let (end, signature) = value.split_once('.')?;
        Some(Self { end: end.parse().ok()?, signature })
    }

    /// Returns `true` if the session was made with a secret and has not ended.
    pub(crate) fn is_of(&self, secret: &[u8], now: Timestamp) -> bool {
        let is_signed = super::equals_in_constant_time(
            sign_end(secret, self.end).as_bytes(),
            self.signature.as_bytes(),
        );
        is_signed && now < Timestamp(self.end)
    }

    /// Returns the header that begins a session, given the headers of the request. The cookie of a page
    /// with HTTPS is sent over HTTPS only.
    pub(crate) fn begin(headers: &HeaderMap, secret: &[u8], now: Timestamp) -> String {
        let end = now.plus(SESSION).0;
        let value = format!("{end}.{}", sign_end(secret, end));
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let secure = if origin.is_some_and(|origin| origin.starts_with("https://")) {
            "; Secure"
        } else {
            ""
        };
        cookie_header(headers, &value, SESSION.as_secs()) + secure
    }

    /// Returns the header that ends the session of a request.
    pub(crate) fn end(headers: &HeaderMap) -> String {
        cookie_header(headers, "", 0)
    }
}

fn cookie_header(headers: &HeaderMap, value: &str, age_s: u64) -> String {
    let name = cookie_name(headers);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}")
}

/// Returns the name of the cookie of the server to which a request goes. The servers of a host share
/// its cookies, so that the name has the port.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')).map(|(_, port)| port);
    match port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(port) => format!("{NAME}_{port}"),
        None => NAME.to_owned(),
    }
}

/// Returns the signature of the end of a session.
fn sign_end(secret: &[u8], end: i64) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
    mac.update(format!("weft session {end}").as_bytes());
    mac.finalize().into_bytes().iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string does not fail.
        write!(digits, "{byte:02x}").unwrap_or_default();
        digits
    })
}

/// Returns `true` for a request of a page of this server. Browsers name the relation of origins in
/// each request to this machine or over HTTPS, and the origin in each request that is not a read;
/// scripts cannot set either.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, authority)| text(HOST) == Some(authority))
}

/// Tickets that are exchanged for a session once, with the hash of the token and the end of each.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<BTreeMap<String, (TokenHash, Timestamp)>>);

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl Tickets {
    /// Makes a ticket for a token.
    pub(crate) fn add(&self, token: TokenHash, now: Timestamp) -> String {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() >= TICKETS_MAX {
            let first = tickets.iter().min_by_key(|(_, (_, end))| *end);
            if let Some(ticket) = first.map(|(ticket, _)| ticket.clone()) {
                tickets.remove(&ticket);
            }
        }
        let ticket = new_token();
        tickets.insert(ticket.clone(), (token, now.plus(TICKET)));
        ticket
    }

    /// Takes a ticket, and returns the hash of its token unless the ticket has ended.
    pub(crate) fn take(&self, ticket: &str, now: Timestamp) -> Option<TokenHash> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (token, end) = tickets.remove(ticket)?;
        (now < end).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    const TOKEN: &str = "0123456789abcdef";
    const SECRET: &[u8] = TOKEN.as_bytes();

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        });
        pairs.collect()
    }

    #[test]
    fn a_session_is_of_its_token_until_its_end() {
        let page = headers(&[("origin", "https://agents.example")]);
        let begun = Session::begin(&page, SECRET, Timestamp(1_000));
        assert!(begun.contains("; HttpOnly; SameSite=Strict; ") && begun.ends_with("; Secure"));
        assert!(!begun.contains(TOKEN));
        let pair = begun.split(';').next().expect("a pair");
        let sent = headers(&[("cookie", &format!("theme=dark; {pair}"))]);
        let session = Session::of(&sent).expect("a session");
        let end = Timestamp(1_000).plus(SESSION);
        assert!(session.is_of(SECRET, Timestamp(end.0 - 1)));
        assert!(!session.is_of(SECRET, end));
        assert!(!session.is_of(b"fedcba9876543210", Timestamp(1_000)));
        // A later end needs another signature.
        let later = Session { end: session.end + 1, ..session };
        assert!(!later.is_of(SECRET, Timestamp(1_000)));
        for value in ["", "x", "1", "x.00", ".", "99999999999999999999.00"] {
            assert_eq!(Session::of(&headers(&[("cookie", &format!("{NAME}={value}"))])), None);
        }
    }

    #[test]
    fn servers_of_one_host_have_cookies_of_their_own() {
        let hosts =
            ["127.0.0.1:8123", "127.0.0.1:8124", "localhost:80", "[::1]:8123", "example.org"];
        let names = ["weft_session_8123", "weft_session_8124", "weft_session_80"];
        let names = names.into_iter().chain(["weft_session_8123", NAME]);
        let mut jar = String::new();
        for (host, name) in hosts.into_iter().zip(names) {
            let begun = Session::begin(&headers(&[("host", host)]), SECRET, Timestamp(0));
            let pair = begun.split(';').next().expect("a pair");
            assert!(pair.starts_with(&format!("{name}=")), "{host}: {pair}");
            jar = format!("{pair}; {jar}");
        }
        for host in hosts {
            let sent = headers(&[("host", host), ("cookie", &jar)]);
            let session = Session::of(&sent).expect("a session");
            assert!(session.is_of(SECRET, Timestamp(0)), "{host}");
        }
        assert_eq!(Session::of(&headers(&[("host", "localhost:9"), ("cookie", &jar)])), None);
    }

    #[test]
    fn requests_with_a_session_come_from_the_page() {
        let host = ("host", "127.0.0.1:8123");
        for (name, value, is_same) in [
            ("origin", "http://127.0.0.1:8123", true),
            ("origin", "http://127.0.0.1:3000", false),
            ("origin", "http://localhost:8123", false),
            ("origin", "null", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "cross-site", false),
            ("sec-fetch-site", "none", false),
            ("accept", "*/*", false),
        ] {
            assert_eq!(
                is_same_origin(&headers(&[host, (name, value)])),
                is_same,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_ticket_is_taken_once_and_in_time() {
        let tickets = Tickets::default();
        let hash = TokenHash::of(TOKEN);
        let ticket = tickets.add(hash, Timestamp(0));
        assert_eq!(tickets.take("another", Timestamp(0)), None);
        assert_eq!(tickets.take(&ticket, Timestamp(1)), Some(hash));
        assert_eq!(tickets.take(&ticket, Timestamp(1)), None);
        let late = tickets.add(hash, Timestamp(0));
        assert_eq!(tickets.take(&late, Timestamp(0).plus(TICKET)), None);
        let first = tickets.add(hash, Timestamp(0));
        let more: Vec<_> = (1..=64).map(|at| tickets.add(hash, Timestamp(at))).collect();
        assert_eq!(tickets.take(&first, Timestamp(1)), None);
        assert!(tickets.take(&more[63], Timestamp(1)).is_some());
    }
}
