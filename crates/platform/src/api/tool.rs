//! The tool that makes the request of an API agent.

use super::body::{Encoded, encode, pairs_of};
use super::credentials::{Credentials, Secrets, Signed};
use crate::call::cut;
use crate::definition::{ApiTransport, BodyEncoding, DefinitionFolder};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use weftwork_tools::{Policy, Tool, ToolBoxErrors, ToolContext, ToolError, ToolOutput, WHOLE};
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Redirects};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
use weftwork_types::{BoxFuture, ErrorCode};

/// Longest answer of an API in bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// Longest body that becomes a result whole, in bytes.
const BODY_BYTES_MAX: usize = 640 << 10;
/// Usual time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Usual number of repetitions of a request that may be repeated.
const RETRIES: u32 = 2;
/// First delay before a repetition; each further one is twice as long.
const DELAY: Duration = Duration::from_millis(500);
/// Longest delay before a repetition. A server that asks for more is not asked again.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Most characters of the answer to a failed request in its error.
const TEXT_CHARS_MAX: usize = 300;

/// The rule for the tool of an API agent that holds if the operator has none: what only reads is allowed,
/// and a person approves the rest.
pub(crate) fn usual_policy(tool: &ApiTool) -> Result<Policy, ToolBoxErrors> {
    let rule = Policy::builder();
    match tool.spec.effect {
        Effect::ReadOnly => rule.allow(&tool.spec.name),
        _ => rule.ask_human(&tool.spec.name, "it changes something outside"),
    }
    .build()
}

/// Name of the tool of an API agent.
pub(crate) fn tool_name(slug: &str) -> String {
    format!("api/{slug}")
}

/// A request of an API.
#[derive(Debug, Clone)]
pub(crate) struct ApiTool {
    spec: ToolSpec,
    api: Arc<ApiTransport>,
    credentials: Option<Arc<Credentials>>,
    egress: Arc<dyn Egress>,
}

/// An attempt that failed.
struct Failure {
    error: ToolError,
    /// Delay after which the same request may succeed; `None` if it does not.
    again: Option<Duration>,
}

impl ApiTool {
    pub(crate) fn new(
        folder: &DefinitionFolder,
        api: &ApiTransport,
        secrets: Arc<Secrets>,
        egress: Arc<dyn Egress>,
    ) -> Self {
        let organization = folder.definition.organization.as_deref();
        let description = folder.definition.agent_card.description.clone();
        let slug = &folder.slug;
        let reads = api.only_reads();
        let spec = ToolSpec {
            name: tool_name(slug),
            description: description.unwrap_or_default(),
            parameters: json!({
                "type": "object",
                "properties": {"query": {"type": "object"}, "body": {}},
                "additionalProperties": false,
            }),
            output: Some(json!({
                "type": "object",
                "properties": {"status": {"type": "integer"}, "body": {}},
                "required": ["body"],
            })),
            effect: if reads { Effect::ReadOnly } else { Effect::ExternalSideEffect },
            // Also of an API that recognises a repeated request: a further request of the user has
            // another key.
            on_unknown: if reads { UnknownOutcome::Idempotent } else { UnknownOutcome::Ask },
            shown: Some(vec![WHOLE.to_owned()]),
            examples: Vec::new(),
        };
        let credentials = api.authentication.as_ref();
        let credentials =
            credentials.map(|of| Arc::new(Credentials::new(slug, organization, of, secrets)));
        Self { spec, api: Arc::new(api.clone()), credentials, egress }
    }

    fn limit(&self) -> Duration {
        self.api.timeout_ms.map_or(TIMEOUT, Duration::from_millis)
    }

    fn retries(&self) -> u32 {
        match self.spec.may_repeat() || self.api.idempotency_header.is_some() {
            true => self.api.retries.unwrap_or(RETRIES),
            false => 0,
        }
    }

    async fn request(self, args: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut delay = DELAY;
        let mut renewed = false;
        let mut repeated = 0;
        loop {
            let answered = match select(
                Box::pin(self.attempt(&args, &context)),
                context.clock().sleep(self.limit()),
            )
            .await
            {
                Either::Left((answered, _)) => answered,
                Either::Right(((), _)) => Err(self.too_late()),
            };
            let failure = match answered {
                Ok(Answer { status: 401, .. })
                    if !renewed
                        && self.credentials.as_ref().is_some_and(|of| of.forget_token()) =>
                {
                    // The token has ended before its time. The request was refused, and not done.
                    renewed = true;
                    continue;
                }
                Ok(answer) => match answer.checked(self.spec.effect) {
                    Ok(value) => return Ok(ToolOutput::Value(value)),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            let wait =
                failure.again.map(|asked| asked.max(delay)).filter(|wait| *wait <= DELAY_MAX);
            let Some(wait) = wait.filter(|_| repeated < self.retries()) else {
                return Err(failure.error);
            };
            context.clock().sleep(wait).await;
            delay = (delay * 2).min(DELAY_MAX);
            repeated += 1;
        }
    }

    async fn attempt(&self, args: &Value, context: &ToolContext) -> Result<Answer, Failure> {
        let encoding = self.api.body.unwrap_or(BodyEncoding::Json);
        let boundary = format!("weft-{}", context.idempotency_key);
        let encoded = encode(encoding, &args["body"], &boundary).map_err(Failure::of_args)?;
        let signed = match &self.credentials {
            None => Signed::default(),
            Some(credentials) => {
                let signed = credentials.sign(&encoded.bytes, &*self.egress, &**context.clock());
                signed.await.map_err(|reason| Failure::of_secret(&reason))?
            }
        };
        let Signed { headers, secrets } = signed;
        let request = self.egress_request(args, encoded, headers, context)?;
        let response = self.egress.send(request).await;
        let response = response.map_err(|error| self.failure(&error, &secrets))?;
        self.read(response, &secrets).await
    }

    fn egress_request(
        &self,
        args: &Value,
        encoded: Encoded,
        headers: Vec<(String, String)>,
        context: &ToolContext,
    ) -> Result<EgressRequest, Failure> {
        let mut url = Url::parse(&self.api.endpoint)
            .map_err(|error| Failure::of_args(format!("the endpoint is no address: {error}")))?;
        if let Some(query) = args.get("query").filter(|query| !query.is_null()) {
            let pairs = pairs_of(query).map_err(Failure::of_args)?;
            if !pairs.is_empty() {
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        let mut request = EgressRequest::new(self.api.method(), url.as_str());
        request.headers.push(("accept".to_owned(), "application/json, */*;q=0.5".to_owned()));
        let own = self.api.headers.iter();
        request.headers.extend(own.map(|(name, value)| (name.to_lowercase(), value.clone())));
        if let Some(content_type) = encoded.content_type {
            request.headers.retain(|(name, _)| name != "content-type");
            request.headers.push(("content-type".to_owned(), content_type));
        }
        if let Some(name) = &self.api.idempotency_header {
            request.headers.push((name.to_lowercase(), context.idempotency_key.clone()));
        }
        // Secrets stay with the host that the definition names.
        request.redirects = match headers.is_empty() && self.spec.effect == Effect::ReadOnly {
            true => Redirects::Follow,
            false => Redirects::Return,
        };
        request.headers.extend(headers);
        request.body = encoded.bytes.into();
        request.head_timeout = self.limit();
        request.idle_timeout = self.limit();
        request.body_max = Some(ANSWER_BYTES_MAX);
        Ok(request)
    }

    async fn read(
        &self,
        mut response: EgressResponse,
        secrets: &[String],
    ) -> Result<Answer, Failure> {
        let mut bytes = Vec::new();
        while let Some(part) = response.body.next().await {
            let part = part.map_err(|error| self.failure(&error, secrets))?;
            bytes.extend_from_slice(&part);
        }
        let text = String::from_utf8_lossy(&bytes);
        let is_json = response.header("content-type").is_some_and(|kind| kind.contains("json"));
        let body = match is_json.then(|| serde_json::from_str(&text)) {
            // More than a deliverable may have: the request was made, and its beginning is its result.
            _ if text.len() > BODY_BYTES_MAX => {
                let beginning = &text[..text.floor_char_boundary(BODY_BYTES_MAX / 2)];
                cut(beginning)
            }
            Some(Ok(value)) => value,
            _ if text.is_empty() => Value::Null,
            _ => Value::String(text.into_owned()),
        };
        // An API may repeat what it was sent.
        let body = without_secrets(body, secrets);
        let retry_after = response.header("retry-after").and_then(|text| text.trim().parse().ok());
        Ok(Answer {
            status: response.status,
            body,
            retry_after: retry_after.map(Duration::from_secs),
        })
    }

    /// The failure of a request that has no whole answer in time.
    fn too_late(&self) -> Failure {
        let host = Url::parse(&self.api.endpoint).ok();
        let host = host.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let after_ms = u64::try_from(self.limit().as_millis()).unwrap_or(u64::MAX);
        self.failure(&EgressError::Timeout { host, what: "answer", after_ms }, &[])
    }

    /// The failure of a request without a whole answer.
    fn failure(&self, error: &EgressError, secrets: &[String]) -> Failure {
        let text = without(error.to_string(), secrets);
        // What fails before the request has left this machine has no effect.
        let was_sent = !matches!(
            error,
            EgressError::Refused { .. } | EgressError::BadUrl { .. } | EgressError::Connect { .. }
        );
        let may_have_acted = was_sent && self.spec.effect != Effect::ReadOnly;
        let made = match may_have_acted {
            true => ToolError::outcome_unknown(text),
            false => ToolError::unavailable(text),
        };
        Failure {
            error: made.with_code(error.code()),
            again: error.is_retriable().then_some(Duration::ZERO),
        }
    }
}

/// An answer of an API.
struct Answer {
    status: u16,
    body: Value,
    /// Delay that the server asks for.
    retry_after: Option<Duration>,
}

impl Answer {
    /// The result of the call; an answer that says that the request failed is its failure.
    fn checked(self, effect: Effect) -> Result<Value, Failure> {
        let Self { status, body, retry_after } = self;
        if (200..300).contains(&status) {
            return Ok(json!({"status": status, "body": body}));
        }
        let text = match &body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let what = match status {
            300..400 => "sends elsewhere, which is not followed: status",
            _ => "answered with status",
        };
        let colon = if text.is_empty() { "" } else { ": " };
        let message = format!("the API {what} {status}{colon}{text}");
        // A server, or one between, that failed may have done what it was asked for.
        let is_open = matches!(status, 408 | 500 | 502 | 503 | 504);
        let may_pass = is_open || matches!(status, 425 | 429);
        let made = match (is_open && effect != Effect::ReadOnly, may_pass) {
            (true, _) => ToolError::outcome_unknown(message),
            (false, true) => ToolError::unavailable(message),
            (false, false) => ToolError::failed(message),
        };
        Err(Failure {
            error: made.with_code(ErrorCode("W1060")),
            again: may_pass.then(|| retry_after.unwrap_or_default()),
        })
    }
}

impl Failure {
    fn of_args(reason: String) -> Self {
        Self { error: ToolError::invalid_args(reason), again: None }
    }

    fn of_secret(reason: &str) -> Self {
        Self { error: ToolError::failed(reason).with_code(ErrorCode("W1061")), again: None }
    }
}

/// Replaces secrets in a text.
fn without(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "[secret]");
        }
    }
    text
}

/// Replaces secrets in the texts of a value.
fn without_secrets(value: Value, secrets: &[String]) -> Value {
    match value {
        _ if secrets.is_empty() => value,
        Value::String(text) => Value::String(without(text, secrets)),
        Value::Array(items) => {
            items.into_iter().map(|item| without_secrets(item, secrets)).collect()
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (without(name, secrets), without_secrets(value, secrets)))
            .collect(),
        other => other,
    }
}

impl Tool for ApiTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(self.clone().request(args, context))
    }

    fn timeout(&self) -> Duration {
        // Of all attempts, with their delays, and of a request for a token.
        let attempts = self.retries() + 2;
        self.limit().saturating_mul(attempts).saturating_add(DELAY_MAX.saturating_mul(attempts))
    }
}
