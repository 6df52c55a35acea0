//! The tool that makes the request of an API agent.

use super::answer::{Answer, BODY_BYTES_MAX, Failure, without, without_secrets};
use super::body::{Encoded, encode, pairs_of};
use super::credentials::{Credentials, Secrets, Signed};
use super::pages::{next_link, pages_max, read_pages};
use crate::call::cut;
use crate::definition::{ApiTransport, BodyEncoding, DefinitionFolder};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use weftwork_tools::{Policy, Tool, ToolBoxErrors, ToolContext, ToolError, ToolOutput, WHOLE};
use weftwork_types::BoxFuture;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};

/// Longest answer of an API in bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// Usual time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Usual number of repetitions of a request that may be repeated.
const RETRIES: u32 = 2;
/// First delay before a repetition; each further one is twice as long.
const DELAY: Duration = Duration::from_millis(500);
/// Longest delay before a repetition. A server that asks for more is not asked again.
const DELAY_MAX: Duration = Duration::from_secs(30);

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

/// A request without its credentials.
pub(super) struct ApiRequest {
    method: Method,
    pub(super) url: Url,
    headers: Vec<(String, String)>,
    body: Encoded,
}

/// A request of an API.
#[derive(Debug, Clone)]
pub(crate) struct ApiTool {
    spec: ToolSpec,
    api: Arc<ApiTransport>,
    credentials: Option<Arc<Credentials>>,
    egress: Arc<dyn Egress>,
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
                "properties": {
                    "status": {"type": "integer"},
                    "body": {},
                    "pages": {
                        "type": "object",
                        "properties": {"read": {"type": "integer"}, "limit": {"type": "string"}},
                    },
                },
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
        let request = self.request_of(&args, &context)?;
        let result = match &self.api.pagination {
            None => self.fetch(&request, &context).await?.into_value(),
            Some(pagination) => read_pages(&self, request, pagination, &context).await?,
        };
        Ok(ToolOutput::Value(result))
    }

    /// Makes a request, and repeats it as often as it may be. The answer has a status of success.
    pub(super) async fn fetch(
        &self,
        request: &ApiRequest,
        context: &ToolContext,
    ) -> Result<Answer, ToolError> {
        let mut delay = DELAY;
        let mut renewed = false;
        let mut repeated = 0;
        loop {
            let answered = match select(
                Box::pin(self.attempt(request, context)),
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
                    Ok(answer) => return Ok(answer),
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

    async fn attempt(
        &self,
        request: &ApiRequest,
        context: &ToolContext,
    ) -> Result<Answer, Failure> {
        let signed = match &self.credentials {
            None => Signed::default(),
            Some(credentials) => {
                let body = &request.body.bytes;
                let signed = credentials.sign(body, &*self.egress, &**context.clock());
                signed.await.map_err(|reason| Failure::of_secret(&reason))?
            }
        };
        let Signed { headers, secrets } = signed;
        let request = self.egress_request(request, headers);
        let response = self.egress.send(request).await;
        let response = response.map_err(|error| self.failure(&error, &secrets))?;
        self.read(response, &secrets).await
    }

    /// The request that the arguments of a call ask for.
    fn request_of(&self, args: &Value, context: &ToolContext) -> Result<ApiRequest, ToolError> {
        let mut url = Url::parse(&self.api.endpoint).map_err(|error| {
            ToolError::invalid_args(format!("the endpoint is no address: {error}"))
        })?;
        if let Some(query) = args.get("query").filter(|query| !query.is_null()) {
            let pairs = pairs_of(query).map_err(ToolError::invalid_args)?;
            if !pairs.is_empty() {
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        let encoding = self.api.body.unwrap_or(BodyEncoding::Json);
        let boundary = format!("weft-{}", context.idempotency_key);
        let body = encode(encoding, &args["body"], &boundary).map_err(ToolError::invalid_args)?;
        let mut headers = vec![("accept".to_owned(), "application/json, */*;q=0.5".to_owned())];
        let own = self.api.headers.iter();
        headers.extend(own.map(|(name, value)| (name.to_lowercase(), value.clone())));
        if let Some(content_type) = &body.content_type {
            headers.retain(|(name, _)| name != "content-type");
            headers.push(("content-type".to_owned(), content_type.clone()));
        }
        if let Some(name) = &self.api.idempotency_header {
            headers.push((name.to_lowercase(), context.idempotency_key.clone()));
        }
        Ok(ApiRequest { method: self.api.method(), url, headers, body })
    }

    fn egress_request(&self, of: &ApiRequest, credentials: Vec<(String, String)>) -> EgressRequest {
        let mut request = EgressRequest::new(of.method, of.url.as_str());
        request.headers.clone_from(&of.headers);
        // Secrets stay with the host that the definition names.
        request.redirects = match credentials.is_empty() && self.spec.effect == Effect::ReadOnly {
            true => Redirects::Follow,
            false => Redirects::Return,
        };
        request.headers.extend(credentials);
        request.body = of.body.bytes.clone().into();
        request.head_timeout = self.limit();
        request.idle_timeout = self.limit();
        request.body_max = Some(ANSWER_BYTES_MAX);
        request
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
        let links = response.headers.iter().filter(|(name, _)| name == "link");
        Ok(Answer {
            status: response.status,
            body,
            retry_after: retry_after.map(Duration::from_secs),
            next_link: links.filter_map(|(_, value)| next_link(value)).next().map(str::to_owned),
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
        let one = self.limit().saturating_add(DELAY_MAX).saturating_mul(attempts);
        one.saturating_mul(self.api.pagination.as_ref().map_or(1, pages_max))
    }
}
