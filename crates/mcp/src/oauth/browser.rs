//! Login in a browser: authorization code with PKCE, and a redirect to a port of this machine
//! (RFC 8252).

use super::callback::Callback;
use super::client::{Client, Grant};
use super::error::{OauthError, to_words};
use super::login::Plan;
use super::token::{TokenEndpoint, Tokens};
use super::{LoginScreen, LoginStep};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;
use weftwork_types::random_token;

/// Maximum wait for the person.
const WAIT: Duration = Duration::from_secs(10 * 60);

/// The values of a login that nobody else knows.
struct Secrets {
    state: String,
    verifier: String,
}

impl Secrets {
    fn new() -> Self {
        Self { state: random_token(), verifier: random_token() }
    }
}

/// Logs in: shows the address, waits for the redirect, and exchanges its code for tokens.
pub(crate) async fn log_in(
    plan: &Plan<'_>,
    screen: &dyn LoginScreen,
) -> Result<(Client, Tokens), OauthError> {
    let metadata = &plan.found.metadata;
    let Some(place) = &metadata.authorization else {
        return Err(OauthError::failed(
            "its authorization server has no page to log in; try `--device`",
        ));
    };
    if metadata.challenges.as_ref().is_some_and(|all| !all.iter().any(|name| name == "S256")) {
        return Err(OauthError::failed(
            "its authorization server does not support PKCE with `S256`, which this program requires",
        ));
    }
    let callback = Callback::listen(plan.settings.callback_port).await?;
    let redirect = callback.address();
    let scope = plan.scopes.as_deref();
    let grant = Grant::Code { redirect };
    let client = Client::obtain(plan.requests, metadata, plan.settings, grant, scope).await?;
    let secrets = Secrets::new();
    let url = authorization_url(plan, place, &client, redirect, &secrets);
    screen.show(&LoginStep::Open { url: url.into() });
    let answer = tokio::select! {
        answer = callback.receive() => answer?,
        pasted = screen.pasted() => query_parameters(&pasted),
        () = plan.clock.sleep(WAIT) => {
            return Err(OauthError::failed(format!("nobody logged in within {} s", WAIT.as_secs())));
        }
    };
    let code = check_answer(&answer, &secrets, plan)?;
    let endpoint = TokenEndpoint {
        requests: plan.requests,
        url: &metadata.token,
        client: &client,
        resource: &plan.found.resource,
    };
    let answer = endpoint
        .send(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", &secrets.verifier),
        ])
        .await?;
    let tokens = Tokens::read(&answer, plan.clock.now()).ok_or_else(|| {
        OauthError::failed(format!("its authorization server gave no token ({})", answer.problem()))
    })?;
    Ok((client, tokens))
}

/// The address that the person opens.
fn authorization_url(
    plan: &Plan<'_>,
    place: &Url,
    client: &Client,
    redirect: &str,
    secrets: &Secrets,
) -> Url {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&secrets.verifier));
    let mut url = place.clone();
    let mut query = url.query_pairs_mut();
    query.append_pair("response_type", "code");
    query.append_pair("client_id", &client.id);
    query.append_pair("redirect_uri", redirect);
    query.append_pair("state", &secrets.state);
    query.append_pair("code_challenge", &challenge);
    query.append_pair("code_challenge_method", "S256");
    query.append_pair("resource", &plan.found.resource);
    if let Some(scope) = &plan.scopes {
        query.append_pair("scope", scope);
        if scope.split(' ').any(|one| one == super::login::OFFLINE) {
            // OpenID Connect gives refresh tokens only after a question.
            query.append_pair("prompt", "consent");
        }
    }
    drop(query);
    url
}

/// Reads the parameters of an address that a person pasted, or of its query alone.
pub(crate) fn query_parameters(address: &str) -> BTreeMap<String, String> {
    let query = address.trim().split_once('?').map_or(address.trim(), |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Returns the code of an answer that belongs to this login and comes from its issuer.
fn check_answer<'a>(
    answer: &'a BTreeMap<String, String>,
    secrets: &Secrets,
    plan: &Plan<'_>,
) -> Result<&'a str, OauthError> {
    let text = |name: &str| answer.get(name).map(String::as_str).filter(|text| !text.is_empty());
    if text("state") != Some(&secrets.state) {
        return Err(OauthError::failed(
            "the browser came back with the answer of another login (`state` differs); log in again",
        ));
    }
    let metadata = &plan.found.metadata;
    match text("iss") {
        Some(found) if found != metadata.issuer => {
            return Err(OauthError::failed(format!(
                "the browser came back from the issuer `{}`, expected `{}`; the code is not used",
                to_words(found),
                to_words(&metadata.issuer)
            )));
        }
        None if metadata.names_issuer => {
            return Err(OauthError::failed(
                "the browser came back without `iss`, which the authorization server promises; the code is not used",
            ));
        }
        _ => {}
    }
    match (text("error"), text("code")) {
        (None, Some(code)) => Ok(code),
        (error, _) => {
            let said = [error, text("error_description")].into_iter().flatten().map(to_words);
            let said = said.collect::<Vec<_>>().join(": ");
            let said = if said.is_empty() { "the answer has no code".to_owned() } else { said };
            Err(OauthError::failed(format!("its authorization server refused the login: {said}")))
        }
    }
}
