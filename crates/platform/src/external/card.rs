//! Cards of agents of other servers: fetched, verified, and kept as long as their server says.

use super::error::{FailedAttempt, PeerError, shorten};
use super::peer::{Answered, Peer, PeerRequest, Reading, Repetition, Verdict};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use url::Url;
use weftwork_a2a_wire::{AgentInterface, VERSION};
use weftwork_types::port::{Clock, EgressError, Method};

/// Place of the card below the address of a server.
const CARD: &str = "/.well-known/agent-card.json";
/// Longest card in bytes.
const CARD_BYTES_MAX: u64 = 256 << 10;
/// Most addresses that a card may have.
const INTERFACES_MAX: usize = 32;
/// Time for which a card is used whose server does not say how long it is valid.
const MAX_AGE: Duration = Duration::from_secs(300);
/// Longest time for which a card is used without another request.
const MAX_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A binding of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    Rest,
}

impl Binding {
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "JSONRPC" => Some(Self::JsonRpc),
            "HTTP+JSON" => Some(Self::Rest),
            _ => None,
        }
    }
}

/// The address at which an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) url: Url,
    pub(super) binding: Binding,
    pub(super) tenant: String,
    pub(super) streams: bool,
    /// Name of the agent, for texts.
    pub(super) name: Option<String>,
}

/// A card that was checked.
#[derive(Debug, Clone)]
pub(crate) struct KnownCard {
    interface: Arc<Interface>,
    etag: Option<String>,
    /// Time until which it is used without a request.
    fresh_until: Duration,
}

/// The members of a card that are read. Servers leave out those with usual values.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    #[serde(default)]
    name: String,
    #[serde(default)]
    supported_interfaces: Vec<Value>,
    #[serde(default)]
    capabilities: Capabilities,
    /// Version of the protocol in cards of earlier versions.
    #[serde(default)]
    protocol_version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    streaming: bool,
}

impl Peer {
    /// Returns the address of the agent, as its card has it.
    pub(super) async fn interface(
        &self,
        clock: &dyn Clock,
    ) -> Result<Arc<Interface>, FailedAttempt> {
        let known = self.card.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.as_ref().filter(|known| clock.elapsed() < known.fresh_until) {
            return Ok(Arc::clone(&known.interface));
        }
        let mut headers = vec![("accept", "application/json".to_owned())];
        headers
            .extend(known.as_ref().and_then(|known| Some(("if-none-match", known.etag.clone()?))));
        let request = PeerRequest {
            method: Method::Get,
            url: self.card_url(),
            headers,
            body: Bytes::new(),
            reading: Reading::Whole { bytes_max: CARD_BYTES_MAX },
            repetition: Repetition::Harmless,
            verdict: Verdict::Status,
        };
        let answered = self.fetch(&request, clock).await.map_err(|failed| match failed.error {
            PeerError::Network { source: EgressError::TooLong { .. }, .. } => {
                let reason = format!("it is longer than {CARD_BYTES_MAX} bytes");
                self.bad_card(reason).into()
            }
            _ => failed,
        })?;
        let interface = match (answered.status, known) {
            (304, Some(known)) => known.interface,
            (304, None) => return Err(self.bad_card("status 304, and none is known").into()),
            _ => Arc::new(self.read_card(&answered)?),
        };
        let etag = answered.header("etag").filter(|tag| tag.len() <= 200).map(str::to_owned);
        let fresh_until = clock.elapsed().saturating_add(max_age(&answered));
        let card = KnownCard { interface: Arc::clone(&interface), etag, fresh_until };
        *self.card.lock().unwrap_or_else(PoisonError::into_inner) = Some(card);
        Ok(interface)
    }

    /// Address of the card: that of the definition, or the usual one below it.
    fn card_url(&self) -> Url {
        let mut url = self.endpoint.clone();
        if !url.path().ends_with(".json") {
            let path = format!("{}{CARD}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        url
    }

    fn bad_card(&self, reason: impl Into<String>) -> PeerError {
        PeerError::Card { peer: self.name(), reason: reason.into() }
    }

    fn read_card(&self, answered: &Answered) -> Result<Interface, PeerError> {
        let value = answered.json().map_err(|reason| self.bad_card(reason))?;
        // Before anything of it is believed.
        if let Some(verifier) = &self.verifier
            && !verifier.verifies(&value)
        {
            let reason = match value.get("signatures").and_then(Value::as_array) {
                Some(of) if !of.is_empty() => "no key of `card_keys` has signed it",
                _ => "it has no signature, and the definition has `card_keys`",
            };
            return Err(self.bad_card(reason));
        }
        let card = Card::deserialize(&value);
        let card = card.map_err(|error| self.bad_card(shorten(&error.to_string())))?;
        self.choose(&card)
    }

    /// Chooses the first address that the agent can be asked at.
    fn choose(&self, card: &Card) -> Result<Interface, PeerError> {
        let all = &card.supported_interfaces;
        if all.len() > INTERFACES_MAX {
            let reason =
                format!("it has {} addresses; expected at most {INTERFACES_MAX}", all.len());
            return Err(self.bad_card(reason));
        }
        let mut versions = Vec::new();
        let mut elsewhere = None;
        for one in all {
            let Ok(one) = AgentInterface::deserialize(one) else { continue };
            let Some(binding) = Binding::of_name(&one.protocol_binding) else { continue };
            if one.protocol_version != VERSION {
                versions.push(shorten(&one.protocol_version));
                continue;
            }
            let Ok(url) = Url::parse(&one.url) else { continue };
            if url.origin() != self.endpoint.origin() || has_login(&url) {
                elsewhere.get_or_insert(url.origin().ascii_serialization());
                continue;
            }
            let streams = card.capabilities.streaming;
            let name = Some(shorten(&card.name)).filter(|name| !name.is_empty());
            return Ok(Interface { url, binding, tenant: one.tenant, streams, name });
        }
        if let Some(other) = elsewhere {
            return Err(self.bad_card(format!(
                "its address is at another server, {other}; credentials and requests go to that of the definition alone"
            )));
        }
        versions.extend(card.protocol_version.as_deref().filter(|_| all.is_empty()).map(shorten));
        Err(self.bad_card(match versions.first() {
            Some(version) => {
                format!("it has version {version} of the protocol; expected {VERSION}")
            }
            None => "it has no address with the binding JSONRPC or HTTP+JSON".to_owned(),
        }))
    }
}

fn has_login(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the time for which a card is valid.
fn max_age(answered: &Answered) -> Duration {
    let Some(header) = answered.header("cache-control") else { return MAX_AGE };
    let mut parts = header.split(',').map(|part| part.trim().to_ascii_lowercase());
    if parts.clone().any(|part| part == "no-store" || part == "no-cache") {
        return Duration::ZERO;
    }
    let seconds = parts.find_map(|part| part.strip_prefix("max-age=")?.parse().ok());
    seconds.map_or(MAX_AGE, Duration::from_secs).min(MAX_AGE_MAX)
}
