//! Requests to the collector.

use crate::otlp::ExportResponse;
use crate::settings::{Compression, Endpoint};
use bytes::Bytes;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use prost::Message;
use std::fmt;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use weftwork_types::port::{
    Clock, Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects,
};

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Waits between the tries of a request.
const WAITS_S: [u64; 5] = [1, 2, 4, 8, 16];
/// Longest wait that a collector can ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Sends requests to a collector.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) egress: Arc<dyn Egress>,
    pub(crate) clock: Arc<dyn Clock>,
    /// `true` once the process shuts down: requests are tried once.
    pub(crate) closing: watch::Receiver<bool>,
}

/// A request that the collector did not take. The text of its answer is not read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A status that is no success.
    Status {
        status: u16,
        /// Time after which it may be tried again.
        wait: Option<Duration>,
    },
    /// No answer in time.
    Late,
    /// The request was not sent, or its answer did not arrive.
    Broken(EgressError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, .. } => write!(f, "it answers with the status {status}"),
            Self::Late => f.write_str("it does not answer in time"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Returns `true` if the request may succeed later.
    ///
    /// Source: OTLP 1.7, "Failures" of OTLP/HTTP.
    fn is_retriable(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 429 | 502..=504),
            Self::Late => true,
            Self::Broken(error) => error.is_retriable(),
        }
    }
}

/// Number of tries of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tries {
    /// A single one.
    Once,
    /// Several, until the collector takes it.
    Repeated,
}

impl Sender {
    /// Sends a message; returns the number of its items that the collector refused.
    pub(crate) async fn send(
        &self,
        endpoint: &Endpoint,
        message: &impl Message,
        tries: Tries,
    ) -> Result<u64, Failure> {
        let body = encode(message, endpoint.compression);
        let waits = if tries == Tries::Once { &[][..] } else { &WAITS_S[..] };
        for wait in waits.iter().copied().map(Duration::from_secs) {
            let failure = match self.try_send(endpoint, &body).await {
                Err(failure) if failure.is_retriable() && !*self.closing.borrow() => failure,
                sent => return sent,
            };
            // At most twice the time, so that processes do not return at once.
            let jitter = u32::try_from(self.clock.unique() % 1_000).unwrap_or_default();
            let usual = wait + wait * jitter / 1_000;
            let wait = match failure {
                Failure::Status { wait: Some(wait), .. } => wait.max(usual).min(WAIT_MAX),
                _ => usual,
            };
            self.pause(wait).await;
        }
        self.try_send(endpoint, &body).await
    }

    /// Waits, at most until the process shuts down.
    async fn pause(&self, wait: Duration) {
        let mut closing = self.closing.clone();
        let closed = pin!(closing.wait_for(|closing| *closing));
        drop(select(self.clock.sleep(wait), closed).await);
    }

    async fn try_send(&self, endpoint: &Endpoint, body: &Bytes) -> Result<u64, Failure> {
        let sent = pin!(self.exchange(endpoint, body.clone()));
        match select(sent, self.clock.sleep(endpoint.timeout)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(Failure::Late),
        }
    }

    async fn exchange(&self, endpoint: &Endpoint, body: Bytes) -> Result<u64, Failure> {
        let mut request = EgressRequest::new(Method::Post, endpoint.url.as_str());
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        request.headers.push(header("content-type", "application/x-protobuf"));
        if endpoint.compression == Compression::Gzip {
            request.headers.push(header("content-encoding", "gzip"));
        }
        request.headers.extend(endpoint.headers.iter().cloned());
        request.body = body;
        request.body_max = Some(ANSWER_BYTES_MAX);
        request.head_timeout = endpoint.timeout;
        request.idle_timeout = endpoint.timeout;
        // The headers may have a key of the collector.
        request.redirects = Redirects::Return;
        let response = self.egress.send(request).await.map_err(Failure::Broken)?;
        if !(200..300).contains(&response.status) {
            return Err(Failure::Status { status: response.status, wait: self.wait_of(&response) });
        }
        Ok(read_rejected(response).await)
    }

    /// Returns the wait that an answer asks for: seconds, or a date.
    fn wait_of(&self, response: &EgressResponse) -> Option<Duration> {
        let text = response.header("retry-after")?;
        if let Ok(seconds) = text.trim().parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = httpdate::parse_http_date(text).ok()?;
        let now = u64::try_from(self.clock.now().0).ok()?;
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now);
        Some(until.duration_since(now).unwrap_or(Duration::ZERO))
    }
}

/// Reads how many items a collector refused of a request that it took. An answer that is none, or too
/// long, says nothing of it.
async fn read_rejected(response: EgressResponse) -> u64 {
    let mut body = response.body;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let Ok(chunk) = chunk else { return 0 };
        bytes.extend_from_slice(&chunk);
    }
    let answer = ExportResponse::decode(&*bytes).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |part| part.rejected);
    u64::try_from(rejected).unwrap_or_default()
}

fn encode(message: &impl Message, compression: Compression) -> Bytes {
    let bytes = message.encode_to_vec();
    match compression {
        Compression::None => bytes.into(),
        Compression::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            // Writing to memory does not fail.
            let written = gzip.write_all(&bytes).and_then(|()| gzip.finish());
            written.unwrap_or_default().into()
        }
    }
}
