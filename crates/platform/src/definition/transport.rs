//! The keys of the transport of a definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use weftwork_types::port::Method;

/// A way to what executes an agent outside this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// Kind, which is that of the agent's type.
    pub kind: TransportKind,
    /// HTTP API of an agent of type `api`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ApiTransport>,
    /// Server of an agent of type `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalTransport>,
    /// Limits of the code of an agent of type `function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionTransport>,
}

/// Kinds of transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TransportKind {
    /// An HTTP API.
    Api,
    /// An agent of another server.
    External,
    /// Code in a sandbox.
    Function,
    /// Nothing outside this process.
    None,
}

/// An HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiTransport {
    /// Address, with `http` or `https`. With placeholders, `url_allow_list` has the addresses that it may
    /// become.
    pub endpoint: String,
    /// Addresses that an endpoint with placeholders may become: those with the same origin, and a path
    /// below that of an entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), inner(length(max = 2_000)))]
    pub url_allow_list: Vec<String>,
    /// Method; by default `POST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Credentials. Their secrets are in the environment, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Members of the query.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Json>,
    /// Encoding of the body; by default `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyEncoding>,
    /// Maximum time of a request in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
    /// Number of repetitions of a request that may be repeated; by default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub retries: Option<u32>,
    /// Header by which the API recognises a repeated request, such as `Idempotency-Key`. It gets the key
    /// of the call, and the request may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9-]{1,64}$"))]
    pub idempotency_header: Option<String>,
    /// Pages of a list, which are read one after the other. Only for requests with `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
}

/// The pages of a list of an API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pagination {
    /// Kind.
    pub kind: PaginationKind,
    /// Path of the items in the body of a page, such as `data.items`; by default the body is the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^.\s]+(\.[^.\s]+)*$"))]
    pub items: Option<String>,
    /// Path of the next cursor in the body, for the kind `cursor`; of the next address, for the kind
    /// `link`, by default the header `Link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^.\s]+(\.[^.\s]+)*$"))]
    pub next: Option<String>,
    /// Member of the query that has the cursor or the number of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub param: Option<String>,
    /// Number of the first page, for the kind `page`; by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub start: Option<u32>,
    /// Maximum number of pages; by default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub pages_max: Option<u32>,
    /// Maximum number of items; by default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub items_max: Option<u32>,
}

/// Kinds of pagination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PaginationKind {
    /// Each page has the cursor of the next one.
    Cursor,
    /// Pages have numbers, and an empty one is behind the last.
    Page,
    /// Each page has the address of the next one.
    Link,
}

impl PaginationKind {
    /// Returns the name, as definitions have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Page => "page",
            Self::Link => "link",
        }
    }
}

impl ApiTransport {
    /// Returns the method of the request.
    pub(crate) fn method(&self) -> Method {
        self.method.unwrap_or(Method::Post)
    }

    /// Returns `true` if the address has placeholders.
    pub(crate) fn has_template(&self) -> bool {
        self.endpoint.contains("{{")
    }

    /// Returns `true` for a request that changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.method(), Method::Get | Method::Head)
    }
}

/// Encodings of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BodyEncoding {
    /// JSON.
    Json,
    /// A form of names and values.
    Form,
    /// A form with parts.
    Multipart,
    /// Text.
    Text,
    /// No body.
    None,
}

/// Credentials of an API. A definition names variables of the environment, and has no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Authentication {
    /// Type.
    #[serde(rename = "type")]
    pub kind: AuthenticationType,
    /// Variable of the environment that has the secret; by default `AGENT_<SLUG>_TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    pub secret: Option<String>,
    /// Header that has the secret, for the type `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Address that gives tokens, for the type `oauth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
}

/// Types of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuthenticationType {
    /// A bearer token.
    Bearer,
    /// A name and a password.
    Basic,
    /// A secret in a header.
    Header,
    /// Client credentials of OAuth.
    Oauth,
    /// A signature of the body.
    Signature,
    /// No credentials.
    None,
}

/// An agent of another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalTransport {
    /// Address, with `http` or `https`: the one that takes tasks, or the one below which the card is.
    pub endpoint: String,
    /// Protocol; by default `a2a`. An address that ends in `/agent-to-agent/tasks` takes tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ExternalProtocol>,
    /// Name of the agent at a server that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub agent: Option<String>,
    /// Credentials, which go to the host of the address alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Public keys, as JSON Web Keys, of which one has to have signed the card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16))]
    pub card_keys: Vec<Map<String, Json>>,
    /// Check of the health of the server, which precedes calls.
    #[serde(default, rename = "healthCheck", skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// Maximum time in milliseconds until a request is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
    /// Number of repetitions of a request that may be repeated; by default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub retries: Option<u32>,
    /// Choice whether the server recognises a repeated request, by its `messageId` or the header
    /// `Idempotency-Key`. Then one whose outcome is unknown is repeated; otherwise a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
}

/// The form of requests to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExternalForm {
    /// A request in the form of definitions.
    Task,
    /// Messages of A2A, at an address of the card.
    A2a,
}

impl ExternalTransport {
    /// Returns the form of requests.
    pub(crate) fn form(&self) -> ExternalForm {
        let path = self.endpoint.split(['?', '#']).next().unwrap_or_default();
        let takes_tasks = path.trim_end_matches('/').ends_with("/agent-to-agent/tasks");
        match self.protocol {
            Some(ExternalProtocol::Task) => ExternalForm::Task,
            _ if takes_tasks => ExternalForm::Task,
            _ => ExternalForm::A2a,
        }
    }
}

/// Protocols of other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExternalProtocol {
    /// A2A, or requests in the form of definitions if the address is one of those.
    A2a,
    /// Requests in the form of definitions.
    Task,
}

/// A check of the health of another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// Path at the server, such as `/health`.
    #[schemars(regex(pattern = r"^/([^/\\]|$)"))]
    pub endpoint: String,
    /// Time such as `30s`: how long an answer of the server counts, and how long a server that failed is
    /// left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Numbers of answers that change the state of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<HealthThresholds>,
}

/// Numbers of answers that change the state of another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthThresholds {
    /// Number of failures, one after the other, after which the server is left alone; by default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub failures: Option<u32>,
    /// Number of trials, one after the other, that have to succeed before all requests are sent again; by
    /// default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub successes: Option<u32>,
}

/// Limits of the code of a function agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionTransport {
    /// Maximum time of a call in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
    /// Maximum memory of the values of the code in megabytes; by default 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_024))]
    pub memory_mb: Option<u32>,
    /// Members of `ctx` that the code may call; by default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

/// Members of `ctx` that the code of a function agent may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Grant {
    /// `ctx.model`: the model of the key `llm`.
    Model,
    /// `ctx.tools`: the tools of the key `tools`.
    Tools,
    /// `ctx.deliverables`: the deliverables of the conversation, to be read.
    Deliverables,
    /// `ctx.store`: the items of the agent in the long-term store.
    Store,
    /// `ctx.agents.call`: the agents of `availableAgents` of the key `orchestration`.
    Agents,
    /// `ctx.agents.draft`: definitions that a person may make current.
    Drafts,
    /// `ctx.emit`: events in the stream of the run.
    Emit,
    /// `ctx.log`: lines in the log of the operator.
    Log,
}
