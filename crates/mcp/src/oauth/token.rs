//! Requests to the token endpoint.

use super::client::Client;
use super::error::OauthError;
use super::requests::{Answer, Requests};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use url::Url;
use weftwork_types::Timestamp;

/// Maximum time before its end at which a token is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);
/// Maximum lifetime that is counted. One that is longer ends by a refusal.
const LIFETIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The tokens of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<String>,
    #[serde(rename = "scope", default, skip_serializing_if = "Option::is_none")]
    pub(crate) scopes: Option<String>,
    /// The time from which the token is renewed before it is used, and its end, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) life: Option<Life>,
}

/// The end of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) renew_at: Timestamp,
    pub(crate) ends_at: Timestamp,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads the answer of a token endpoint.
    pub(crate) fn read(answer: &Answer, now: Timestamp) -> Option<Self> {
        let access = answer.text("access_token").filter(|_| answer.is_success())?.to_owned();
        // It becomes part of a header.
        if !access.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let life = answer.seconds("expires_in").filter(|seconds| *seconds > 0).map(|seconds| {
            let lifetime = Duration::from_secs(seconds).min(LIFETIME_MAX);
            let early = RENEWED_BEFORE.min(lifetime / 4);
            Life { renew_at: now.plus(lifetime - early), ends_at: now.plus(lifetime) }
        });
        Some(Self {
            access,
            refresh: answer.text("refresh_token").map(str::to_owned),
            scopes: answer.text("scope").map(str::to_owned),
            life,
        })
    }

    /// Returns new tokens with the refresh token and the scope of the old ones, if they have none of
    /// their own.
    pub(crate) fn after(self, old: &Self) -> Self {
        Self {
            refresh: self.refresh.or_else(|| old.refresh.clone()),
            scopes: self.scopes.or_else(|| old.scopes.clone()),
            ..self
        }
    }
}

/// The endpoint, and what each request to it has.
#[derive(Debug)]
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) url: &'a Url,
    pub(crate) client: &'a Client,
    pub(crate) resource: &'a str,
}

impl TokenEndpoint<'_> {
    /// Sends a grant.
    pub(crate) async fn send(&self, grant: &[(&'static str, &str)]) -> Result<Answer, OauthError> {
        let mut form: Vec<(&str, String)> =
            grant.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        form.push(("resource", self.resource.to_owned()));
        let headers = self.client.authenticate(&mut form);
        self.requests.post_form(self.url, headers, &form).await
    }
}
