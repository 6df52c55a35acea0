//! Discovery of the authorization server: metadata of the protected resource (RFC 9728), and of the
//! authorization server (RFC 8414 and OpenID Connect Discovery).

use super::challenge::Challenge;
use super::error::{OauthError, to_words};
use super::requests::{Answer, Requests, check_transport};
use url::Url;

/// Maximum number of authorization servers that are asked.
const ISSUERS_MAX: usize = 5;

/// The authorization server of a server.
#[derive(Debug, Clone)]
pub(crate) struct Discovered {
    /// Identifier of the server, which tokens are for.
    pub(crate) resource: String,
    /// Scopes that the server names.
    pub(crate) scopes: Vec<String>,
    pub(crate) metadata: Metadata,
}

/// Metadata of an authorization server.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) issuer: String,
    pub(crate) authorization: Option<Url>,
    pub(crate) token: Url,
    pub(crate) registration: Option<Url>,
    pub(crate) device: Option<Url>,
    pub(crate) revocation: Option<Url>,
    pub(crate) scopes: Vec<String>,
    /// Methods of client authentication at the token endpoint, if it names them.
    pub(crate) methods: Option<Vec<String>>,
    /// Methods of PKCE, if it names them.
    pub(crate) challenges: Option<Vec<String>>,
    /// `true` if each redirect to the client names the issuer (RFC 9207).
    pub(crate) names_issuer: bool,
}

/// Finds the authorization server of the server at an address. `is_refused` is `true` if the server
/// refuses requests without a token.
pub(crate) async fn discover_server(
    requests: &Requests,
    server: &Url,
    challenge: &Challenge,
    is_refused: bool,
) -> Result<Discovered, OauthError> {
    for address in resource_addresses(server, challenge) {
        let answer = requests.get(&address).await?;
        let issuers = text_list(&answer, "authorization_servers").unwrap_or_default();
        if answer.status != 200 || issuers.is_empty() {
            continue;
        }
        let resource = answer.text("resource").unwrap_or(server.as_str()).to_owned();
        check_resource(&resource, server)?;
        let scopes = text_list(&answer, "scopes_supported").unwrap_or_default();
        let metadata = first_metadata(requests, &issuers).await?;
        return Ok(Discovered { resource, scopes, metadata });
    }
    let metadata = legacy_metadata(requests, server, is_refused).await?;
    Ok(Discovered { resource: without_fragment(server), scopes: Vec::new(), metadata })
}

/// The addresses at which the metadata of a server may be, in order.
fn resource_addresses(server: &Url, challenge: &Challenge) -> Vec<Url> {
    let named = challenge.resource_metadata.as_deref();
    let named = named.and_then(|text| server.join(text).ok());
    // One behind a proxy may name an address without TLS; its usual places are tried then.
    let named = named.filter(|url| check_transport(url).is_ok());
    let name = "/.well-known/oauth-protected-resource";
    let mut all: Vec<Url> = named.into_iter().collect();
    for place in [url_at(server, &format!("{name}{}", trimmed_path(server))), url_at(server, name)]
    {
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}

/// Checks that metadata is for the server: the same origin, and a path that the server is below.
fn check_resource(resource: &str, server: &Url) -> Result<(), OauthError> {
    let is_for_it = Url::parse(resource).is_ok_and(|resource| {
        let below = trimmed_path(server).strip_prefix(trimmed_path(&resource));
        resource.origin() == server.origin()
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    match is_for_it {
        true => Ok(()),
        false => Err(OauthError::failed(format!(
            "its metadata is that of the resource `{}`, expected `{}`; a token for another resource is not sent to it",
            to_words(resource),
            without_fragment(server)
        ))),
    }
}

/// Returns the metadata of the first authorization server that has some.
async fn first_metadata(requests: &Requests, issuers: &[String]) -> Result<Metadata, OauthError> {
    let mut problem = None;
    for issuer in issuers.iter().take(ISSUERS_MAX) {
        match issuer_metadata(requests, issuer).await {
            Ok(metadata) => return Ok(metadata),
            Err(error) => problem.get_or_insert(error),
        };
    }
    Err(problem.unwrap_or_else(|| OauthError::failed("it names no authorization server")))
}

async fn issuer_metadata(requests: &Requests, issuer: &str) -> Result<Metadata, OauthError> {
    let url = Url::parse(issuer).map_err(|error| {
        OauthError::failed(format!("its authorization server `{}`: {error}", to_words(issuer)))
    })?;
    check_transport(&url)?;
    let mut first = None;
    for address in issuer_addresses(&url) {
        let answer = match requests.get(&address).await {
            Ok(answer) => answer,
            Err(error) => {
                first.get_or_insert(error);
                continue;
            }
        };
        if answer.status == 200 && answer.text("token_endpoint").is_some() {
            check_issuer(&answer, issuer)?;
            return Metadata::read(&answer, issuer);
        }
    }
    Err(first.unwrap_or_else(|| {
        OauthError::failed(format!(
            "its authorization server `{}` has no metadata",
            to_words(issuer)
        ))
    }))
}

/// The addresses at which the metadata of an issuer may be, in order.
fn issuer_addresses(issuer: &Url) -> Vec<Url> {
    let path = trimmed_path(issuer);
    let oauth = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    let mut paths = vec![format!("{oauth}{path}"), format!("{openid}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}{openid}"));
    }
    paths.iter().map(|path| url_at(issuer, path)).collect()
}

/// Metadata of another issuer could send a code to somebody else (a mix-up). A slash at the end has
/// no meaning there.
fn check_issuer(answer: &Answer, issuer: &str) -> Result<(), OauthError> {
    let found = answer.text("issuer").unwrap_or_default();
    match found.trim_end_matches('/') == issuer.trim_end_matches('/') {
        true => Ok(()),
        false => Err(OauthError::failed(format!(
            "the metadata of its authorization server is that of the issuer `{}`, expected `{}`",
            to_words(found),
            to_words(issuer)
        ))),
    }
}

/// Servers of the protocol before 2025-06-18 are their own authorization servers, with or without
/// metadata, or name another in theirs.
async fn legacy_metadata(
    requests: &Requests,
    server: &Url,
    is_refused: bool,
) -> Result<Metadata, OauthError> {
    let origin = url_at(server, "/");
    check_transport(&origin)?;
    let issuer = origin.as_str().trim_end_matches('/');
    let answer = requests.get(&url_at(server, "/.well-known/oauth-authorization-server")).await?;
    if answer.status == 200 && answer.text("token_endpoint").is_some() {
        return match check_issuer(&answer, issuer) {
            Ok(()) => Metadata::read(&answer, issuer),
            Err(_) => {
                let other = answer.text("issuer").unwrap_or_default();
                Box::pin(issuer_metadata(requests, other)).await
            }
        };
    }
    if !is_refused {
        return Err(OauthError::failed("it asks for no login: it names no authorization server"));
    }
    Ok(Metadata {
        issuer: issuer.to_owned(),
        authorization: Some(url_at(server, "/authorize")),
        token: url_at(server, "/token"),
        registration: Some(url_at(server, "/register")),
        device: None,
        revocation: None,
        scopes: Vec::new(),
        methods: None,
        challenges: None,
        names_issuer: false,
    })
}

impl Metadata {
    fn read(answer: &Answer, issuer: &str) -> Result<Self, OauthError> {
        let endpoint = |name: &str| -> Result<Option<Url>, OauthError> {
            let Some(text) = answer.text(name) else { return Ok(None) };
            let url = Url::parse(text).map_err(|error| {
                OauthError::failed(format!("`{name}` of its authorization server: {error}"))
            })?;
            check_transport(&url)?;
            Ok(Some(url))
        };
        let token = endpoint("token_endpoint")?;
        let names_issuer = answer.members.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            issuer: answer.text("issuer").unwrap_or(issuer).to_owned(),
            authorization: endpoint("authorization_endpoint")?,
            token: token.ok_or_else(|| OauthError::failed("it has no token endpoint"))?,
            registration: endpoint("registration_endpoint")?,
            device: endpoint("device_authorization_endpoint")?,
            revocation: endpoint("revocation_endpoint").unwrap_or_default(),
            scopes: text_list(answer, "scopes_supported").unwrap_or_default(),
            methods: text_list(answer, "token_endpoint_auth_methods_supported"),
            challenges: text_list(answer, "code_challenge_methods_supported"),
            names_issuer: names_issuer.is_some_and(|value| value == true),
        })
    }
}

fn text_list(answer: &Answer, name: &str) -> Option<Vec<String>> {
    let items = answer.members.get(name)?.as_array()?.iter();
    Some(items.filter_map(|item| Some(item.as_str()?.to_owned())).collect())
}

/// The path of an address without slashes at the end; empty for the root.
fn trimmed_path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

fn url_at(origin: &Url, path: &str) -> Url {
    let mut url = origin.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The identifier of a server by its address.
fn without_fragment(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.into()
}
