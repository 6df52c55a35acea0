//! The routes and their rights.

use crate::agent;
use crate::card::{Audience, CardSettings};
use crate::delivery::Deliveries;
use crate::error::{A2aError, Result, of_guard};
use crate::json_rpc::{self, Call};
use crate::push::Pushes;
use crate::rest;
use crate::wire::{AgentProvider, CardKey};
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_server::{Mounted, MountedClient, MountedOperation, TurnSource};
use weftwork_store::Store;
use weftwork_types::Right;
use weftwork_types::port::{AgentSummary, CheckUrl, Clock, Platform};

const OPEN: &[Right] = &[];
const READ: &[Right] = &[Right::Read];
const RUN: &[Right] = &[Right::Run];
/// A message begins a task, and the answer to a question approves.
const SENDS: &[Right] = &[Right::Run, Right::Approve];
/// A subscription reads, and a cancellation runs.
const ACTS: &[Right] = &[Right::Read, Right::Run];
/// Each method has a right of its own.
const CALLS: &[Right] = &[Right::Read, Right::Run, Right::Approve];

/// Maximum number of cards that an error names.
const CARDS_SHOWN_MAX: usize = 20;
const RPC_BODY: &[&str] = &["jsonrpc", "id", "method", "params"];
const SEND_BODY: &[&str] = &["tenant", "message", "configuration", "metadata"];
const CONFIG_BODY: &[&str] = &["tenant", "id", "taskId", "url", "token", "authentication"];

const fn operation(
    method: &'static str,
    path: &'static str,
    rights: &'static [Right],
    summary: &'static str,
    members: &'static [&'static str],
) -> MountedOperation {
    MountedOperation { method, path, rights, summary, members }
}

/// Lists each operation twice: clients add a slash to addresses.
macro_rules! with_slashes {
    ($(($method:literal, $path:literal, $rights:expr, $summary:literal, $members:expr)),* $(,)?) => {
        &[$(
            operation($method, $path, $rights, $summary, $members),
            operation($method, concat!($path, "/"), $rights, $summary, $members),
        )*]
    };
}

const OPERATIONS: &[MountedOperation] = with_slashes![
    ("post", "/a2a", CALLS, "A2A by JSON-RPC, with an agent as tenant", RPC_BODY),
    ("post", "/a2a/{agent}", CALLS, "A2A by JSON-RPC", RPC_BODY),
    ("get", "/a2a/{agent}/.well-known/agent-card.json", OPEN, "Read the card of an agent", &[]),
    ("get", "/a2a/{agent}/extendedAgentCard", READ, "Read the extended card of an agent", &[]),
    ("post", "/a2a/{agent}/message:send", SENDS, "Send a message to an agent", SEND_BODY),
    (
        "post",
        "/a2a/{agent}/message:stream",
        SENDS,
        "Send a message, and stream the task",
        SEND_BODY
    ),
    ("get", "/a2a/{agent}/tasks", READ, "List the tasks of an agent", &[]),
    ("get", "/a2a/{agent}/tasks/{id}", READ, "Read a task, or stream it with `:subscribe`", &[]),
    (
        "post",
        "/a2a/{agent}/tasks/{id}",
        ACTS,
        "Cancel a task with `:cancel`, or stream it with `:subscribe`",
        &[]
    ),
    (
        "post",
        "/a2a/{agent}/tasks/{id}/pushNotificationConfigs",
        RUN,
        "Configure push notifications of a task",
        CONFIG_BODY
    ),
    (
        "get",
        "/a2a/{agent}/tasks/{id}/pushNotificationConfigs",
        READ,
        "List the push notification configurations of a task",
        &[]
    ),
    (
        "get",
        "/a2a/{agent}/tasks/{id}/pushNotificationConfigs/{config}",
        READ,
        "Read a push notification configuration",
        &[]
    ),
    (
        "delete",
        "/a2a/{agent}/tasks/{id}/pushNotificationConfigs/{config}",
        RUN,
        "Delete a push notification configuration",
        &[]
    ),
];

const KEYS: &[MountedOperation] = with_slashes![
    (
        "get",
        "/.well-known/agent-card.json",
        OPEN,
        "Read the card of the agent, if one alone is exposed by A2A",
        &[]
    ),
    (
        "get",
        "/.well-known/agent-card-keys.json",
        OPEN,
        "Read the public key that verifies agent cards",
        &[]
    ),
];

/// The protocol for the agents of a server.
#[derive(Debug, Clone)]
pub struct A2aServer {
    pub(crate) source: TurnSource,
    pub(crate) pushes: Pushes,
    pub(crate) cards: CardSettings,
}

impl A2aServer {
    /// Creates the protocol for agents. Push notifications are sent by `egress`, and their configurations
    /// are stored in the store of the agents.
    #[must_use]
    pub fn new(
        platform: Arc<dyn Platform>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        egress: Arc<dyn CheckUrl>,
    ) -> Self {
        let source = TurnSource::new(platform, clock);
        Self { source, pushes: Pushes { store, egress }, cards: CardSettings::default() }
    }

    /// Sets the address of the server in cards; by default the one that the request names.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.cards.url = Some(url.into());
        self
    }

    /// Sets the organisation that serves the agents, which cards name.
    #[must_use]
    pub fn provider(mut self, provider: AgentProvider) -> Self {
        self.cards.provider = Some(provider);
        self
    }

    /// Sets the key that signs cards. Without one, they have no signature.
    #[must_use]
    pub fn card_key(mut self, key: CardKey) -> Self {
        self.cards.key = Some(key);
        self
    }

    /// Leaves ways to authenticate out of the cards, for a server that needs no token.
    #[must_use]
    pub fn open_to_all(mut self) -> Self {
        self.cards.is_open = true;
        self
    }

    /// Returns the delivery of push notifications, to be run beside the server.
    #[must_use]
    pub fn deliveries(&self) -> Deliveries {
        Deliveries { source: self.source.clone(), pushes: self.pushes.clone() }
    }

    /// Returns the routes, for [`Server::mount`](weftwork_server::Server::mount).
    #[must_use]
    pub fn routes(&self) -> [Mounted; 2] {
        let configs = "/a2a/{agent}/tasks/{id}/pushNotificationConfigs";
        let config = format!("{configs}/{{config}}");
        let of_agents = [
            ("/a2a", post(call_tenant)),
            ("/a2a/{agent}", post(call)),
            ("/a2a/{agent}/.well-known/agent-card.json", get(card)),
            ("/a2a/{agent}/extendedAgentCard", get(rest::extended_card)),
            ("/a2a/{agent}/message:send", post(rest::send)),
            ("/a2a/{agent}/message:stream", post(rest::stream)),
            ("/a2a/{agent}/tasks", get(rest::list_tasks)),
            ("/a2a/{agent}/tasks/{id}", get(rest::get_task).post(rest::act_on_task)),
            (configs, get(rest::list_configs).post(rest::create_config)),
            (&config, get(rest::get_config).delete(rest::delete_config)),
        ];
        let of_server = [
            ("/.well-known/agent-card.json", get(only_card)),
            ("/.well-known/agent-card-keys.json", get(card_keys)),
        ];
        let mounted = |prefix, router: Router<Self>, operations| Mounted {
            prefix,
            router: router.with_state(self.clone()),
            operations,
            error: of_guard,
        };
        [
            mounted("/a2a", router(of_agents), OPERATIONS),
            mounted("/.well-known", router(of_server), KEYS),
        ]
    }
}

/// Returns a router for paths, with and without a slash at the end.
fn router<'a>(
    routes: impl IntoIterator<Item = (&'a str, MethodRouter<A2aServer>)>,
) -> Router<A2aServer> {
    routes.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(path, methods.clone()).route(&format!("{path}/"), methods)
    })
}

/// Reads the parameters of an operation. A member that is null is the same as none.
///
/// # Errors
/// An error for one that does not fit.
pub(crate) fn read_params<T: DeserializeOwned>(mut params: Value) -> Result<T> {
    drop_nulls(&mut params);
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let text = error.into_inner().to_string();
        let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        let field = match (path.as_str(), missing) {
            (".", None) => String::new(),
            (".", Some((name, _))) => name.to_owned(),
            (path, Some((name, _))) => format!("{path}.{name}"),
            (path, None) => path.to_owned(),
        };
        A2aError::invalid(field, format!("the request does not fit: {text}"))
    })
}

/// Removes members that are null, except in data of clients.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name == "data" || !value.is_null());
            for (name, value) in members {
                if name != "data" && name != "metadata" {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

async fn call(
    State(server): State<A2aServer>,
    client: MountedClient,
    Path(agent): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = Call { agent: Some(agent), headers, query, body };
    Box::pin(json_rpc::answer(server, client, call)).await
}

async fn call_tenant(
    State(server): State<A2aServer>,
    client: MountedClient,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = Call { agent: None, headers, query, body };
    Box::pin(json_rpc::answer(server, client, call)).await
}

/// Returns the agents that a client, or everybody, sees.
fn seen(server: &A2aServer, client: Option<&MountedClient>) -> Vec<AgentSummary> {
    let who = client.map_or_else(agent::anybody, |client| client.principal().clone());
    agent::exposed(&*server.source.platform, &who)
}

fn audience_of(agent: &AgentSummary) -> Audience {
    match agent.organization {
        None => Audience::Public,
        Some(_) => Audience::Organization,
    }
}

fn respond_card(server: &A2aServer, headers: &HeaderMap, agent: &AgentSummary) -> Response {
    let audience = audience_of(agent);
    let card = server.cards.card(agent, audience, headers);
    server.cards.respond(card, audience, headers, server.source.clock.now())
}

async fn card(
    State(server): State<A2aServer>,
    client: Option<MountedClient>,
    Path(slug): Path<String>,
    headers: HeaderMap,
) -> Result<Response, A2aError> {
    let agents = seen(&server, client.as_ref());
    let agent = agents.iter().find(|agent| agent.slug == slug);
    Ok(respond_card(&server, &headers, agent.ok_or_else(A2aError::agent_missing)?))
}

async fn only_card(
    State(server): State<A2aServer>,
    client: Option<MountedClient>,
    headers: HeaderMap,
) -> Result<Response, A2aError> {
    match seen(&server, client.as_ref()).as_slice() {
        [] => Err(A2aError::agent_missing()),
        [agent] => Ok(respond_card(&server, &headers, agent)),
        several => {
            let shown = several.iter().take(CARDS_SHOWN_MAX);
            let path =
                |agent: &AgentSummary| format!("/a2a/{}/.well-known/agent-card.json", agent.slug);
            Err(A2aError::several_cards(several.len(), &shown.map(path).collect::<Vec<_>>()))
        }
    }
}

async fn card_keys(State(server): State<A2aServer>) -> Response {
    let keys = server.cards.key.as_ref().map(CardKey::key_set);
    Json(keys.unwrap_or_else(|| json!({"keys": []}))).into_response()
}
