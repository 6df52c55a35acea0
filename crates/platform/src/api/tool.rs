//! The tool that makes the request of an API agent.

use super::address::check_allowed;
use super::answer::{Answer, Failure, read_body, without, without_secrets};
use super::body::{Encoded, encode, pairs_of};
use super::credentials::{Credentials, Secrets, Signed};
use super::operation::{OperationParts, parts_of};
use super::pages::{next_link, pages_max, read_pages};
use crate::definition::{ApiTransport, BodyEncoding, DefinitionFolder, Operation, operation_tool};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use weftwork_models::retry_delay;
use weftwork_tools::{
    API_TOOLS, Policy, Tool, ToolBoxErrors, ToolContext, ToolError, ToolOutput, WHOLE,
};
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
use weftwork_types::{BoxFuture, ErrorCode};

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

/// The rules for the tools of an API that hold if the operator has none: what only reads is allowed, and
/// a person approves the rest.
pub(crate) fn usual_policy(tools: &[ApiTool]) -> Result<Policy, ToolBoxErrors> {
    let rules = tools.iter().fold(Policy::builder(), |rules, tool| match tool.spec.effect {
        Effect::ReadOnly => rules.allow(&tool.spec.name),
        _ => rules.ask_human(&tool.spec.name, "it changes something outside"),
    });
    rules.build()
}

/// Name of the tool of an API agent.
pub(crate) fn tool_name(slug: &str) -> String {
    format!("{API_TOOLS}{slug}")
}

/// The declaration of the request of an API agent.
fn request_spec(folder: &DefinitionFolder, api: &ApiTransport) -> ToolSpec {
    let mut parameters = json!({
        "type": "object",
        "properties": {"query": {"type": "object"}, "body": {}},
        "additionalProperties": false,
    });
    if api.has_template() {
        parameters["properties"]["url"] = json!({"type": "string"});
        parameters["required"] = json!(["url"]);
    }
    let description = folder.definition.agent_card.description.clone();
    let description = description.unwrap_or_default();
    spec_of(tool_name(&folder.slug), description, parameters, api.method())
}

/// The declaration of the tool of an operation.
fn operation_spec(slug: &str, of: &Operation) -> ToolSpec {
    let name = operation_tool(slug, &of.id);
    spec_of(name, of.description.clone(), of.arguments.clone(), of.method)
}

fn spec_of(name: String, description: String, parameters: Value, method: Method) -> ToolSpec {
    let reads = matches!(method, Method::Get | Method::Head);
    ToolSpec {
        name,
        description,
        parameters,
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
    }
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
    /// Operation of an OpenAPI file; `None` for the request of an API agent.
    operation: Option<Arc<Operation>>,
    credentials: Option<Arc<Credentials>>,
    egress: Arc<dyn Egress>,
}

/// Services of the tools of an API.
pub(crate) struct ApiServices {
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) egress: Arc<dyn Egress>,
}

impl ApiTool {
    /// Returns the tools of an API: its operations, or else its request.
    pub(crate) fn all(
        folder: &DefinitionFolder,
        api: &ApiTransport,
        operations: Vec<Operation>,
        services: &ApiServices,
    ) -> Vec<Self> {
        let organization = folder.definition.organization.as_deref();
        let slug = &folder.slug;
        let api = Arc::new(api.clone());
        let credentials = api.authentication.as_ref().map(|of| {
            Arc::new(Credentials::new(slug, organization, of, Arc::clone(&services.secrets)))
        });
        let tool = |spec, operation: Option<Operation>| Self {
            spec,
            api: Arc::clone(&api),
            operation: operation.map(Arc::new),
            credentials: credentials.clone(),
            egress: Arc::clone(&services.egress),
        };
        if folder.definition.openapi.is_none() {
            return vec![tool(request_spec(folder, &api), None)];
        }
        let operations = operations.into_iter();
        operations.map(|of| tool(operation_spec(slug, &of), Some(of))).collect()
    }

    /// Returns the declarations of the tools that a definition has by its API.
    pub(crate) fn specs(folder: &DefinitionFolder, operations: &[Operation]) -> Vec<ToolSpec> {
        let transport = folder.definition.transport.as_ref();
        let api = transport.and_then(|transport| transport.api.as_ref());
        match api.filter(|_| folder.definition.openapi.is_none()) {
            Some(api) => vec![request_spec(folder, api)],
            None => operations.iter().map(|of| operation_spec(&folder.slug, of)).collect(),
        }
    }

    fn method(&self) -> Method {
        self.operation.as_ref().map_or(self.api.method(), |operation| operation.method)
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
        let allowed = check_allowed(&self.api, &request.url);
        allowed.map_err(|reason| ToolError::invalid_args(reason).with_code(ErrorCode("W1064")))?;
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
                Either::Right(((), _)) => Err(self.too_late(&request.url)),
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
        let address = match self.api.has_template() {
            true => args["url"].as_str().unwrap_or_default(),
            false => &self.api.endpoint,
        };
        let endpoint = Url::parse(address).map_err(|error| {
            ToolError::invalid_args(format!("the endpoint is no address: {error}"))
        })?;
        let boundary = format!("weft-{}", context.idempotency_key);
        let parts = match &self.operation {
            Some(operation) => parts_of(operation, &endpoint, args, &boundary),
            None => self.own_parts(endpoint, args, &boundary),
        };
        let OperationParts { url, headers: given, body } =
            parts.map_err(ToolError::invalid_args)?;
        // Headers of the definition replace those of arguments.
        let usual = ("accept".to_owned(), "application/json, */*;q=0.5".to_owned());
        let own = self.api.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
        let content_type =
            body.content_type.iter().map(|of| ("content-type".to_owned(), of.clone()));
        let key = self.api.idempotency_header.as_ref();
        let key = key.map(|name| (name.to_lowercase(), context.idempotency_key.clone()));
        let mut headers = vec![usual];
        for (name, value) in given.into_iter().chain(own).chain(content_type).chain(key) {
            headers.retain(|(known, _)| *known != name);
            headers.push((name, value));
        }
        Ok(ApiRequest { method: self.method(), url, headers, body })
    }

    /// The parts of the request of an API agent.
    fn own_parts(
        &self,
        mut url: Url,
        args: &Value,
        boundary: &str,
    ) -> Result<OperationParts, String> {
        if let Some(query) = args.get("query").filter(|query| !query.is_null()) {
            let pairs = pairs_of(query)?;
            if !pairs.is_empty() {
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        let encoding = self.api.body.unwrap_or(BodyEncoding::Json);
        let body = encode(encoding, &args["body"], boundary)?;
        Ok(OperationParts { url, headers: Vec::new(), body })
    }

    fn egress_request(&self, of: &ApiRequest, credentials: Vec<(String, String)>) -> EgressRequest {
        let mut request = EgressRequest::new(of.method, of.url.as_str());
        request.headers.clone_from(&of.headers);
        // Secrets stay with the host that the definition names, and addresses from templates with
        // those that it allows.
        let may_leave = credentials.is_empty() && !self.api.has_template();
        request.redirects = match may_leave && self.spec.effect == Effect::ReadOnly {
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
        // An API may repeat what it was sent.
        let body = without_secrets(read_body(&response, &bytes), secrets);
        let links = response.headers.iter().filter(|(name, _)| name == "link");
        Ok(Answer {
            status: response.status,
            body,
            retry_after: retry_delay(&response),
            next_link: links.filter_map(|(_, value)| next_link(value)).next().map(str::to_owned),
        })
    }

    /// The failure of a request that has no whole answer in time.
    fn too_late(&self, url: &Url) -> Failure {
        let host = url.host_str().unwrap_or_default().to_owned();
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
