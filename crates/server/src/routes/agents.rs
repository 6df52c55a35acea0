//! `/agents`, `/conversations`, `/tasks`, `/plans` and `/deliverables`: agents that are asked by their
//! slugs, and the records that they make.

use super::runs::task_caller;
use crate::address::address_of;
use crate::body;
use crate::error::{ApiError, Result};
use crate::service::{self, Query, Service};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weftwork_types::exposure::{AgentProtocol, ExposureChange};
use weftwork_types::port::{AgentSummary, DefinitionRefusal, NewDefinition, RowCondition};
use weftwork_types::task::{Mode, Payload, TaskRequest, TaskResponse};

/// Number of conversations of a page without a limit.
const LIMIT: usize = 50;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/agents", get(list).post(add))
        .route("/agents/{slug}", get(read).put(replace).delete(remove))
        .route("/agents/{slug}/exposure", get(exposure).put(expose))
        .route("/agents/{slug}/tasks", post(ask))
        .route("/agent-to-agent/tasks", post(ask_named))
        .route("/conversations", get(conversations))
        .route("/conversations/{*id}", get(conversation).delete(erase))
        .route("/tasks", get(tasks))
        .route("/plans", get(read_plans).post(change_plans))
        .route("/deliverables", get(read_deliverables).post(change_deliverables))
}

async fn list(service: Service) -> Result<Json<Value>> {
    Ok(Json(service.agents()?))
}

async fn read(service: Service, Path(slug): Path<String>) -> Result<Json<AgentSummary>> {
    Ok(Json(service.find_agent(&slug)?))
}

/// A definition with its files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DefinitionBody {
    files: BTreeMap<String, String>,
    #[serde(default)]
    organization: Option<String>,
    #[serde(default)]
    version: Option<String>,
}

/// Adds the row of an agent whose slug is that of the definition.
async fn add(service: Service, body: Bytes) -> Result<Response> {
    let DefinitionBody { files, organization, version } = body::read(&body)?;
    if version.is_some() {
        return Err(ApiError::invalid(
            "`version` is that of a row to be replaced, and `POST` adds one; leave it out, or use \
             `PUT /agents/SLUG`",
        ));
    }
    let new = NewDefinition { slug: None, organization, files, condition: RowCondition::New };
    Ok(match service.put_definition(new).await? {
        Ok(agent) => (StatusCode::CREATED, Json(agent)).into_response(),
        Err(refusal) => refused(refusal),
    })
}

/// Adds or replaces the row of an agent.
async fn replace(service: Service, Path(slug): Path<String>, body: Bytes) -> Result<Response> {
    let DefinitionBody { files, organization, version } = body::read(&body)?;
    let condition = version.map_or(RowCondition::Any, RowCondition::Version);
    let new = NewDefinition { slug: Some(slug), organization, files, condition };
    Ok(match service.put_definition(new).await? {
        Ok(agent) => Json(agent).into_response(),
        Err(refusal) => refused(refusal),
    })
}

#[derive(Debug, Deserialize)]
struct OfOrganization {
    organization: Option<String>,
}

async fn remove(
    service: Service,
    Path(slug): Path<String>,
    Query(of): Query<OfOrganization>,
) -> Result<Response> {
    Ok(match service.remove_definition(of.organization.as_deref(), &slug).await? {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refused(refusal),
    })
}

async fn exposure(
    service: Service,
    Path(slug): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    Ok(Json(service.exposure(&slug, &address_of(&headers))?).into_response())
}

/// Changes the protocols by which an agent is exposed: `true` or `false` by the name of each.
async fn expose(
    service: Service,
    Path(slug): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let members: BTreeMap<String, bool> = body::read(&body)?;
    let mut change = ExposureChange::default();
    for (name, is_on) in members {
        let protocol = AgentProtocol::of_name(&name).ok_or_else(|| {
            let known = AgentProtocol::NAMES.join(", ");
            let name: String = name.chars().take(100).collect();
            ApiError::invalid(format!("`{name}` is no protocol; expected: {known}"))
        })?;
        let side = if is_on { &mut change.on } else { &mut change.off };
        side.insert(protocol);
    }
    Ok(match service.expose_agent(&slug, change).await? {
        Ok(agent) => Json(service.exposure_of(agent, &address_of(&headers))).into_response(),
        Err(refusal) => refused(refusal),
    })
}

/// The response to a change of a definition that was refused, with all problems.
fn refused(refusal: DefinitionRefusal) -> Response {
    let with = |status, text: String, problems: Vec<Value>| {
        (status, Json(json!({"detail": text, "problems": problems}))).into_response()
    };
    match refusal {
        DefinitionRefusal::Problems { text, problems } => {
            with(StatusCode::UNPROCESSABLE_ENTITY, text, problems)
        }
        DefinitionRefusal::Taken { text, problem } => {
            with(StatusCode::CONFLICT, text, vec![problem])
        }
        DefinitionRefusal::Forbidden { text } => ApiError::forbidden(text).into_response(),
        DefinitionRefusal::Store(fault) if fault.code == "W0212" => {
            ApiError::conflict(fault.message).into_response()
        }
        DefinitionRefusal::Store(fault) => service::refused(fault).into_response(),
        _ => ApiError::invalid("the change is refused").into_response(),
    }
}

/// Asks an agent.
async fn ask(
    service: Service,
    Path(slug): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let mut request: TaskRequest = body::read(&body)?;
    if !request.agent.is_empty() && request.agent != slug {
        return Err(ApiError::invalid(format!(
            "`agent` is `{}`, and the address is that of `{slug}`; leave `agent` out",
            request.agent
        )));
    }
    request.agent = slug;
    let by = task_caller(&service, &headers)?;
    Ok(answer(service.ask_agent(request, by).await?))
}

/// Asks the agent that the body names.
async fn ask_named(service: Service, headers: HeaderMap, body: Bytes) -> Result<Response> {
    let request: TaskRequest = body::read(&body)?;
    if request.agent.is_empty() {
        return Err(ApiError::invalid("`agent` is missing; send the slug of the agent"));
    }
    let by = task_caller(&service, &headers)?;
    Ok(answer(service.ask_agent(request, by).await?))
}

/// The response with the status that its code has.
pub(super) fn answer(response: TaskResponse) -> Response {
    (status_of(&response), Json(response)).into_response()
}

fn status_of(response: &TaskResponse) -> StatusCode {
    if response.success {
        return StatusCode::OK;
    }
    match response.metadata.get("code").and_then(Value::as_str).unwrap_or_default() {
        "W0201" | "W1012" => StatusCode::NOT_FOUND,
        "W0202" | "W0204" | "W0707" | "W1020" | "W1021" | "W1023" | "W1038" | "W1073" | "W1074"
        | "W1075" => StatusCode::CONFLICT,
        "W1072" => StatusCode::FORBIDDEN,
        // The agent of another server failed, and the run of the request with it.
        "W1065" | "W1066" | "W1067" | "W1068" => StatusCode::INTERNAL_SERVER_ERROR,
        code if code.starts_with("W10") => StatusCode::UNPROCESSABLE_ENTITY,
        "W0205" | "W0212" | "W0108" | "W0127" => StatusCode::UNPROCESSABLE_ENTITY,
        "W0131" => StatusCode::SERVICE_UNAVAILABLE,
        // The run of the request failed.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[derive(Debug, Deserialize)]
struct ConversationPage {
    agent: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn conversations(
    service: Service,
    Query(page): Query<ConversationPage>,
) -> Result<Json<Value>> {
    let limit = page.limit.unwrap_or(LIMIT);
    let found = service.conversations(page.agent.as_deref(), page.after.as_deref(), limit).await?;
    Ok(Json(found))
}

#[derive(Debug, Deserialize)]
struct ConversationForm {
    whole: Option<String>,
}

async fn conversation(
    service: Service,
    Path(id): Path<String>,
    Query(form): Query<ConversationForm>,
) -> Result<Json<Value>> {
    let whole = body::parse_flag(form.whole.as_deref())?;
    Ok(Json(service.conversation(&id, whole).await?))
}

async fn erase(service: Service, Path(id): Path<String>) -> Result<StatusCode> {
    service.erase_conversation(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfConversation {
    #[serde(default)]
    conversation_id: Option<String>,
}

/// Returns the conversation that a request names.
fn given(conversation: Option<String>) -> Result<String> {
    let missing = "`conversationId` is missing: records and tasks are those of a conversation";
    conversation.ok_or_else(|| ApiError::invalid(missing))
}

async fn tasks(service: Service, Query(of): Query<OfConversation>) -> Result<Json<Value>> {
    let mut found = service.conversation(&given(of.conversation_id)?, false).await?;
    Ok(Json(found["tasks"].take()))
}

/// A read of records: all of a conversation, or one with the content of a version.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordQuery {
    #[serde(default)]
    conversation_id: Option<String>,
    id: Option<String>,
    version: Option<u64>,
}

async fn read_plans(service: Service, Query(query): Query<RecordQuery>) -> Result<Response> {
    read_records(&service, Mode::Plan, query).await
}

async fn read_deliverables(service: Service, Query(query): Query<RecordQuery>) -> Result<Response> {
    read_records(&service, Mode::Build, query).await
}

async fn read_records(service: &Service, mode: Mode, query: RecordQuery) -> Result<Response> {
    let action = if query.id.is_some() { "read" } else { "list" };
    let payload = Payload {
        action: Some(action.to_owned()),
        plan_id: query.id.clone(),
        deliverable_id: query.id,
        version: query.version,
        ..Payload::default()
    };
    Ok(answer(service.record(mode, &given(query.conversation_id)?, &payload).await?))
}

/// Reads a change of records: a conversation, and an action with its details.
fn read_change(body: &Bytes) -> Result<(String, Payload)> {
    let mut members: Map<String, Value> = body::read(body)?;
    let conversation = match members.remove("conversationId") {
        Some(Value::String(conversation)) => Some(conversation),
        Some(_) => return Err(ApiError::invalid("`conversationId` is no text")),
        None => None,
    };
    let payload = serde_json::from_value(Value::Object(members));
    let payload = payload.map_err(|error| ApiError::invalid(error.to_string()))?;
    Ok((given(conversation)?, payload))
}

async fn change_plans(service: Service, body: Bytes) -> Result<Response> {
    let (conversation, payload) = read_change(&body)?;
    Ok(answer(service.record(Mode::Plan, &conversation, &payload).await?))
}

async fn change_deliverables(service: Service, body: Bytes) -> Result<Response> {
    let (conversation, payload) = read_change(&body)?;
    Ok(answer(service.record(Mode::Build, &conversation, &payload).await?))
}
