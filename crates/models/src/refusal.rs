//! Meanings of providers' refusals.
//!
//! Providers report the same problem with different statuses, codes and texts. The rules that read
//! them are data (`refusals.toml`), and so are the documented bodies that the tests check them with.

use crate::{Capability, ModelError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;
use weftwork_types::port::EgressResponse;

const RULES: &str = include_str!("../refusals.toml");

/// Places of the message in an error object.
const MESSAGES: [&str; 8] = [
    "/message",
    "/detail",
    "/error",
    "/msg",
    "/error_msg",
    "/base_resp/status_msg",
    "/errors/0/message",
    "/errors",
];

/// Maximum depth at which the members of an error are read.
const DEPTH_MAX: u8 = 6;

/// The meaning of a provider's refusal: what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// The rate of requests or tokens is limited: wait.
    RateLimit,
    /// The quota or the credit of the account is used up: waiting does not help.
    QuotaExhausted,
    /// The provider did not finish in time: try again.
    Timeout,
    /// The provider has more requests than it can serve: wait.
    Overloaded,
    /// The provider or a server before it failed: try again.
    Unavailable,
    /// The key is missing, invalid or lacks a permission.
    Auth,
    /// The request is longer than the model or the account allows: shorten it.
    ContextLength,
    /// The content filter refused the request: change its content.
    ContentFilter,
    /// The model does not exist for this account.
    NotFound,
    /// The request is invalid.
    InvalidRequest,
}

impl RefusalKind {
    /// Returns the name of the kind, as in stored faults.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Timeout => "timeout",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Auth => "auth",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
        }
    }

    /// Returns `true` if the same request may succeed later.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Timeout | Self::Overloaded | Self::Unavailable)
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A provider's refusal as it was read.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    pub(crate) status: u16,
    /// The provider's message, as sent.
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// Reads a response with an error status. `None` if the status is neither an error nor a
    /// success.
    pub(crate) fn of_response(response: &EgressResponse, body: &[u8]) -> Option<Self> {
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let object = json.as_ref().map(unwrapped);
        let mut fields = object.map(ErrorFields::of).unwrap_or_default();
        fields.read_quoted(object);
        if let Some(kind) = response.header("x-amzn-errortype") {
            fields.add_word(kind);
        }
        let text = || String::from_utf8_lossy(body).into_owned();
        // A body that is not JSON is the page of a proxy.
        let spoken = object.map_or_else(text, spoken);
        let kind = kind(response.status, &fields, &spoken)?;
        let message = object.and_then(message).unwrap_or_else(text);
        let retry_after =
            retry_delay(response).or(fields.wait).or_else(|| told_delay(kind, &message));
        Some(Self { kind, status: response.status, message, retry_after })
    }

    /// Reads an error object in a stream, or in a body with a success status.
    pub(crate) fn of_object(status: u16, object: &Value) -> Option<Self> {
        let object = unwrapped(object);
        let mut fields = ErrorFields::of(object);
        fields.read_quoted(Some(object));
        let status = fields.status.unwrap_or(status);
        let kind = kind(status, &fields, &spoken(object))?;
        let message = message(object).unwrap_or_else(|| object.to_string());
        let retry_after = fields.wait.or_else(|| told_delay(kind, &message));
        Some(Self { kind, status, message, retry_after })
    }
}

/// The parts of an error object that rules read.
#[derive(Debug, Default)]
struct ErrorFields {
    words: Vec<String>,
    status: Option<u16>,
    wait: Option<Duration>,
}

impl ErrorFields {
    fn of(object: &Value) -> Self {
        let mut fields = Self::default();
        fields.read(object, DEPTH_MAX);
        fields
    }

    /// Adds the error of the provider behind a gateway that has it as JSON within its message, such as
    /// litellm. Other JSON there may be the request.
    fn read_quoted(&mut self, object: Option<&Value>) {
        let message = object.map(spoken).unwrap_or_default();
        let Some(at) = message.find("{\"error\"") else { return };
        let mut values = serde_json::Deserializer::from_str(&message[at..]).into_iter::<Value>();
        if let Some(Ok(quoted)) = values.next() {
            let quoted = Self::of(&quoted);
            self.words.extend(quoted.words);
            self.wait = self.wait.or(quoted.wait);
        }
    }

    fn read(&mut self, value: &Value, depth: u8) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(name, value)| self.read_member(name, value, depth))
            }
            Value::Array(items) => items.iter().for_each(|item| self.read(item, depth)),
            _ => {}
        }
    }

    fn read_member(&mut self, name: &str, value: &Value, depth: u8) {
        match (name, value) {
            ("code" | "type" | "status" | "reason" | "quotaId" | "__type", Value::String(text)) => {
                self.add_word(text);
                self.add_status(text.parse().ok());
            }
            ("code" | "status", Value::Number(number)) => self.add_status(number.as_u64()),
            // What the model had written, which the provider refused: Groq.
            ("failed_generation", _) => self.add_word(name),
            ("retryDelay", Value::String(text)) => {
                let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
                self.wait = seconds.and_then(delay_of_seconds);
            }
            // The request itself, as validators repeat it.
            ("input", _) => {}
            (_, value) => self.read(value, depth),
        }
    }

    fn add_word(&mut self, text: &str) {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        self.words.push(text.chars().map(letter).collect());
    }

    fn add_status(&mut self, code: Option<u64>) {
        let code = code.and_then(|code| u16::try_from(code).ok());
        self.status = self.status.or(code.filter(|code| (400..600).contains(code)));
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    kind: RefusalKind,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    phrases: Vec<String>,
    #[serde(default)]
    statuses: Vec<u16>,
}

/// Phrases with which providers refuse media that a model does not take.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaRule {
    lacks: Vec<Capability>,
    phrases: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Rules {
    rule: Vec<Rule>,
    media: Vec<MediaRule>,
}

#[expect(clippy::expect_used, reason = "the table is part of the program, and a test reads it")]
static TABLE: LazyLock<Rules> =
    LazyLock::new(|| toml::from_str(RULES).expect("the built-in table is valid"));

/// Returns the kinds of media that a provider refused because the model does not take them.
pub(crate) fn refused_media(error: &ModelError) -> Vec<Capability> {
    let (ModelError::BadRequest { message, .. } | ModelError::Provider { message, .. }) = error
    else {
        return Vec::new();
    };
    let message = message.to_lowercase();
    let is_said = |phrase: &String| message.contains(phrase.as_str());
    let rules = TABLE.media.iter().filter(|rule| rule.phrases.iter().any(is_said));
    rules.flat_map(|rule| rule.lacks.iter().copied()).collect()
}

/// The meaning of a status with its error object. `None` for a status that is no answer.
fn kind(status: u16, fields: &ErrorFields, spoken: &str) -> Option<RefusalKind> {
    let rules = &TABLE.rule;
    let text = spoken.to_lowercase();
    let begins = |word: &String| fields.words.iter().any(|field| field.starts_with(word.as_str()));
    let is_said = |phrase: &String| {
        text.contains(phrase.as_str())
            || fields.words.iter().any(|field| field.contains(phrase.as_str()))
    };
    let by_field = rules.iter().find(|rule| {
        rule.words.iter().any(begins)
            || may_be_said(rule.kind, status) && rule.phrases.iter().any(is_said)
    });
    let by_status = || rules.iter().find(|rule| rule.statuses.contains(&status));
    match (by_field.or_else(by_status), status) {
        (Some(rule), 200..300 | 400..) => Some(rule.kind),
        (None, 400..500) => Some(RefusalKind::InvalidRequest),
        (None, 200..300 | 500..) => Some(RefusalKind::Unavailable),
        _ => None,
    }
}

/// Returns `false` for a kind that contradicts the class of the status, so that no phrase of a
/// message selects it: a server that failed did not judge the request, and an invalid request
/// stays invalid.
fn may_be_said(kind: RefusalKind, status: u16) -> bool {
    use RefusalKind::{Auth, InvalidRequest, NotFound, Overloaded, Timeout, Unavailable};
    match status {
        400 | 422 => !matches!(kind, Timeout | Overloaded | Unavailable),
        500.. => !matches!(kind, NotFound | InvalidRequest | Auth),
        _ => true,
    }
}

/// The error object: some servers send a list with one.
fn unwrapped(json: &Value) -> &Value {
    match json {
        Value::Array(items) => items.first().unwrap_or(json),
        json => json,
    }
}

/// The error message, in any of the places where servers put it.
fn message(json: &Value) -> Option<String> {
    let found = message_value(json)?;
    let said = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    // The words of the provider behind a gateway, such as OpenRouter.
    let raw = ["/error/metadata/raw", "/metadata/raw"].iter().find_map(|path| json.pointer(path));
    let raw = raw.map(|raw| raw.as_str().map_or_else(|| raw.to_string(), str::to_owned));
    Some(match raw.filter(|raw| !said.contains(raw.as_str())) {
        Some(raw) => format!("{said}: {raw}"),
        None => said,
    })
}

fn message_value(json: &Value) -> Option<&Value> {
    let inner = json.get("error").filter(|error| !error.is_null()).unwrap_or(json);
    match inner {
        Value::String(_) => Some(inner),
        other => MESSAGES.iter().find_map(|path| {
            let found = other.pointer(path)?;
            (!found.is_null() && found != "").then_some(found)
        }),
    }
}

/// The words of the server: a message that is a text, or the members `msg` of a list. Other members
/// may repeat the request.
fn spoken(json: &Value) -> String {
    match message_value(json) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let texts = items.iter().filter_map(|item| item.get("msg")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The delay that the message of a limit names, as in "Please try again in 1m2.5s" (OpenAI, Groq).
fn told_delay(kind: RefusalKind, message: &str) -> Option<Duration> {
    if kind != RefusalKind::RateLimit {
        return None;
    }
    let message = message.to_lowercase();
    let begins = ["try again in ", "retry in ", "retry after ", "wait "];
    let mut rest = begins.iter().find_map(|begin| Some(message.split_once(begin)?.1))?;
    let mut seconds = 0.0;
    let mut has_part = false;
    loop {
        rest = rest.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        seconds += number * unit;
        has_part = true;
        rest = &after[letters..];
    }
    has_part.then(|| delay_of_seconds(seconds))?
}

/// Longest delay that is read, as faults report it in milliseconds.
const DELAY_MAX: Duration = Duration::from_millis(u64::MAX);

/// Returns a delay of seconds, at most the longest one: a number that no duration has is a wait
/// that is too long for every call, and the call must not be repeated at once. `None` for a number
/// that is no delay, such as a negative one.
fn delay_of_seconds(seconds: f64) -> Option<Duration> {
    let is_delay = seconds >= 0.0;
    is_delay.then(|| Duration::try_from_secs_f64(seconds).map_or(DELAY_MAX, |d| d.min(DELAY_MAX)))
}

/// Returns the delay that a server asks for. A date is relative to the response's own date, so that the
/// clocks need not agree.
#[must_use]
pub fn retry_delay(response: &EgressResponse) -> Option<Duration> {
    if let Some(ms) = response.header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return delay_of_seconds(ms / 1000.0);
    }
    let text = response.header("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return delay_of_seconds(seconds);
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let from = httpdate::parse_http_date(response.header("date")?).ok()?;
    Some(until.duration_since(from).unwrap_or(Duration::ZERO))
}
