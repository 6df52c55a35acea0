//! The login at a server: made by a person, used and renewed by requests.

use super::challenge::Challenge;
use super::client::Client;
use super::discovery::{Discovered, discover_server};
use super::error::{OauthError, to_words};
use super::requests::{Requests, check_transport, show_url};
use super::saved::{LoginFile, Saved};
use super::token::{TokenEndpoint, Tokens};
use super::{LoginKind, LoginRequest, LoginScreen, LoginState, browser, device};
use crate::file::OauthSettings;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;
use url::Url;
use weftwork_types::port::{Clock, Egress, EgressError, EgressRequest, Method};

/// The scope for a refresh token in OpenID Connect.
pub(crate) const OFFLINE: &str = "offline_access";

/// The login at a server.
#[derive(Debug)]
pub(crate) struct Login {
    server: Url,
    headers: Vec<(String, String)>,
    settings: OauthSettings,
    file: LoginFile,
    egress: Arc<dyn Egress>,
    clock: Arc<dyn Clock>,
    /// Requests of this process wait here, and those of others at the lock of the file.
    turn: Mutex<()>,
}

/// The place of logins, with the ports that they use.
#[derive(Debug, Clone)]
pub(crate) struct LoginPlace<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) egress: &'a Arc<dyn Egress>,
    pub(crate) clock: &'a Arc<dyn Clock>,
}

/// A login that is being made.
pub(crate) struct Plan<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) settings: &'a OauthSettings,
    pub(crate) found: &'a Discovered,
    pub(crate) scopes: Option<String>,
    pub(crate) clock: &'a dyn Clock,
}

/// An answer of the server to a request without a token.
struct Probe {
    challenge: Challenge,
    is_refused: bool,
}

impl Login {
    /// Creates the login at an address; `None` if the address is not one, which the first request
    /// reports.
    pub(crate) fn new(
        place: &LoginPlace<'_>,
        url: &str,
        headers: &BTreeMap<String, String>,
        settings: &OauthSettings,
    ) -> Option<Self> {
        let server = Url::parse(url).ok()?;
        Some(Self {
            file: LoginFile::of(place.folder, &server),
            headers: headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            server,
            settings: settings.clone(),
            egress: Arc::clone(place.egress),
            clock: Arc::clone(place.clock),
            turn: Mutex::default(),
        })
    }

    /// Returns the stored login.
    pub(crate) fn state(&self) -> Result<Option<LoginState>, OauthError> {
        let Some(saved) = self.file.read()? else { return Ok(None) };
        let tokens = saved.tokens.as_ref();
        Ok(Some(LoginState {
            issuer: saved.issuer,
            scopes: tokens.and_then(|tokens| tokens.scopes.clone()),
            is_ended: tokens.is_none(),
            ends_at: tokens.and_then(|tokens| tokens.life).map(|life| life.ends_at),
            is_renewable: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        }))
    }

    /// Returns the token for a request, renewed if it is about to end; `None` without a login.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<String>, OauthError> {
        let Some(tokens) = self.file.read()?.and_then(|saved| saved.tokens) else {
            return Ok(None);
        };
        let now = self.clock.now();
        let life = tokens.life.filter(|life| now >= life.renew_at && tokens.refresh.is_some());
        let Some(life) = life else { return Ok(Some(tokens.access)) };
        match self.renew(&tokens.access).await {
            // It is good for a while yet.
            Err(OauthError::Egress(_)) if now < life.ends_at => Ok(Some(tokens.access)),
            renewed => renewed,
        }
    }

    /// Returns another token than one that is refused or about to end; `None` if there is none, so
    /// that a person has to log in.
    ///
    /// # Cancel safety
    /// The renewal goes on: its new refresh token replaces the old one, and would be lost.
    pub(crate) async fn renew(self: &Arc<Self>, old: &str) -> Result<Option<String>, OauthError> {
        let login = Arc::clone(self);
        let old = old.to_owned();
        let task = tokio::spawn(async move { login.renew_in_turn(&old).await });
        let renewed = task
            .await
            .unwrap_or_else(|_| Err(OauthError::failed("the renewal of the login ended")));
        renewed.map_err(OauthError::before_request)
    }

    async fn renew_in_turn(&self, old: &str) -> Result<Option<String>, OauthError> {
        let _turn = self.turn.lock().await;
        let _lock = self.file.lock().await?;
        let Some(mut saved) = self.file.read()? else { return Ok(None) };
        let Some(tokens) = saved.tokens.clone() else { return Ok(None) };
        if tokens.access != old {
            // Another request or process has renewed it, or a person has logged in.
            return Ok(Some(tokens.access));
        }
        let Some(refresh) = &tokens.refresh else { return Ok(None) };
        let requests = self.new_requests();
        let endpoint = TokenEndpoint {
            requests: &requests,
            url: &saved.token_endpoint,
            client: &saved.client.clone().with_settings(&self.settings),
            resource: &saved.resource,
        };
        let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        let answer = endpoint.send(&grant).await?;
        if let Some(new) = Tokens::read(&answer, self.clock.now()) {
            let new = new.after(&tokens);
            let access = new.access.clone();
            saved.tokens = Some(new);
            self.file.write(&saved)?;
            return Ok(Some(access));
        }
        if answer.error() == Some("invalid_grant") {
            saved.tokens = None;
            self.file.write(&saved)?;
        }
        match answer.status {
            400..=499 if !matches!(answer.status, 408 | 429) => Err(OauthError::needed(format!(
                "its authorization server has ended the login ({})",
                answer.problem()
            ))),
            // The refresh token may be good for another request.
            _ => Err(EgressError::Broken {
                host: saved.token_endpoint.host_str().unwrap_or_default().to_owned(),
                reason: answer.problem(),
            }
            .into()),
        }
    }

    /// Records scopes that a request needed, for the next login.
    pub(crate) async fn need_scope(&self, scope: &str) -> Result<(), OauthError> {
        let _turn = self.turn.lock().await;
        let _lock = self.file.lock().await?;
        let Some(mut saved) = self.file.read()? else { return Ok(()) };
        let known = saved.tokens.as_ref().and_then(|tokens| tokens.scopes.clone());
        saved.missing_scope =
            join_scopes([known, saved.missing_scope.take(), Some(to_words(scope))]);
        self.file.write(&saved)
    }

    /// Logs in, and stores the tokens.
    pub(crate) async fn log_in(
        &self,
        request: &LoginRequest,
        screen: &dyn LoginScreen,
    ) -> Result<(), OauthError> {
        check_transport(&self.server)?;
        let requests = self.new_requests();
        let probe = self.probe_server().await?;
        let found =
            discover_server(&requests, &self.server, &probe.challenge, probe.is_refused).await?;
        if let Some(issuer) =
            self.settings.issuer.as_ref().filter(|own| **own != found.metadata.issuer)
        {
            return Err(OauthError::failed(format!(
                "its authorization server is `{}`, and the MCP file has `{}` as `issuer`; the client is not used elsewhere",
                to_words(&found.metadata.issuer),
                to_words(issuer)
            )));
        }
        let plan = Plan {
            requests: &requests,
            settings: &self.settings,
            scopes: self.choose_scope(request, &probe.challenge, &found)?,
            found: &found,
            clock: self.clock.as_ref(),
        };
        let (client, tokens) = match request.kind {
            LoginKind::Browser => browser::log_in(&plan, screen).await?,
            LoginKind::Device => device::log_in(&plan, screen).await?,
        };
        self.store_login(&found, &client, tokens, plan.scopes).await
    }

    async fn store_login(
        &self,
        found: &Discovered,
        client: &Client,
        tokens: Tokens,
        scopes: Option<String>,
    ) -> Result<(), OauthError> {
        // A server that does not name the scopes gave those that were asked for.
        let tokens = Tokens { scopes: tokens.scopes.clone().or(scopes), ..tokens };
        let _turn = self.turn.lock().await;
        let _lock = self.file.lock().await?;
        self.file.write(&Saved {
            version: Saved::version(),
            server: show_url(&self.server),
            issuer: found.metadata.issuer.clone(),
            resource: found.resource.clone(),
            token_endpoint: found.metadata.token.clone(),
            revocation_endpoint: found.metadata.revocation.clone(),
            client: client.stored(&self.settings),
            tokens: Some(tokens),
            missing_scope: None,
        })
    }

    /// The scopes to ask for: those of the person, else of the file, else of the server with those
    /// that requests have needed.
    fn choose_scope(
        &self,
        request: &LoginRequest,
        challenge: &Challenge,
        found: &Discovered,
    ) -> Result<Option<String>, OauthError> {
        if let Some(own) = &request.scopes {
            return Ok(Some(own.clone()).filter(|own| !own.is_empty()));
        }
        let of_server = || {
            let named = Some(found.scopes.join(" ")).filter(|named| !named.is_empty());
            challenge.scopes.clone().or(named)
        };
        let base = self.settings.scopes.clone().or_else(of_server);
        // A file that cannot be read is replaced.
        let missing = self.file.read().unwrap_or_default().and_then(|saved| saved.missing_scope);
        let has_offline = found.metadata.scopes.iter().any(|scope| scope == OFFLINE);
        let offline = has_offline.then(|| OFFLINE.to_owned());
        Ok(join_scopes([base, missing, offline]))
    }

    /// Ends the login: asks the authorization server to revoke its tokens, and removes the file.
    /// Returns `false` if there was none.
    pub(crate) async fn log_out(&self) -> Result<bool, OauthError> {
        let _turn = self.turn.lock().await;
        let _lock = self.file.lock().await?;
        if let Ok(Some(saved)) = self.file.read()
            && let Err(error) = self.revoke_tokens(&saved).await
        {
            tracing::warn!(%error, "the tokens of a login were removed, and not revoked");
        }
        self.file.remove()
    }

    async fn revoke_tokens(&self, saved: &Saved) -> Result<(), OauthError> {
        let Some(url) = &saved.revocation_endpoint else { return Ok(()) };
        let Some(tokens) = &saved.tokens else { return Ok(()) };
        let requests = self.new_requests();
        let client = saved.client.clone().with_settings(&self.settings);
        let all =
            [("refresh_token", tokens.refresh.as_ref()), ("access_token", Some(&tokens.access))];
        for (kind, token) in all {
            let Some(token) = token else { continue };
            let mut form = vec![("token", token.clone()), ("token_type_hint", kind.to_owned())];
            let headers = client.authenticate(&mut form);
            requests.post_form(url, headers, &form).await?;
        }
        Ok(())
    }

    /// Sends requests without a token, whose refusal may say where to log in. Some servers refuse
    /// the second one only.
    async fn probe_server(&self) -> Result<Probe, OauthError> {
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "weftwork", "version": env!("CARGO_PKG_VERSION")},
        });
        let first = self.probe_with("initialize", hello).await?;
        if first.is_refused {
            return Ok(first);
        }
        let second = self.probe_with("tools/list", json!({})).await?;
        Ok(if second.is_refused { second } else { first })
    }

    async fn probe_with(&self, method: &str, params: Value) -> Result<Probe, OauthError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let own = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = EgressRequest {
            headers: own.into_iter().chain(self.headers.iter().cloned()).collect(),
            body: Bytes::from(body.to_string()),
            ..EgressRequest::new(Method::Post, self.server.as_str())
        };
        let response = self.egress.send(request).await?;
        Ok(Probe { challenge: Challenge::of(&response), is_refused: response.status == 401 })
    }

    fn new_requests(&self) -> Requests {
        Requests::new(Arc::clone(&self.egress))
    }
}

/// Scopes of several lists, each once.
fn join_scopes(lists: [Option<String>; 3]) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for scope in lists.iter().flatten().flat_map(|list| list.split_whitespace()) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}
