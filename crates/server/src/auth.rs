//! Authentication: tokens, and the clients that they stand for.
//!
//! The program adds tokens, and a file of keys has further ones; see [`keys`]. The page has a cookie in
//! place of a token; see [`session`]. A program may authenticate requests itself; see [`external`].

pub(crate) mod external;
pub(crate) mod keys;
#[cfg_attr(not(feature = "ui"), expect(dead_code, reason = "the page begins sessions"))]
mod session;
mod watched;

pub(crate) use session::is_same_origin;
#[cfg(feature = "ui")]
pub(crate) use session::{Session, Tickets};

use self::keys::{KeyFile, KeyFileError, TokenHash};
use self::watched::WatchedKeys;
use crate::error::ApiError;
use crate::origin::RequestOrigin;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::sync::Arc;
use weftwork_types::caller::Caller;
use weftwork_types::telemetry::ParentSpan;
use weftwork_types::{BillingAccountId, Principal, Timestamp, VirtualKeyId};

/// Minimum length of a token in bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// A client: its principal, and the billing identity of the runs that it requests.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) principal: Principal,
    billing_account: BillingAccountId,
    virtual_key: VirtualKeyId,
    /// The key of a file that the client has.
    key: Option<(Arc<WatchedKeys>, TokenHash)>,
    /// The ids of the request.
    origin: RequestOrigin,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates the client of a principal that is not billed.
    pub(crate) fn local(principal: Principal) -> Self {
        #[expect(clippy::expect_used, reason = "the literal is a valid id")]
        let Caller { billing_account, virtual_key, .. } =
            Caller::local("local").expect("`local` is a valid id");
        let origin = RequestOrigin::new();
        Self { principal, billing_account, virtual_key, key: None, origin }
    }

    /// Returns the client of a request.
    pub(crate) fn of_request(self, origin: RequestOrigin) -> Self {
        Self { origin, ..self }
    }

    /// Returns `true` if the key of the client can change or end.
    pub(crate) fn is_of_file(&self) -> bool {
        self.key.is_some()
    }

    /// Returns `false` if the key of the client was revoked or changed.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        let Some((file, hash)) = &self.key else { return true };
        let entries = file.entries(now);
        let entry = entries.iter().find(|entry| entry.hash == *hash);
        entry.is_some_and(|Entry { client, .. }| {
            client.principal == self.principal
                && client.billing_account == self.billing_account
                && client.virtual_key == self.virtual_key
        })
    }

    /// Returns the span in which the client made the request.
    pub(crate) fn parent_span(&self) -> Option<ParentSpan> {
        self.origin.parent.clone()
    }

    /// Returns the caller of what the request asks for.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            billing_account: self.billing_account.clone(),
            virtual_key: self.virtual_key.clone(),
            request: self.origin.request.clone(),
            trace: self.origin.trace.clone(),
        }
    }
}

/// A token by its hash.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) hash: TokenHash,
    /// Key of the signatures of its sessions.
    pub(crate) session_secret: Vec<u8>,
    pub(crate) client: Client,
}

/// The tokens that a server accepts. Without any, each request is of the local principal.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    /// Tokens that the program added.
    own: Vec<Entry>,
    file: Option<Arc<WatchedKeys>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.own.iter().map(|entry| &entry.client.principal)).finish()
    }
}

/// Error of a token that a server cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is short, so that it can be guessed.
    #[error("the token has {found} bytes; expected at least {TOKEN_BYTES_MIN}")]
    Short {
        /// Length in bytes.
        found: usize,
    },
    /// The token cannot be part of a header.
    #[error("the token has a character other than visible ASCII")]
    Character,
    /// The server uses the organisation for its own data.
    #[error("the organisation `{org}` is reserved; choose another")]
    Reserved {
        /// Organisation.
        org: String,
    },
}

/// Returns a token of 244 random bits.
#[must_use]
pub fn new_token() -> String {
    weftwork_types::random_token()
}

impl Tokens {
    pub(crate) fn add(&mut self, token: String, principal: Principal) -> Result<(), TokenError> {
        if token.len() < TOKEN_BYTES_MIN {
            return Err(TokenError::Short { found: token.len() });
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        if keys::is_reserved(&principal.org) {
            return Err(TokenError::Reserved { org: principal.org.to_string() });
        }
        let hash = TokenHash::of(&token);
        let session_secret = token.into_bytes();
        self.own.push(Entry { hash, session_secret, client: Client::local(principal) });
        Ok(())
    }

    /// Accepts the tokens of a file, too.
    pub(crate) fn watch(&mut self, file: KeyFile) -> Result<(), KeyFileError> {
        self.file = Some(Arc::new(WatchedKeys::open(file)?));
        Ok(())
    }

    /// Returns `true` if requests need no token.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.file.is_none()
    }

    /// Returns the client of a request: of its bearer token, its key, or its session.
    pub(crate) fn client(&self, headers: &HeaderMap, now: Timestamp) -> Result<Client, ApiError> {
        if self.is_empty() {
            return Ok(Client::local(Principal::local()));
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let key = headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let found = match (bearer.or(key), session::Session::of(headers)) {
            (None, Some(session)) => self
                .find(now, |entry| session.is_of(&entry.session_secret, now))
                .filter(|_| session::is_same_origin(headers)),
            (given, _) => self.of_token(given.unwrap_or_default(), now),
        };
        found.map(|entry| entry.client).ok_or_else(|| {
            ApiError::unauthorized(
                "expected the token of the server in `authorization: Bearer TOKEN` or `x-api-key`",
            )
        })
    }

    /// Returns the entry of a token that was given, if the server has it.
    pub(crate) fn of_token(&self, given: &str, now: Timestamp) -> Option<Entry> {
        self.of_hash(TokenHash::of(given), now)
    }

    /// Returns the entry of the token with a hash.
    pub(crate) fn of_hash(&self, hash: TokenHash, now: Timestamp) -> Option<Entry> {
        self.find(now, |entry| entry.hash == hash)
    }

    /// Returns the hash of the first token that the program added.
    #[cfg(feature = "ui")]
    pub(crate) fn first(&self) -> Option<TokenHash> {
        self.own.first().map(|entry| entry.hash)
    }

    /// Compares all tokens, each in a time that depends on its length alone.
    fn find(&self, now: Timestamp, is_given: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut found = None;
        for entry in &self.own {
            if is_given(entry) {
                found = Some(entry.clone());
            }
        }
        let Some(file) = &self.file else { return found };
        for entry in file.entries(now).iter() {
            if is_given(entry) {
                let key = Some((Arc::clone(file), entry.hash));
                let client = Client { key, ..entry.client.clone() };
                found = Some(Entry { client, ..entry.clone() });
            }
        }
        found
    }
}

/// Compares texts in a time that does not depend on the place of the first difference.
fn equals_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |found, (a, b)| found | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use weftwork_types::OrgId;

    fn tokens() -> Tokens {
        let mut tokens = Tokens::default();
        for (token, org) in [("0123456789abcdef", "one"), ("fedcba9876543210", "two")] {
            let org = OrgId::new(org).expect("valid");
            let principal = Principal::new(org, "ada");
            tokens.add(token.to_owned(), principal).expect("valid");
        }
        tokens
    }

    #[test]
    fn a_token_stands_for_its_principal_only() {
        for (name, value, org) in [
            ("authorization", "Bearer 0123456789abcdef", Some("one")),
            ("authorization", "bearer fedcba9876543210", Some("two")),
            ("x-api-key", "fedcba9876543210", Some("two")),
            ("authorization", "Basic 0123456789abcdef", None),
            ("authorization", "Bearer 0123456789abcdeF", None),
            ("authorization", "Bearer 0123456789abcde", None),
            ("authorization", "Bearer 0123456789abcdef0", None),
            ("x-api-key", "", None),
            ("x-other", "0123456789abcdef", None),
        ] {
            let headers = HeaderMap::from_iter([(
                name.parse().expect("a name"),
                HeaderValue::from_static(value),
            )]);
            let found =
                tokens().client(&headers, Timestamp(0)).map(|of| of.principal.org.to_string()).ok();
            assert_eq!(found.as_deref(), org, "{name}: {value}");
        }
    }

    #[test]
    fn tokens_that_can_be_guessed_or_not_sent_are_refused_and_none_is_shown() {
        let mut tokens = tokens();
        let local = Principal::local;
        assert_eq!(tokens.add("short".to_owned(), local()), Err(TokenError::Short { found: 5 }));
        let odd = "with a space in it".to_owned();
        assert_eq!(tokens.add(odd, local()), Err(TokenError::Character));
        let org = OrgId::new("server:local").expect("valid");
        let own = Principal { org, ..local() };
        assert!(matches!(
            tokens.add("0123456789abcdef".to_owned(), own),
            Err(TokenError::Reserved { .. })
        ));
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }
}
