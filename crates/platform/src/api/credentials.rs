//! Credentials of an API. Their secrets are read from the environment when a request is made.

use super::operation::encode_segment;
use crate::definition::{Authentication, AuthenticationType};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use std::fmt;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::form_urlencoded::byte_serialize;
use weftwork_types::Timestamp;
use weftwork_types::port::{Clock, Egress, EgressRequest, Method, Redirects};

/// Longest answer of a server of tokens in bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Time before its end at which a token is no longer used.
const TOKEN_MARGIN: Duration = Duration::from_secs(30);
/// Time for which a token is used whose server does not say how long it is valid.
const TOKEN_SECONDS: u64 = 300;
/// Header with the signature of a body.
const SIGNATURE: &str = "x-signature-256";

/// Function that returns a secret by its name, for a definition of an organisation or of all. The error
/// is the reason why there is none.
pub(crate) type Secrets = dyn Fn(Option<&str>, &str) -> Result<String, String> + Send + Sync;

/// The credentials of an API.
pub(crate) struct Credentials {
    of: Authentication,
    /// Organisation of the definition.
    organization: Option<String>,
    /// Name of the variable with the secret.
    variable: String,
    secrets: Arc<Secrets>,
    token: Mutex<Option<ClientToken>>,
}

/// A token of a client.
#[derive(Clone)]
struct ClientToken {
    token: String,
    /// Time until which it is used.
    until: Timestamp,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("variable", &self.variable).finish_non_exhaustive()
    }
}

/// Headers of a request with the secrets in them, which no text may have.
#[derive(Default)]
pub(crate) struct Signed {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) secrets: Vec<String>,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    /// Seconds, as a number or as its text.
    #[serde(default)]
    expires_in: Value,
}

impl Credentials {
    pub(crate) fn new(
        slug: &str,
        organization: Option<&str>,
        of: &Authentication,
        secrets: Arc<Secrets>,
    ) -> Self {
        let usual = || format!("AGENT_{}_TOKEN", slug.to_uppercase().replace('-', "_"));
        let variable = of.secret.clone().unwrap_or_else(usual);
        Self {
            of: of.clone(),
            organization: organization.map(str::to_owned),
            variable,
            secrets,
            token: Mutex::default(),
        }
    }

    /// Checks that there is a secret; the error is the reason why there is none.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.of.kind {
            AuthenticationType::None => Ok(()),
            _ => (self.secrets)(self.organization.as_deref(), &self.variable).map(drop),
        }
    }

    /// Forgets the token of a client; returns `false` if there was none.
    pub(crate) fn forget_token(&self) -> bool {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Returns the headers for a body; the error is the reason why there are none.
    pub(crate) async fn sign(
        &self,
        body: &[u8],
        egress: &dyn Egress,
        clock: &dyn Clock,
    ) -> Result<Signed, String> {
        if self.of.kind == AuthenticationType::None {
            return Ok(Signed::default());
        }
        let secret = (self.secrets)(self.organization.as_deref(), &self.variable)?;
        if secret.contains(['\r', '\n', '\0']) {
            return Err(format!("the secret of `{}` has a line break", self.variable));
        }
        let header = |name: &str, value: String| vec![(name.to_owned(), value)];
        let headers = match self.of.kind {
            AuthenticationType::Bearer => header("authorization", format!("Bearer {secret}")),
            AuthenticationType::Basic => {
                header("authorization", format!("Basic {}", STANDARD.encode(&secret)))
            }
            AuthenticationType::Header => {
                header(self.of.header.as_deref().unwrap_or("x-api-key"), secret.clone())
            }
            AuthenticationType::Signature => header(SIGNATURE, signature(&secret, body)?),
            AuthenticationType::Oauth => {
                let token = self.token(&secret, egress, clock).await?;
                let headers = header("authorization", format!("Bearer {token}"));
                let secrets = forms_of(&secret).chain(forms_of(&token)).collect();
                return Ok(Signed { headers, secrets });
            }
            AuthenticationType::None => Vec::new(),
        };
        Ok(Signed { headers, secrets: forms_of(&secret).collect() })
    }

    /// Returns a token of a client: the one that is valid, or a new one.
    async fn token(
        &self,
        secret: &str,
        egress: &dyn Egress,
        clock: &dyn Clock,
    ) -> Result<String, String> {
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| clock.now() < known.until) {
            return Ok(known.token);
        }
        let endpoint = self.of.token_endpoint.as_deref().unwrap_or_default();
        let mut request = EgressRequest::new(Method::Post, endpoint);
        request.headers = vec![
            (
                "authorization".to_owned(),
                format!("Basic {}", STANDARD.encode(form_encoded(secret))),
            ),
            ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ];
        request.body = "grant_type=client_credentials".into();
        request.body_max = Some(TOKEN_BYTES_MAX);
        request.redirects = Redirects::Return;
        let failed = |reason: String| format!("the server of tokens did not answer: {reason}");
        let mut response = egress.send(request).await.map_err(|error| failed(error.to_string()))?;
        if !(200..300).contains(&response.status) {
            return Err(format!("the server of tokens answered with status {}", response.status));
        }
        let mut bytes = Vec::new();
        while let Some(part) = response.body.next().await {
            bytes.extend_from_slice(&part.map_err(|error| failed(error.to_string()))?);
        }
        // Its text may have the token.
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|_| "the server of tokens answered without an `access_token`".to_owned())?;
        if token.access_token.is_empty() {
            return Err("the server of tokens answered with an empty `access_token`".to_owned());
        }
        let written = token.expires_in.as_str().and_then(|text| text.parse().ok());
        let seconds = token.expires_in.as_u64().or(written).unwrap_or(TOKEN_SECONDS);
        let valid = Duration::from_secs(seconds).saturating_sub(TOKEN_MARGIN);
        let until = clock.now().plus(valid);
        let kept = ClientToken { token: token.access_token.clone(), until };
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(token.access_token)
    }
}

/// Encodes the id and the password of a client as a form does, as servers of tokens read them.
///
/// Source: RFC 6749, section 2.3.1.
fn form_encoded(secret: &str) -> String {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    match secret.split_once(':') {
        Some((id, password)) => format!("{}:{}", encode(id), encode(password)),
        None => encode(secret),
    }
}

/// Returns the texts that show a secret: itself, each half of a name and a password, both as they are
/// sent, and each as an address or JSON has it. Short ones are words of other texts, too.
fn forms_of(secret: &str) -> impl Iterator<Item = String> + use<> {
    const BYTES_MIN: usize = 4;
    let halves = secret.split_once(':').map(|(name, password)| [name, password]);
    let mut forms: Vec<String> = halves.into_iter().flatten().map(str::to_owned).collect();
    forms.extend([secret.to_owned(), STANDARD.encode(secret)]);
    let written = |form: &String| {
        let json = Value::from(form.as_str()).to_string();
        let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
        [encode_segment(form), json.unwrap_or_default().to_owned()]
    };
    let written: Vec<_> = forms.iter().flat_map(written).collect();
    forms.extend(written);
    // The longest first: what is a part of another one does not break it.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.into_iter().filter(|form| form.len() >= BYTES_MIN)
}

/// Returns the signature of a body by HMAC with SHA-256.
fn signature(secret: &str, body: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .map_err(|_| "the secret cannot be a key".to_owned())?;
    mac.update(body);
    let mut text = "sha256=".to_owned();
    for byte in mac.finalize().into_bytes() {
        write!(text, "{byte:02x}").map_err(|error| error.to_string())?;
    }
    Ok(text)
}
