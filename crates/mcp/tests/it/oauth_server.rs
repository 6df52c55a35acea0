//! An MCP server with its authorization server, in this process.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use url::form_urlencoded::{byte_serialize, parse};
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_types::port::Egress;

const JSON: (&str, &str) = ("content-type", "application/json");

/// The behaviour of the servers. `ORIGIN` in a text is their address.
#[derive(Debug, Clone)]
pub(crate) struct Behaviour {
    /// `WWW-Authenticate` of a refusal.
    pub(crate) challenge: &'static str,
    /// Documents by path. Others are not found.
    pub(crate) documents: BTreeMap<&'static str, Value>,
    /// Answer of the registration; `null` refuses it.
    pub(crate) client: Value,
    /// Parameters of the redirect, besides `state`; `CODE` is the code.
    pub(crate) redirect: Vec<(&'static str, &'static str)>,
    /// `true` if the redirect has the state of the request.
    pub(crate) keeps_state: bool,
    /// Members of answers of the token endpoint, which replace its own.
    pub(crate) token: Value,
    /// Answers of the token endpoint, with their status, before its own.
    pub(crate) first: Vec<(u16, Value)>,
    /// `true` if the server accepts no token.
    pub(crate) refuses_tokens: bool,
    /// `true` if the first request of the protocol needs no token.
    pub(crate) opens_first: bool,
    /// Scope without which `tools/call` is refused.
    pub(crate) needs_scope: Option<&'static str>,
    /// `true` if a refresh token that was used before ends the login.
    pub(crate) detects_reuse: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        let resource = json!({"resource": "ORIGIN/mcp", "authorization_servers": ["ORIGIN"], "scopes_supported": ["read"]});
        Self {
            challenge: "Bearer resource_metadata=\"ORIGIN/meta\"",
            documents: BTreeMap::from([
                ("/meta", resource),
                ("/.well-known/oauth-authorization-server", metadata("ORIGIN")),
            ]),
            client: json!({"client_id": "client-1"}),
            redirect: vec![("code", "CODE"), ("iss", "ORIGIN")],
            keeps_state: true,
            token: json!({}),
            first: Vec::new(),
            refuses_tokens: false,
            opens_first: false,
            needs_scope: None,
            detects_reuse: true,
        }
    }
}

/// Metadata of an issuer.
pub(crate) fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": "ORIGIN/authorize?tenant=1",
        "token_endpoint": "ORIGIN/token",
        "registration_endpoint": "ORIGIN/register",
        "device_authorization_endpoint": "ORIGIN/device",
        "revocation_endpoint": "ORIGIN/revoke",
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// The tokens that are valid.
#[derive(Debug, Default)]
struct Issued {
    count: usize,
    access: Option<String>,
    refresh: Option<String>,
    scopes: String,
    challenge: String,
}

#[derive(Debug)]
struct State {
    behaviour: Mutex<Behaviour>,
    issued: Mutex<Issued>,
    called: AtomicUsize,
}

/// The servers. They are one program at one address.
#[derive(Debug)]
pub(crate) struct OauthServer {
    http: LoopbackServer,
    state: Arc<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The members of a form or a query.
pub(crate) fn members(text: &str) -> BTreeMap<String, String> {
    parse(text.as_bytes()).into_owned().collect()
}

impl OauthServer {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let state = Arc::new(State {
            behaviour: Mutex::new(behaviour),
            issued: Mutex::default(),
            called: AtomicUsize::new(0),
        });
        let answering = Arc::clone(&state);
        let http = LoopbackServer::start(move |_, request| answering.reply(request));
        Self { http: http.await.expect("a port"), state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.http.url(path)
    }

    /// A client that may connect to the servers.
    pub(crate) fn egress(&self) -> Arc<dyn Egress> {
        let allow = vec![self.http.address().to_string().parse().expect("a host")];
        let client = GuardedClient::new(EgressConfig { allow, ..EgressConfig::default() });
        Arc::new(client.expect("a client"))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut lock(&self.state.behaviour));
    }

    /// Ends the validity of the access token.
    pub(crate) fn expire(&self) {
        lock(&self.state.issued).access = None;
    }

    /// Ends the validity of all tokens.
    pub(crate) fn revoke(&self) {
        let mut issued = lock(&self.state.issued);
        issued.access = None;
        issued.refresh = None;
    }

    /// Number of calls of the tool that were carried out.
    pub(crate) fn called(&self) -> usize {
        self.state.called.load(Ordering::SeqCst)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.http.received()
    }

    /// The forms that were sent to a path.
    pub(crate) fn forms(&self, path: &str) -> Vec<BTreeMap<String, String>> {
        let all = self.received();
        let sent = all.iter().filter(|request| request.path == path);
        sent.map(|request| members(&String::from_utf8_lossy(&request.body))).collect()
    }

    /// The paths of requests for documents, in order.
    pub(crate) fn documents_asked(&self) -> Vec<String> {
        let all = self.received();
        let asked = all.iter().filter(|request| request.method == "GET");
        let asked = asked.map(|request| request.path.clone());
        asked.filter(|path| path.contains("well-known") || path == "/meta").collect()
    }
}

impl State {
    fn reply(&self, request: &Received) -> Reply {
        let origin = format!("http://{}", request.header("host").unwrap_or_default());
        let behaviour = lock(&self.behaviour).clone();
        let path = request.path.split('?').next().unwrap_or_default();
        let json = |status: u16, value: &Value| {
            Reply::full(status, &[JSON], value.to_string().replace("ORIGIN", &origin))
        };
        if let Some(document) = behaviour.documents.get(path) {
            return json(200, document);
        }
        match path {
            "/mcp" => self.mcp(request, &behaviour, &origin),
            "/register" if behaviour.client.is_null() => {
                json(403, &json!({"error": "access_denied", "error_description": "no strangers"}))
            }
            "/register" => json(201, &behaviour.client),
            "/authorize" => self.authorize(request, &behaviour, &origin),
            "/device" => json(
                200,
                &json!({
                    "device_code": "device-secret", "user_code": "WDJB-MJHT", "interval": 5,
                    "verification_uri": "ORIGIN/activate", "expires_in": "600",
                }),
            ),
            "/token" => {
                let answer = self.token(request, &behaviour);
                match answer.1["location"].as_str() {
                    Some(target) => {
                        let target = target.replace("ORIGIN", &origin);
                        Reply::full(answer.0, &[("location", &target)], "")
                    }
                    None => json(answer.0, &answer.1),
                }
            }
            "/revoke" => json(200, &json!({})),
            _ => Reply::full(404, &[("content-type", "text/html")], "<html>not found</html>"),
        }
    }

    fn authorize(&self, request: &Received, behaviour: &Behaviour, origin: &str) -> Reply {
        let asked = members(request.path.split_once('?').map_or("", |(_, query)| query));
        let text = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let mut issued = lock(&self.issued);
        issued.scopes = text("scope");
        issued.challenge = text("code_challenge");
        let state = if behaviour.keeps_state { text("state") } else { "other".to_owned() };
        let mut target = format!("{}?state={state}", text("redirect_uri"));
        for (name, value) in &behaviour.redirect {
            let value = value.replace("ORIGIN", origin).replace("CODE", "code-secret");
            let value: String = byte_serialize(value.as_bytes()).collect();
            target.push_str(&format!("&{name}={value}"));
        }
        Reply::full(302, &[("location", &target)], "")
    }

    fn token(&self, request: &Received, behaviour: &Behaviour) -> (u16, Value) {
        if !behaviour.first.is_empty() {
            return lock(&self.behaviour).first.remove(0);
        }
        let form = members(&String::from_utf8_lossy(&request.body));
        let text = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let mut issued = lock(&self.issued);
        let refused = |description: &str| {
            (400, json!({"error": "invalid_grant", "error_description": description}))
        };
        match text("grant_type") {
            "authorization_code" => {
                let challenge = challenge_of(text("code_verifier"));
                if text("code") != "code-secret" || challenge != issued.challenge {
                    return refused("wrong code");
                }
            }
            "refresh_token" if issued.refresh.as_deref() == Some(text("refresh_token")) => {}
            "refresh_token" => {
                if behaviour.detects_reuse {
                    issued.access = None;
                    issued.refresh = None;
                }
                return refused(&format!("unknown token {}", text("refresh_token")));
            }
            _ => {}
        }
        issued.count += 1;
        let access = format!("access-secret-{}", issued.count);
        let refresh = format!("refresh-secret-{}", issued.count);
        let mut answer = Map::new();
        for (name, value) in [("access_token", &access), ("refresh_token", &refresh)] {
            answer.insert(name.to_owned(), json!(value));
        }
        answer.insert("token_type".to_owned(), json!("bearer"));
        let own = behaviour.token.as_object().cloned().unwrap_or_default();
        answer.extend(own);
        answer.retain(|_, value| !value.is_null());
        issued.access = Some(access);
        issued.refresh = Some(refresh);
        (200, Value::Object(answer))
    }

    fn mcp(&self, request: &Received, behaviour: &Behaviour, origin: &str) -> Reply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let issued = lock(&self.issued);
        let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let is_known = token.is_some() && token == issued.access.as_deref();
        let is_open = behaviour.opens_first && body["method"] == "initialize";
        if (!is_known || behaviour.refuses_tokens) && !is_open {
            let challenge = behaviour.challenge.replace("ORIGIN", origin);
            let said = format!("who are you? ({})", token.unwrap_or("nobody"));
            return Reply::full(401, &[("www-authenticate", &challenge)], said);
        }
        let answer = |result: Value| {
            let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
            Reply::full(200, &[JSON], answer.to_string())
        };
        let scope = behaviour.needs_scope.filter(|scope| !issued.scopes.contains(scope));
        match (body["method"].as_str().unwrap_or_default(), scope) {
            ("initialize", _) => answer(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"},
            })),
            ("tools/list", _) => answer(json!({"tools": [
                {"name": "pay", "description": "Pays.", "inputSchema": {"type": "object"}},
            ]})),
            ("tools/call", Some(scope)) => {
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                Reply::full(403, &[("www-authenticate", &challenge)], "")
            }
            ("tools/call", None) => {
                self.called.fetch_add(1, Ordering::SeqCst);
                answer(json!({"content": [{"type": "text", "text": "paid"}]}))
            }
            ("server/discover", _) => Reply::full(404, &[], ""),
            ("", _) => Reply::full(405, &[], ""),
            _ => Reply::full(202, &[], ""),
        }
    }
}

/// The challenge of a verifier (RFC 7636), computed with a tool of its own.
fn challenge_of(verifier: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(verifier))
}
