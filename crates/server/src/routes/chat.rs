//! `/chat`: conversations, for front ends that are built on assistant-ui or the AI SDK.

use crate::body;
use crate::chat::Protocol;
use crate::chat::request::ChatRequest;
use crate::chat_stream::{self, Extent};
use crate::error::{ApiError, Result};
use crate::service::{Query, Service};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork_types::run::CancelAction;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/models", get(models))
        .route("/chat/{agent}", post(say))
        .route("/chat/{agent}/{thread}", get(messages))
        .route("/chat/{agent}/{thread}/stream", get(resume))
        .route("/chat/{agent}/{thread}/cancel", post(cancel))
}

#[derive(Debug, Deserialize)]
struct ChatFormat {
    #[serde(default)]
    protocol: Option<String>,
}

impl ChatFormat {
    /// Returns the format of the response: the parameter, the header `accept`, or the usual one.
    fn chosen(&self, service: &Service, headers: &HeaderMap) -> Result<Protocol> {
        if let Some(name) = self.protocol.as_deref().filter(|name| !name.is_empty()) {
            let known = Protocol::ALL.iter().find(|(_, known)| *known == name);
            return known.map(|(protocol, _)| *protocol).ok_or_else(|| {
                let known: Vec<_> = Protocol::ALL.iter().map(|(_, name)| *name).collect();
                ApiError::invalid(format!(
                    "protocol `{name}` is not known; expected {}",
                    known.join(" or ")
                ))
            });
        }
        let accept =
            headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kinds = || accept.split(',').filter_map(|kind| kind.split(';').next()).map(str::trim);
        Ok(if kinds().any(|kind| kind == "text/event-stream") {
            Protocol::UiMessageStream
        } else if kinds().any(|kind| kind == "text/plain") {
            Protocol::DataStream
        } else {
            service.chat_protocol()
        })
    }
}

async fn models(service: Service) -> Json<Value> {
    let models = service.models().iter().map(|id| json!({"id": id})).collect();
    Json(Value::Array(models))
}

async fn say(
    service: Service,
    Path(agent): Path<String>,
    Query(format): Query<ChatFormat>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let protocol = format.chosen(&service, &headers)?;
    let body: Value = body::read(&body)?;
    let request = ChatRequest::read(&body)?;
    let key = super::runs::read_key(&headers)?;
    let message = service.chat(&agent, &request, key.as_deref()).await?;
    Ok(chat_stream::response(service, message, protocol, Extent::LastRun))
}

async fn resume(
    service: Service,
    Path((agent, thread)): Path<(String, String)>,
    Query(format): Query<ChatFormat>,
    headers: HeaderMap,
) -> Result<Response> {
    let protocol = format.chosen(&service, &headers)?;
    let Some(message) = service.current_message(&agent, &thread).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    Ok(chat_stream::response(service, message, protocol, Extent::Whole))
}

#[derive(Debug, Deserialize)]
struct Cancel {
    /// Answers once the run has ended.
    #[serde(default)]
    wait: Option<String>,
}

async fn cancel(
    service: Service,
    Path((agent, thread)): Path<(String, String)>,
    Query(Cancel { wait }): Query<Cancel>,
) -> Result<StatusCode> {
    let message = service.current_message(&agent, &thread).await?;
    let run = message.as_ref().and_then(|message| message.runs.last());
    let (run, _) = run.ok_or_else(|| ApiError::missing("no message is being produced"))?;
    let wait = body::parse_flag(wait.as_deref())?;
    service.cancel(run, CancelAction::Interrupt, wait).await?;
    Ok(if wait { StatusCode::OK } else { StatusCode::ACCEPTED })
}

#[derive(Debug, Deserialize)]
struct Listed {
    /// Number of turns, of which each begins with a message of the user; all without it.
    #[serde(default)]
    limit: Option<usize>,
    /// Selects the messages that were replaced or rolled back, in place of the others.
    #[serde(default)]
    replaced: Option<String>,
}

async fn messages(
    service: Service,
    Path((agent, thread)): Path<(String, String)>,
    Query(Listed { limit, replaced }): Query<Listed>,
) -> Result<Json<Value>> {
    let found = match body::parse_flag(replaced.as_deref())? {
        true => chat_stream::replaced_messages(service, &agent, &thread).await?,
        false => chat_stream::messages(service, &agent, &thread, limit).await?,
    };
    Ok(Json(found.into()))
}
