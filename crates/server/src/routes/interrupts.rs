//! `/interrupts`: what waits for a person, in all threads, and `/artifacts`: values by reference.

use crate::body;
use crate::error::{ApiError, Result};
use crate::service::{Query, Service};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_types::Right;

/// Number of questions of a page without a limit.
const LIMIT: usize = 50;
/// Maximum number of questions of a page.
const LIMIT_MAX: usize = 1_000;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/interrupts", get(list))
        .route("/interrupts/{id}/respond", post(respond))
        .route("/artifacts/{*id}", get(artifact))
}

#[derive(Debug, Deserialize)]
struct InterruptPage {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    answered: Option<String>,
    #[serde(default)]
    thread_id: Option<String>,
}

async fn list(
    service: Service,
    Query(InterruptPage { limit, offset, answered, thread_id }): Query<InterruptPage>,
) -> Result<(HeaderMap, Json<Value>)> {
    let limit = limit.unwrap_or(LIMIT);
    if limit > LIMIT_MAX {
        return Err(ApiError::invalid(format!("`limit` is at most {LIMIT_MAX}")));
    }
    let thread = match thread_id {
        Some(thread) => Some(service.thread_id(&thread).await?),
        None => None,
    };
    if body::parse_flag(answered.as_deref())? {
        if offset > 0 {
            return Err(ApiError::invalid(format!(
                "`offset` is {offset}, but `answered=true` lists the newest answers only; leave \
                 `offset` out and raise `limit`"
            )));
        }
        let found = match thread {
            Some(thread) => service.answered_questions_of(&thread, limit).await?,
            None => service.answered_questions(limit).await?,
        };
        return Ok((HeaderMap::new(), Json(found.into())));
    }
    let (page, count) = service.open_questions(thread.as_ref(), offset, limit).await?;
    let mut headers = HeaderMap::new();
    headers.insert("x-pagination-total", HeaderValue::from(count));
    let end = offset.saturating_add(page.len());
    if end < count && !page.is_empty() {
        headers.insert("x-pagination-next", HeaderValue::from(end));
    }
    Ok((headers, Json(page.into())))
}

/// Takes an answer: a decision about a call, or the value of `answer`. `further` has those to other
/// questions of the thread, by their ids.
async fn respond(
    service: Service,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>)> {
    let body: Value = body::read(&body)?;
    let Value::Object(mut answer) = body else {
        return Err(ApiError::invalid("expected an object: a decision, or `answer`"));
    };
    let mut answers = match answer.remove("further") {
        None => BTreeMap::new(),
        Some(Value::Object(further)) => further.into_iter().collect(),
        Some(_) => {
            return Err(ApiError::invalid(
                "`further` is no object; expected the answers to other questions by their ids",
            ));
        }
    };
    answers.insert(id, Value::Object(answer));
    let key = super::runs::read_key(&headers)?;
    let run = service.respond(&answers, key.as_deref()).await?;
    let shown = json!({"thread_id": run.thread, "run_id": run.run});
    Ok((StatusCode::ACCEPTED, Json(shown)))
}

#[derive(Deserialize)]
struct ArtifactQuery {
    #[serde(default)]
    form: ArtifactForm,
}

/// The form of a value that a request names.
#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ArtifactForm {
    /// The members that the tool declares as shown.
    #[default]
    Shown,
    /// The value as the model reads it, for principals with the right `admin`.
    Whole,
}

async fn artifact(
    service: Service,
    Path(id): Path<String>,
    Query(query): Query<ArtifactQuery>,
) -> Result<Json<Value>> {
    match query.form {
        ArtifactForm::Shown => service.artifact(&id).await.map(Json),
        ArtifactForm::Whole => {
            service.require(Right::Admin)?;
            service.whole_artifact(&id).await.map(Json)
        }
    }
}
