//! Login on another device: a code that a person types there (RFC 8628).

use super::client::{Client, Grant};
use super::error::{OauthError, to_words};
use super::login::Plan;
use super::requests::check_transport;
use super::token::{TokenEndpoint, Tokens};
use super::{LoginScreen, LoginStep};
use std::time::Duration;
use url::Url;

pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The wait between two requests, unless the server names another, and its increase.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum wait between two requests.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Maximum time for the login.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);

/// Logs in: shows the code, and asks for the tokens until the person has typed it.
pub(crate) async fn log_in(
    plan: &Plan<'_>,
    screen: &dyn LoginScreen,
) -> Result<(Client, Tokens), OauthError> {
    let metadata = &plan.found.metadata;
    let Some(place) = &metadata.device else {
        return Err(OauthError::failed(
            "its authorization server has no login by a code; log in without `--device`",
        ));
    };
    let scope = plan.scopes.as_deref();
    let client =
        Client::obtain(plan.requests, metadata, plan.settings, Grant::Device, scope).await?;
    let mut form = vec![("resource", plan.found.resource.clone())];
    form.extend(scope.map(|scope| ("scope", scope.to_owned())));
    let headers = client.authenticate(&mut form);
    let started = plan.clock.elapsed();
    let answer = plan.requests.post_form(place, headers, &form).await?;
    let bad = |problem: String| {
        OauthError::failed(format!("its authorization server gave no code ({problem})"))
    };
    // Some servers write `verification_url`.
    let page = answer.text("verification_uri").or_else(|| answer.text("verification_url"));
    let missing = || bad(answer.problem());
    let device_code = answer.text("device_code").ok_or_else(missing)?;
    let code = answer.text("user_code").ok_or_else(missing)?;
    let page = page.ok_or_else(missing)?;
    let page = Url::parse(page).map_err(|error| bad(format!("`{}`: {error}", to_words(page))))?;
    check_transport(&page)?;
    let complete = answer.text("verification_uri_complete").and_then(|text| Url::parse(text).ok());
    let complete = complete.filter(|url| check_transport(url).is_ok());
    screen.show(&LoginStep::Code {
        url: page.into(),
        code: to_words(code),
        complete: complete.map(String::from),
    });
    let lifetime = answer.seconds("expires_in").map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX);
    let interval = answer.seconds("interval").map_or(INTERVAL, Duration::from_secs);
    let endpoint = TokenEndpoint {
        requests: plan.requests,
        url: &metadata.token,
        client: &client,
        resource: &plan.found.resource,
    };
    let tokens = poll_tokens(plan, &endpoint, device_code, started + lifetime, interval).await?;
    Ok((client, tokens))
}

async fn poll_tokens(
    plan: &Plan<'_>,
    endpoint: &TokenEndpoint<'_>,
    device_code: &str,
    end: Duration,
    interval: Duration,
) -> Result<Tokens, OauthError> {
    // A server that names 0 would be asked without a pause.
    let mut interval = interval.clamp(Duration::from_secs(1), INTERVAL_MAX);
    loop {
        plan.clock.sleep(interval).await;
        if plan.clock.elapsed() > end {
            return Err(OauthError::failed("nobody typed the code before its end; log in again"));
        }
        let asked = endpoint.send(&[("grant_type", GRANT), ("device_code", device_code)]).await;
        let answer = match asked {
            Ok(answer) => answer,
            // The person may type on while this machine is offline.
            Err(OauthError::Egress(error)) if error.is_retriable() => {
                interval = (interval * 2).min(INTERVAL_MAX);
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(tokens) = Tokens::read(&answer, plan.clock.now()) {
            return Ok(tokens);
        }
        match answer.error() {
            Some("authorization_pending") => {}
            Some("slow_down") => interval = (interval + INTERVAL).min(INTERVAL_MAX),
            None if answer.status >= 500 => {}
            _ => {
                return Err(OauthError::failed(format!(
                    "its authorization server refused the login ({})",
                    answer.problem()
                )));
            }
        }
    }
}
