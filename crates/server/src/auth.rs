//! Authentication: tokens, and the principals that they stand for.
//!
//! The page has a cookie in place of a token; see [`session`].

#[cfg_attr(not(feature = "ui"), expect(dead_code, reason = "the page begins sessions"))]
mod session;

pub(crate) use session::Tickets;
#[cfg(feature = "ui")]
pub(crate) use session::{Session, is_same_origin};

use crate::error::ApiError;
use crate::service::OWN;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use weftwork_types::{Principal, Timestamp};

/// Minimum length of a token in bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// The tokens that a server accepts. Without one, each request is of the local principal.
#[derive(Clone, Default)]
pub(crate) struct Tokens(Vec<(String, Principal)>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, principal)| principal)).finish()
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
    /// The organisation is one that a server uses for its own data.
    #[error("the organisation `{org}` begins with `{OWN}`, which is reserved; choose another")]
    Reserved {
        /// Organisation.
        org: String,
    },
}

/// Returns a token of 244 random bits.
#[must_use]
pub fn new_token() -> String {
    let half = || uuid::Uuid::new_v4().simple().to_string();
    half() + &half()
}

impl Tokens {
    pub(crate) fn add(&mut self, token: String, principal: Principal) -> Result<(), TokenError> {
        if token.len() < TOKEN_BYTES_MIN {
            return Err(TokenError::Short { found: token.len() });
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        if principal.org.as_str().starts_with(OWN) {
            return Err(TokenError::Reserved { org: principal.org.to_string() });
        }
        self.0.push((token, principal));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the principal of a request: of its bearer token, its key, or its session.
    pub(crate) fn principal(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, ApiError> {
        if self.is_empty() {
            return Ok(Principal::local());
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let key = headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let found = match (bearer.or(key), session::Session::of(headers)) {
            (None, Some(session)) => self
                .find(|token| session.is_of(token, now))
                .filter(|_| session::is_same_origin(headers)),
            (given, _) => self.of_token(given.unwrap_or_default()),
        };
        found.map(|(_, principal)| principal.clone()).ok_or_else(|| {
            ApiError::unauthorized(
                "expected the token of the server in `authorization: Bearer TOKEN` or `x-api-key`",
            )
        })
    }

    /// Returns a token that was given, with its principal, if the server has it.
    pub(crate) fn of_token(&self, given: &str) -> Option<&(String, Principal)> {
        self.find(|token| same(token.as_bytes(), given.as_bytes()))
    }

    /// Returns the first token, which the program that serves added first.
    #[cfg(feature = "ui")]
    pub(crate) fn first(&self) -> Option<&str> {
        self.0.first().map(|(token, _)| token.as_str())
    }

    /// Compares all tokens, each in a time that depends on its length alone.
    fn find(&self, is_given: impl Fn(&str) -> bool) -> Option<&(String, Principal)> {
        let mut found = None;
        for entry in &self.0 {
            if is_given(&entry.0) {
                found = Some(entry);
            }
        }
        found
    }
}

/// Compares texts in a time that does not depend on the place of the first difference.
fn same(a: &[u8], b: &[u8]) -> bool {
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
            let principal = Principal { org, subject: "ada".to_owned() };
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
                tokens().principal(&headers, Timestamp(0)).map(|who| who.org.to_string()).ok();
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
