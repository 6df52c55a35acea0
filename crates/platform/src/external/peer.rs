//! Servers of other programs: requests to them, within the breaker, with the credentials of the definition.

use super::breaker::{Admission, Breaker, BreakerRules, Permit};
use super::card::KnownCard;
use super::error::{FailedAttempt, PeerError, shorten};
use crate::api::{Credentials, Signed, without, without_secrets};
use crate::definition::{ExternalTransport, parse_duration};
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use url::Url;
use weftwork_a2a_wire::CardVerifier;
use weftwork_models::retry_delay;
use weftwork_types::port::{
    Clock, Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects,
};

/// Usual time limit until a request is answered.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the answer to a check of the health.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer to a check of the health that is read, in bytes.
const HEALTH_BYTES_MAX: u64 = 64 << 10;
/// Time without a byte after which a stream is opened again.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Usual number of repetitions of a request that may be repeated.
const RETRIES: u32 = 2;
/// First delay before a repetition; each further one is twice as long.
const DELAY: Duration = Duration::from_millis(500);
/// Longest delay before a repetition. A server that asks for more is not asked again.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Usual number of failures, one after the other, that open the breaker.
const FAILURES: u32 = 5;
/// Usual time for which it is open.
const INTERVAL: Duration = Duration::from_secs(30);
/// Longest answer that is read whole, in bytes.
pub(super) const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// An agent of another server.
pub(crate) struct Peer {
    pub(super) slug: String,
    pub(super) endpoint: Url,
    pub(super) transport: ExternalTransport,
    pub(super) verifier: Option<CardVerifier>,
    pub(super) card: Mutex<Option<KnownCard>>,
    credentials: Option<Credentials>,
    egress: Arc<dyn Egress>,
    breaker: Arc<Breaker>,
}

/// Services of an agent of another server.
pub(crate) struct PeerServices {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) egress: Arc<dyn Egress>,
    pub(crate) breaker: Arc<Breaker>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("slug", &self.slug).finish_non_exhaustive()
    }
}

/// A request to the server of an agent.
#[derive(Debug, Clone)]
pub(super) struct PeerRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    pub(super) reading: Reading,
    pub(super) repetition: Repetition,
    pub(super) verdict: Verdict,
}

/// The part of an answer by which it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The status.
    Status,
    /// A body with the member `success`, or else the status.
    Body,
}

/// The way in which an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Whole, up to a number of bytes.
    Whole { bytes_max: u64 },
    /// As a stream of events.
    Stream,
}

impl Reading {
    /// Whole, as long as an answer may be.
    pub(super) const WHOLE: Self = Self::Whole { bytes_max: ANSWER_BYTES_MAX };
}

/// The repetitions that a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    /// It changes nothing, or the server recognises it.
    Harmless,
    /// It is repeated only if the server did nothing.
    IfUndone,
}

/// An answer whose body is still to be read, with the secrets that it must not repeat.
pub(super) struct Opened {
    pub(super) response: EgressResponse,
    pub(super) secrets: Vec<String>,
}

/// An answer.
pub(super) struct Answered {
    pub(super) status: u16,
    /// Headers with lower-case names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) bytes: Vec<u8>,
    pub(super) secrets: Vec<String>,
}

impl Answered {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON, without secrets.
    pub(super) fn json(&self) -> Result<Value, String> {
        let read = serde_json::from_slice(&self.bytes);
        let value = read.map_err(|error| format!("it is no JSON ({error})"))?;
        Ok(without_secrets(value, &self.secrets))
    }

    fn has_verdict(&self) -> bool {
        self.json().is_ok_and(|value| value["success"].is_boolean())
    }

    /// Returns the answer as it was before it was read.
    fn reopened(self) -> Opened {
        let Self { status, headers, bytes, secrets } = self;
        let body = Box::pin(stream::iter([Ok(Bytes::from(bytes))]));
        Opened { response: EgressResponse { status, headers, body }, secrets }
    }

    /// Returns the beginning of the body for an error.
    pub(super) fn beginning(&self) -> String {
        shorten(&without(String::from_utf8_lossy(&self.bytes).into_owned(), &self.secrets))
    }
}

impl Peer {
    /// Creates the agent of a definition. `None` if the address is none, which reading the definition has
    /// refused.
    pub(crate) fn new(
        slug: &str,
        transport: &ExternalTransport,
        services: PeerServices,
    ) -> Option<Self> {
        let PeerServices { credentials, egress, breaker } = services;
        let keys: Vec<_> = transport.card_keys.iter().cloned().map(Value::Object).collect();
        let verifier = match keys.as_slice() {
            [] => None,
            keys => Some(CardVerifier::new(keys).ok()?),
        };
        Some(Self {
            slug: slug.to_owned(),
            endpoint: Url::parse(&transport.endpoint).ok()?,
            transport: transport.clone(),
            verifier,
            card: Mutex::default(),
            credentials,
            egress,
            breaker,
        })
    }

    /// Address of the server, for texts.
    pub(crate) fn name(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }

    fn rules(&self) -> BreakerRules {
        let health = self.transport.health_check.as_ref();
        let thresholds = health.and_then(|health| health.thresholds.as_ref());
        let interval = health.and_then(|health| health.interval.as_deref());
        BreakerRules {
            failures: thresholds.and_then(|of| of.failures).unwrap_or(FAILURES),
            successes: thresholds.and_then(|of| of.successes).unwrap_or(1),
            interval: interval.and_then(parse_duration).unwrap_or(INTERVAL),
            has_check: health.is_some(),
        }
    }

    pub(super) fn invalid(&self, what: &'static str, reason: impl Into<String>) -> PeerError {
        PeerError::Invalid { peer: self.name(), what, reason: reason.into() }
    }

    pub(super) fn failed(&self, what: impl Into<String>, text: &str) -> PeerError {
        let what = what.into();
        PeerError::Failed { peer: self.name(), what, text: shorten(text), retriable: false }
    }

    /// Sends a request, and repeats it as often as it may be. The answer has a status of success.
    pub(super) async fn send(
        &self,
        request: &PeerRequest,
        clock: &dyn Clock,
    ) -> Result<Opened, FailedAttempt> {
        let retries = self.transport.retries.unwrap_or(RETRIES);
        let mut delay = DELAY;
        let mut repeated = 0;
        let mut earlier = None;
        loop {
            let failed = match self.attempt(request, clock).await {
                Ok(opened) => return Ok(opened),
                Err(failed) => failed.after_attempt(earlier.take()),
            };
            let is_harmless = request.repetition == Repetition::Harmless;
            let wait = failed.again.filter(|_| is_harmless || !failed.may_have_acted);
            let wait = wait.map(|asked| asked.max(delay)).filter(|wait| *wait <= DELAY_MAX);
            let Some(wait) = wait.filter(|_| repeated < retries) else { return Err(failed) };
            earlier = failed.may_have_acted.then_some(failed);
            clock.sleep(wait).await;
            delay = (delay * 2).min(DELAY_MAX);
            repeated += 1;
        }
    }

    /// Sends a request, and reads the whole answer.
    pub(super) async fn fetch(
        &self,
        request: &PeerRequest,
        clock: &dyn Clock,
    ) -> Result<Answered, FailedAttempt> {
        let opened = self.send(request, clock).await?;
        self.read(opened, request.reading, clock).await
    }

    /// Makes one attempt, if the breaker admits it.
    async fn attempt(
        &self,
        request: &PeerRequest,
        clock: &dyn Clock,
    ) -> Result<Opened, FailedAttempt> {
        if request.url.origin() != self.endpoint.origin() {
            let reason =
                format!("it names another server, {}", request.url.origin().ascii_serialization());
            return Err(PeerError::Card { peer: self.name(), reason }.into());
        }
        let permit = self.admit(clock).await?;
        let mut opened = self.open(request, clock).await;
        let is_refused = matches!(&opened, Ok(of) if of.response.status == 401);
        if is_refused && self.credentials.as_ref().is_some_and(Credentials::forget_token) {
            // The token has ended before its time. The request was refused, and not done.
            opened = self.open(request, clock).await;
        }
        let mut is_answer = false;
        if let Ok(found) = opened {
            (opened, is_answer) = match request.verdict {
                Verdict::Body if !is_success(found.response.status) => {
                    let read = self.read(found, request.reading, clock).await;
                    let is_answer = read.as_ref().is_ok_and(Answered::has_verdict);
                    (read.map(Answered::reopened), is_answer)
                }
                _ => (Ok(found), false),
            };
        }
        match &opened {
            Ok(_) if is_answer => permit.succeed(clock.elapsed()),
            Ok(opened) if is_sick(opened.response.status) => permit.fail(clock.elapsed()),
            Ok(_) => permit.succeed(clock.elapsed()),
            Err(failed) => match &failed.error {
                PeerError::Network { source, .. } if source.is_retriable() => {
                    permit.fail(clock.elapsed());
                }
                // The request has not left this machine.
                _ => drop(permit),
            },
        }
        let opened = opened?;
        match opened.response.status {
            status if is_answer || is_success(status) => Ok(opened),
            status => Err(self.refusal(status, opened, request, clock).await),
        }
    }

    /// Asks the breaker, after a check of the health if it needs one.
    async fn admit(&self, clock: &dyn Clock) -> Result<Permit, FailedAttempt> {
        let rules = self.rules();
        loop {
            match self.breaker.admit(rules, clock.elapsed()) {
                Admission::Granted(permit) => return Ok(permit),
                Admission::Refused { wait } => {
                    return Err(PeerError::OutOfService { peer: self.name(), wait }.into());
                }
                Admission::Check(permit) => match self.check_health(clock).await {
                    Ok(()) => permit.succeed(clock.elapsed()),
                    Err(reason) => {
                        permit.fail(clock.elapsed());
                        return Err(PeerError::Unhealthy { peer: self.name(), reason }.into());
                    }
                },
            }
        }
    }

    /// Asks the server for its health. The error is the reason why it is not healthy.
    pub(crate) async fn check_health(&self, clock: &dyn Clock) -> Result<(), String> {
        let Some(health) = &self.transport.health_check else { return Ok(()) };
        let url = self.endpoint.join(&health.endpoint).map_err(|error| error.to_string())?;
        if url.origin() != self.endpoint.origin() {
            return Err("the address of the check is that of another server".to_owned());
        }
        let mut request = EgressRequest::new(Method::Get, url.as_str());
        request.headers = vec![("accept".to_owned(), "application/json, */*;q=0.5".to_owned())];
        request.head_timeout = HEALTH_TIMEOUT;
        request.idle_timeout = HEALTH_TIMEOUT;
        request.body_max = Some(HEALTH_BYTES_MAX);
        request.redirects = Redirects::Return;
        // Health is open to all: the check has no credentials.
        match within(HEALTH_TIMEOUT, self.egress.send(request), clock).await {
            Some(Ok(response)) if (200..300).contains(&response.status) => Ok(()),
            Some(Ok(response)) => Err(format!("status {}", response.status)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err(format!("no answer within {} ms", HEALTH_TIMEOUT.as_millis())),
        }
    }

    async fn open(
        &self,
        request: &PeerRequest,
        clock: &dyn Clock,
    ) -> Result<Opened, FailedAttempt> {
        let signed = match &self.credentials {
            None => Signed::default(),
            Some(credentials) => {
                let signed = credentials.sign(&request.body, &*self.egress, clock).await;
                signed.map_err(PeerError::Credentials)?
            }
        };
        let Signed { headers, secrets } = signed;
        let mut sent = EgressRequest::new(request.method, request.url.as_str());
        let own = request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        sent.headers = own.chain(headers).collect();
        sent.body = request.body.clone();
        sent.redirects = Redirects::Return;
        sent.head_timeout = self.limit();
        (sent.body_max, sent.idle_timeout) = match request.reading {
            Reading::Whole { bytes_max } => (Some(bytes_max), self.limit()),
            Reading::Stream => (None, SILENCE_MAX),
        };
        let response = within(self.limit(), self.egress.send(sent), clock).await;
        match response.unwrap_or_else(|| Err(self.too_late())) {
            Ok(response) => Ok(Opened { response, secrets }),
            Err(error) => Err(self.network(error, &secrets)),
        }
    }

    /// Returns a value without the secrets of requests.
    pub(super) async fn without_secrets(&self, value: Value, clock: &dyn Clock) -> Value {
        let Some(credentials) = &self.credentials else { return value };
        match credentials.sign(&[], &*self.egress, clock).await {
            Ok(Signed { secrets, .. }) => without_secrets(value, &secrets),
            // Then no request had any.
            Err(_) => value,
        }
    }

    /// Reads an answer whole.
    pub(super) async fn read(
        &self,
        opened: Opened,
        reading: Reading,
        clock: &dyn Clock,
    ) -> Result<Answered, FailedAttempt> {
        let Opened { mut response, secrets } = opened;
        let bytes_max = match reading {
            Reading::Whole { bytes_max } => bytes_max,
            Reading::Stream => ANSWER_BYTES_MAX,
        };
        let read = async {
            let mut bytes = Vec::new();
            while let Some(part) = response.body.next().await {
                bytes.extend_from_slice(&part?);
                if bytes.len() as u64 > bytes_max {
                    let host = self.endpoint.host_str().unwrap_or_default().to_owned();
                    return Err(EgressError::TooLong { host, limit: bytes_max });
                }
            }
            Ok(bytes)
        };
        let read = within(self.limit(), read, clock).await.unwrap_or_else(|| Err(self.too_late()));
        let bytes = read.map_err(|error| self.network(error, &secrets))?;
        Ok(Answered { status: response.status, headers: response.headers, bytes, secrets })
    }

    /// The failure of a request whose answer has no status of success.
    async fn refusal(
        &self,
        status: u16,
        opened: Opened,
        request: &PeerRequest,
        clock: &dyn Clock,
    ) -> FailedAttempt {
        let asked = retry_delay(&opened.response);
        let text = match self.read(opened, request.reading, clock).await {
            Ok(answered) => refusal_text(&answered),
            Err(_) => String::new(),
        };
        let may_pass = is_sick(status) || matches!(status, 425 | 429);
        let what = match status {
            300..400 => format!("sends elsewhere, which is not followed: status {status}"),
            _ => format!("answered with status {status}"),
        };
        let peer = self.name();
        FailedAttempt {
            error: PeerError::Failed { peer, what, text: shorten(&text), retriable: may_pass },
            // A server, or one between, that failed may have done what it was asked for.
            may_have_acted: is_sick(status),
            again: may_pass.then(|| asked.unwrap_or_default()),
        }
    }

    fn limit(&self) -> Duration {
        self.transport.timeout_ms.map_or(TIMEOUT, Duration::from_millis)
    }

    fn too_late(&self) -> EgressError {
        let host = self.endpoint.host_str().unwrap_or_default().to_owned();
        let after_ms = u64::try_from(self.limit().as_millis()).unwrap_or(u64::MAX);
        EgressError::Timeout { host, what: "answer", after_ms }
    }

    pub(super) fn network(&self, source: EgressError, secrets: &[String]) -> FailedAttempt {
        let text = without(source.to_string(), secrets);
        // A request that fails before it has left this machine has no effect.
        let was_sent = !matches!(
            source,
            EgressError::Refused { .. } | EgressError::BadUrl { .. } | EgressError::Connect { .. }
        );
        let again = source.is_retriable().then_some(Duration::ZERO);
        FailedAttempt {
            error: PeerError::Network { source, text },
            may_have_acted: was_sent,
            again,
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status) || status == 304
}

/// Returns `true` for a status of a server that failed, or of one between.
fn is_sick(status: u16) -> bool {
    matches!(status, 408 | 500 | 502 | 503 | 504)
}

/// Returns the reason in the body of a refusal: a member of an error, or the beginning of the text.
fn refusal_text(answered: &Answered) -> String {
    let value = answered.json().unwrap_or_default();
    let places = ["/error/message", "/error", "/detail", "/message"];
    let found = places.iter().find_map(|place| value.pointer(place)?.as_str());
    found.map_or_else(|| answered.beginning(), str::to_owned)
}

/// Waits for a future, at most for a time.
pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = T>,
    clock: &dyn Clock,
) -> Option<T> {
    match select(Box::pin(future), clock.sleep(limit)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
