//! The binding HTTP+JSON.

use crate::error::{A2A_JSON, A2aError, Kind, Result};
use crate::operation::Operations;
use crate::routes::{A2aServer, read_params};
use crate::version::check_version;
use crate::wire::{ConfigRef, ListConfigs, PushConfig, StreamResponse, TaskRef};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::{Map, Value, json};
use weftwork_server::{MountedClient, read_json};
use weftwork_types::BoxStream;

type Answered = Result<Response, A2aError>;

/// The parts of a request that all handlers need.
#[derive(Debug)]
pub(crate) struct Input {
    client: MountedClient,
    headers: HeaderMap,
    query: Option<String>,
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Input {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, Response> {
        let client =
            <MountedClient as axum::extract::FromRequestParts<S>>::from_request_parts(parts, state);
        let client = client.await?;
        let query = parts.uri.query().map(str::to_owned);
        Ok(Self { client, headers: parts.headers.clone(), query })
    }
}

impl Input {
    fn open<'a>(&'a self, server: &'a A2aServer, slug: &str) -> Result<Operations<'a>> {
        check_version(&self.headers, self.query.as_deref())?;
        Operations::open(server, &self.client, &self.headers, slug)
    }

    /// Returns the parameters of the query: numbers and flags as JSON has them.
    fn params(&self) -> Value {
        let query = self.query.as_deref().unwrap_or_default();
        let mut members = Map::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let is_plain = ["historyLength", "pageSize", "includeArtifacts"].contains(&&*name)
                || ["history_length", "page_size", "include_artifacts"].contains(&&*name);
            let plain = is_plain.then(|| serde_json::from_str(&value).ok()).flatten();
            members.insert(name.into_owned(), plain.unwrap_or_else(|| json!(value)));
        }
        Value::Object(members)
    }
}

fn json(value: impl Serialize) -> Answered {
    let mut response = Json(value).into_response();
    response.headers_mut().insert(CONTENT_TYPE, A2A_JSON);
    Ok(response)
}

fn events(client: &MountedClient, events: BoxStream<'static, StreamResponse>) -> Response {
    client.stream(events.map(|event| Event::default().data(json!(event).to_string())))
}

/// Reads a body; none is an empty object.
fn read_body(body: &Bytes) -> Result<Value> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = read_json(body).map_err(|refused| match refused.status {
        StatusCode::UNPROCESSABLE_ENTITY => {
            A2aError::new(Kind::ParseError, format!("the body is no JSON: {}", refused.detail))
        }
        _ => refused.into(),
    })?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(A2aError::new(Kind::InvalidRequest, "the body is no JSON object")),
    }
}

/// Returns a task and its action, as in `ID:cancel`.
fn action_of(path: &str) -> (&str, &str) {
    path.split_once(':').unwrap_or((path, ""))
}

fn no_action() -> A2aError {
    let text = "the path has no operation with this method; expected `:cancel` or `:subscribe` after the id \
                of the task";
    A2aError::new(Kind::Http(StatusCode::NOT_FOUND), text)
}

pub(crate) async fn send(
    State(server): State<A2aServer>,
    Path(agent): Path<String>,
    input: Input,
    body: Bytes,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    json(operations.send(read_params(read_body(&body)?)?).await?)
}

pub(crate) async fn stream(
    State(server): State<A2aServer>,
    Path(agent): Path<String>,
    input: Input,
    body: Bytes,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    let stream = operations.stream(read_params(read_body(&body)?)?).await?;
    Ok(events(&input.client, stream))
}

pub(crate) async fn get_task(
    State(server): State<A2aServer>,
    Path((agent, path)): Path<(String, String)>,
    input: Input,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    let (id, action) = action_of(&path);
    match action {
        "" => {
            let request: TaskRef = read_params(input.params())?;
            json(operations.get(TaskRef { id: id.to_owned(), ..request }).await?)
        }
        "subscribe" => {
            let request = TaskRef { id: id.to_owned(), ..TaskRef::default() };
            Ok(events(&input.client, operations.subscribe(request).await?))
        }
        _ => Err(no_action()),
    }
}

pub(crate) async fn act_on_task(
    State(server): State<A2aServer>,
    Path((agent, path)): Path<(String, String)>,
    input: Input,
    body: Bytes,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    read_body(&body)?;
    let (id, action) = action_of(&path);
    let request = TaskRef { id: id.to_owned(), ..TaskRef::default() };
    match action {
        "cancel" => json(operations.cancel(request).await?),
        "subscribe" => Ok(events(&input.client, operations.subscribe(request).await?)),
        _ => Err(no_action()),
    }
}

pub(crate) async fn list_tasks(
    State(server): State<A2aServer>,
    Path(agent): Path<String>,
    input: Input,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    json(operations.list(read_params(input.params())?).await?)
}

pub(crate) async fn create_config(
    State(server): State<A2aServer>,
    Path((agent, task)): Path<(String, String)>,
    input: Input,
    body: Bytes,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    let request: PushConfig = read_params(read_body(&body)?)?;
    json(operations.create_config(PushConfig { task_id: task, ..request }).await?)
}

pub(crate) async fn list_configs(
    State(server): State<A2aServer>,
    Path((agent, task_id)): Path<(String, String)>,
    input: Input,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    let request = ListConfigs { task_id, ..ListConfigs::default() };
    json(operations.list_configs(request).await?)
}

pub(crate) async fn get_config(
    State(server): State<A2aServer>,
    Path((agent, task_id, id)): Path<(String, String, String)>,
    input: Input,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    json(operations.get_config(ConfigRef { task_id, id, ..ConfigRef::default() }).await?)
}

pub(crate) async fn delete_config(
    State(server): State<A2aServer>,
    Path((agent, task_id, id)): Path<(String, String, String)>,
    input: Input,
) -> Answered {
    let operations = input.open(&server, &agent)?;
    operations.delete_config(ConfigRef { task_id, id, ..ConfigRef::default() }).await?;
    json(json!({}))
}

pub(crate) async fn extended_card(
    State(server): State<A2aServer>,
    Path(agent): Path<String>,
    input: Input,
) -> Answered {
    json(input.open(&server, &agent)?.card()?)
}
