//! `/orchestrations`: what orchestrations wait for, and the actions on them.

use super::agents::answer;
use super::runs::task_caller;
use crate::body;
use crate::error::{ApiError, Result};
use crate::service::{Query, Service};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::task::{Payload, TaskRequest};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/orchestrations", get(list))
        .route("/orchestrations/{id}", get(show))
        .route("/orchestrations/{id}/{action}", post(act))
}

#[derive(Debug, Deserialize)]
struct OfAgent {
    agent: Option<String>,
}

async fn list(service: Service, Query(of): Query<OfAgent>) -> Result<Json<Value>> {
    Ok(Json(service.orchestrations(of.agent.as_deref()).await?))
}

async fn show(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    Ok(Json(service.orchestration(&id).await?))
}

/// Details of an action.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ActionBody {
    expires_in: Option<String>,
    token: Option<String>,
    approval_id: Option<String>,
    /// Values in place of those that a person approves.
    input: Option<Value>,
    message: String,
    step: Option<String>,
    confirm: Option<String>,
}

/// The address of an action.
#[derive(Debug, Deserialize)]
struct ActionAddress {
    id: String,
    action: String,
}

async fn act(
    service: Service,
    Path(at): Path<ActionAddress>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let body: ActionBody = if body.is_empty() { ActionBody::default() } else { body::read(&body)? };
    let (action, decision) = match at.action.as_str() {
        "approve" if body.input.is_some() => ("human-response", Some("edit")),
        "approve" => ("human-response", Some("approve")),
        "reject" => ("human-response", Some("reject")),
        other @ ("continue" | "pause" | "resume" | "rollback") => (other, None),
        other => {
            let expected = "`continue`, `pause`, `resume`, `approve`, `reject` or `rollback`";
            return Err(ApiError::missing(format!(
                "there is no action `{other}` on orchestrations; expected {expected}"
            )));
        }
    };
    let found = service.orchestration(&at.id).await?;
    let payload = Payload {
        orchestration_action: Some(action.to_owned()),
        decision: decision.map(str::to_owned),
        expires_in: body.expires_in,
        token: body.token,
        approval_id: body.approval_id,
        step: body.step,
        confirm: body.confirm,
        ..Payload::default()
    };
    let request = TaskRequest {
        agent: found["agent"].as_str().unwrap_or_default().to_owned(),
        user_message: body.message,
        input: body.input,
        conversation_id: Some(at.id),
        payload,
        ..TaskRequest::default()
    };
    Ok(answer(service.ask_agent(request, task_caller(&service, &headers)?).await?))
}
