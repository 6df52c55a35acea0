//! Agent cards and their addresses.

use crate::content::{INPUT_MODES, OUTPUT_MODES};
use crate::wire::{
    AgentCapabilities, AgentCard, AgentInterface, AgentProvider, AgentSkill, CardKey, VERSION,
};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH, LAST_MODIFIED, VARY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use weftwork_server::address_of;
use weftwork_types::port::AgentSummary;
use weftwork_types::task::Mode;
use weftwork_types::{Right, Timestamp, canonical};

/// Time for which clients need not ask for a card again.
const MAX_AGE_SECONDS: u32 = 300;

/// Maximum number of cards whose times are kept.
const SEEN_MAX: usize = 1_000;

/// Settings of all cards of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct CardSettings {
    /// Address of the server, if it is not the one that requests name.
    pub(crate) url: Option<String>,
    pub(crate) provider: Option<AgentProvider>,
    pub(crate) key: Option<CardKey>,
    /// `true` if requests need no token.
    pub(crate) is_open: bool,
    pub(crate) seen: Seen,
}

/// The times at which this process made its cards first, by their tags.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeMap<String, Timestamp>>>);

impl Seen {
    /// Returns the time at which the card with a tag was made first.
    fn since(&self, tag: &str, now: Timestamp) -> Timestamp {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        *seen.entry(tag.to_owned()).or_insert(now)
    }
}

/// The clients that see a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Everybody.
    Public,
    /// Clients of an organisation.
    Organization,
    /// The client of the request: the extended card.
    Client,
}

impl CardSettings {
    /// Returns the address of the server: the one of the operator, or the one that a request names.
    fn origin(&self, headers: &HeaderMap) -> String {
        let given = self.url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        given.unwrap_or_else(|| address_of(headers))
    }

    /// Returns the card of an agent.
    pub(crate) fn card(
        &self,
        agent: &AgentSummary,
        audience: Audience,
        headers: &HeaderMap,
    ) -> AgentCard {
        let url = format!("{}/a2a/{}", self.origin(headers), agent.slug);
        let interface = |binding: &str| AgentInterface {
            url: url.clone(),
            protocol_binding: binding.to_owned(),
            tenant: String::new(),
            protocol_version: VERSION.to_owned(),
        };
        let (security_schemes, security_requirements) = match self.is_open {
            true => (Map::new(), Vec::new()),
            false => (schemes(), vec![requirement("bearer"), requirement("apiKey")]),
        };
        let description = match agent.description.as_str() {
            "" => agent.name.clone(),
            description => description.to_owned(),
        };
        let modes = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
        AgentCard {
            name: agent.name.clone(),
            description,
            supported_interfaces: vec![interface("JSONRPC"), interface("HTTP+JSON")],
            provider: self.provider.clone(),
            version: agent.semver.clone().unwrap_or_else(|| agent.version.clone()),
            capabilities: AgentCapabilities {
                streaming: true,
                push_notifications: true,
                extended_agent_card: true,
            },
            security_schemes,
            security_requirements,
            default_input_modes: modes(&INPUT_MODES),
            default_output_modes: modes(&OUTPUT_MODES),
            skills: agent.modes.iter().map(|mode| skill(agent, *mode, audience)).collect(),
            signatures: Vec::new(),
        }
    }

    /// Returns the response with a card, or with status 304 if the client has it.
    pub(crate) fn respond(
        &self,
        card: AgentCard,
        audience: Audience,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Response {
        let unsigned = json!(card);
        let tag = format!("\"{:.32}\"", canonical::hash(&unsigned).to_string());
        let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| matches(known, &tag));
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.sign(unsigned).to_string().into_response(),
        };
        let whose = match audience {
            Audience::Public => "public",
            Audience::Organization | Audience::Client => "private",
        };
        let age = format!("{whose}, max-age={MAX_AGE_SECONDS}");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.append(VARY, HeaderValue::from_static("Authorization, X-Api-Key"));
        headers.extend(age.parse().map(|age| (CACHE_CONTROL, age)));
        let since = self.seen.since(&tag, now);
        let since = Duration::from_millis(u64::try_from(since.0).unwrap_or(0));
        let since = httpdate::fmt_http_date(UNIX_EPOCH + since);
        headers.extend(since.parse().map(|since| (LAST_MODIFIED, since)));
        headers.extend(tag.parse().map(|tag| (ETAG, tag)));
        response
    }

    /// Signs a card if the operator has a key.
    pub(crate) fn sign(&self, mut card: Value) -> Value {
        if let Some(signature) = self.key.as_ref().and_then(|key| key.sign(&card)) {
            card["signatures"] = json!([signature]);
        }
        card
    }
}

/// Returns `true` if the header names the tag, or any.
fn matches(header: &HeaderValue, tag: &str) -> bool {
    let text = header.to_str().unwrap_or_default();
    let mut tags = text.split(',').map(|known| known.trim().trim_start_matches("W/"));
    tags.any(|known| known == tag || known == "*")
}

fn schemes() -> Map<String, Value> {
    Map::from_iter([
        ("bearer".to_owned(), json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}})),
        (
            "apiKey".to_owned(),
            json!({"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}}),
        ),
    ])
}

/// A way to authenticate, with the rights of its token. The list is not empty, because some clients drop
/// empty values before they verify a signature.
fn requirement(scheme: &str) -> Value {
    json!({"schemes": {scheme: {"list": Right::ALL.map(|right| right.to_string())}}})
}

/// The skill of an agent in a mode. The extended card has its input and output.
fn skill(agent: &AgentSummary, mode: Mode, audience: Audience) -> AgentSkill {
    let what = match mode {
        Mode::Converse => "Talks",
        Mode::Plan => "Makes and changes plans",
        Mode::Build => "Makes deliverables",
        _ => "Works",
    };
    let mut description = match agent.description.as_str() {
        "" => format!("{what}."),
        purpose => format!("{what}. {purpose}"),
    };
    if audience == Audience::Client {
        for (name, schema) in [("Input", &agent.input_schema), ("Output", &agent.output_schema)] {
            if let Some(schema) = schema {
                description.push_str(&format!("\n{name} (JSON Schema): {}", json!(schema)));
            }
        }
    }
    AgentSkill {
        id: format!("{}:{mode}", agent.slug),
        name: format!("{} ({mode})", agent.name),
        description,
        tags: vec![mode.name().to_owned(), agent.agent_type.clone()],
        examples: Vec::new(),
    }
}
