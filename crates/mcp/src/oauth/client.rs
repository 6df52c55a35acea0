//! The client at an authorization server: registered beforehand by a person, or now (RFC 7591).

use super::discovery::Metadata;
use super::error::{OauthError, to_words};
use super::requests::{Answer, Requests, show_url};
use crate::file::OauthSettings;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use url::form_urlencoded::byte_serialize;

const CLIENT_NAME: &str = "Weftwork";

/// A client, as the login file has it. Its secret is stored only if it was registered by this
/// program.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    pub(crate) method: AuthMethod,
}

/// The authentication of a client at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMethod {
    /// The client has no secret.
    None,
    /// `client_secret_basic`
    Basic,
    /// `client_secret_post`
    Post,
}

/// The way in which a person logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant<'a> {
    /// A browser that is redirected to this address.
    Code { redirect: &'a str },
    /// A code that is typed on another device.
    Device,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AuthMethod {
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "client_secret_basic" => Some(Self::Basic),
            "client_secret_post" => Some(Self::Post),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// The method of a client with a secret. Without a list of methods, RFC 8414 has the first.
    fn of_secret(metadata: &Metadata) -> Self {
        let names = metadata.methods.as_deref().unwrap_or_default();
        let has = |method: Self| names.iter().any(|name| name == method.name());
        match has(Self::Post) && !has(Self::Basic) {
            true => Self::Post,
            false => Self::Basic,
        }
    }
}

impl Client {
    /// Returns the client of the operator's file, or registers one.
    pub(crate) async fn obtain(
        requests: &Requests,
        metadata: &Metadata,
        settings: &OauthSettings,
        grant: Grant<'_>,
        scope: Option<&str>,
    ) -> Result<Self, OauthError> {
        if let Some(id) = &settings.client_id {
            let secret = settings.client_secret.clone();
            let method = match secret {
                Some(_) => AuthMethod::of_secret(metadata),
                None => AuthMethod::None,
            };
            return Ok(Self { id: id.clone(), secret, method });
        }
        let place = metadata
            .registration
            .as_ref()
            .ok_or_else(|| no_client("does not register clients by itself", &metadata.issuer))?;
        let body = registration_to_json(metadata, grant, scope);
        let answer = requests.post_json(place, &body).await?;
        let id = answer.text("client_id").filter(|_| answer.is_success());
        let Some(id) = id else {
            let problem = format!(
                "did not register a client at `{}` ({})",
                show_url(place),
                answer.problem()
            );
            return Err(no_client(&problem, &metadata.issuer));
        };
        Ok(Self::registered(id, &answer, metadata))
    }

    fn registered(id: &str, answer: &Answer, metadata: &Metadata) -> Self {
        let secret = answer.text("client_secret").map(str::to_owned);
        let named = answer.text("token_endpoint_auth_method").and_then(AuthMethod::of_name);
        let method = match (&secret, named) {
            (None, _) => AuthMethod::None,
            (Some(_), Some(named)) => named,
            (Some(_), None) => AuthMethod::of_secret(metadata),
        };
        Self { id: id.to_owned(), secret, method }
    }

    /// Adds the client to a form of the token endpoint; returns the headers of the request.
    pub(crate) fn authenticate(&self, form: &mut Vec<(&str, String)>) -> Vec<(String, String)> {
        let secret = self.secret.clone().unwrap_or_default();
        match self.method {
            AuthMethod::Basic => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&self.id), encoded(&secret));
                let value = format!("Basic {}", STANDARD.encode(pair));
                return vec![("authorization".to_owned(), value)];
            }
            AuthMethod::Post => form.push(("client_secret", secret)),
            AuthMethod::None => {}
        }
        form.push(("client_id", self.id.clone()));
        Vec::new()
    }

    /// Returns the client without a secret that the operator's file has.
    pub(crate) fn stored(&self, settings: &OauthSettings) -> Self {
        let is_own = settings.client_id.is_none();
        Self { secret: self.secret.clone().filter(|_| is_own), ..self.clone() }
    }

    /// Returns a stored client with the secret of the operator's file, if it is the same client.
    pub(crate) fn with_settings(self, settings: &OauthSettings) -> Self {
        match settings.client_id.as_ref() == Some(&self.id) {
            true => Self { secret: settings.client_secret.clone(), ..self },
            false => self,
        }
    }
}

fn registration_to_json(
    metadata: &Metadata,
    grant: Grant<'_>,
    scope: Option<&str>,
) -> serde_json::Value {
    let offered = metadata.methods.as_deref();
    let all = [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post];
    let is_offered = |method: &AuthMethod| {
        offered.is_none_or(|names| names.iter().any(|name| name == method.name()))
    };
    let method = all.into_iter().find(is_offered).unwrap_or(AuthMethod::None);
    let mut body = match grant {
        Grant::Code { redirect } => json!({
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }),
        Grant::Device => json!({
            "redirect_uris": [],
            "grant_types": [super::device::GRANT, "refresh_token"],
            "response_types": [],
        }),
    };
    body["client_name"] = json!(CLIENT_NAME);
    body["application_type"] = json!("native");
    body["token_endpoint_auth_method"] = json!(method.name());
    if let Some(scope) = scope {
        body["scope"] = json!(scope);
    }
    body
}

fn no_client(problem: &str, issuer: &str) -> OauthError {
    OauthError::failed(format!(
        "the authorization server `{}` {problem}; register a client there, and put it into the entry of the server in the MCP file: `\"oauth\": {{\"clientId\": \"ID\", \"clientSecret\": \"${{NAME}}\"}}`, the secret only if it has one",
        to_words(issuer)
    ))
}
