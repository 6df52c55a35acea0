//! The protocol of commands and events of threads.

use crate::body;
use crate::error::{ApiError, Result};
use crate::protocol::command;
use crate::protocol::event::Event;
use crate::protocol::filter::{Filter, FilterBody};
use crate::protocol::tape::{self, Selection, Since};
use crate::protocol::{reply, socket};
use crate::service::Service;
use crate::sse;
use crate::translate::partial::PartialMessages;
use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response, sse as stream};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt;
use futures_util::future::select;
use serde_json::{Value, json};
use std::convert::Infallible;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads/{id}/commands", post(commands))
        .route("/threads/{id}/stream/events", post(events).get(upgrade))
}

async fn commands(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let thread = service.thread_id(&id).await?;
    let command = body::read_json(&body)?;
    let command = match command::Command::read(command) {
        Ok(command) => command,
        Err(refused) => return Ok(Json(refused)),
    };
    Ok(Json(command::carry_out(&service, &thread, command).await?))
}

async fn events(
    service: Service,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let thread = service.thread_id(&id).await?;
    let body: FilterBody = body::read(&body)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.filter(|_| body.since.is_none()).map(LastEvent::read).transpose()?;
    let since = match (&body.since, &last) {
        (Some(since), _) => Some(Since::read(since)?),
        (None, Some(last)) => Some(Since::read(&json!(last.event))?),
        (None, None) => None,
    };
    let filter = Filter::read(body).map_err(ApiError::invalid)?;
    let mut begin = service.begin(&thread, since.as_ref()).await?;
    begin.received = last.map(|last| last.received.to_owned()).unwrap_or_default();
    let open = service.open_stream();
    let stopped = select(Box::pin(service.stopped()), Box::pin(service.revoked()));
    let selection = Selection { filter, begin };
    let from = selection.begin.from.clone();
    let events = tape::follow_events(service, &thread, from, std::slice::from_ref(&selection));
    let events = events.take_until(stopped).filter_map(move |event| {
        // The stream is open as long as its events are read.
        let _open = &open;
        let event = match event {
            Ok(numbered) => selection.has(&numbered).then(|| to_sse(&numbered.event)),
            Err(error) => Some(error_to_sse(&error)),
        };
        std::future::ready(event.map(Ok::<_, Infallible>))
    });
    Ok(sse::respond(events))
}

fn to_sse(event: &Event) -> stream::Event {
    let data = event.to_json().to_string();
    stream::Event::default().event(event.channel.method()).data(data).id(event.stream_id())
}

/// The last event that a client received, as its header names it.
struct LastEvent<'a> {
    /// Number or id of the event.
    event: &'a str,
    /// Text that the client has of unfinished messages.
    received: &'a str,
}

impl<'a> LastEvent<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, received) = text.split_at(end);
        // Ids of events begin with the id of a run.
        if number.is_empty() || !(received.is_empty() || received.starts_with('-')) {
            return Ok(Self { event: text, received: "" });
        }
        match PartialMessages::read(received) {
            Some(_) => Ok(Self { event: number, received }),
            None if text.contains(':') => Ok(Self { event: text, received: "" }),
            None => Err(ApiError::invalid(format!(
                "`last-event-id` is `{text}`; expected the id of an event of this stream"
            ))),
        }
    }
}

fn error_to_sse(error: &ApiError) -> stream::Event {
    let data = reply::error(Value::Null, "unknown_error", error.detail());
    stream::Event::default().event("error").data(data.to_string())
}

async fn upgrade(
    service: Service,
    Path(id): Path<String>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let thread = service.thread_id(&id).await?;
    let upgrade = upgrade.map_err(|refused| {
        let detail = format!("expected a request for a WebSocket: {}", refused.body_text());
        ApiError::new(StatusCode::UPGRADE_REQUIRED, detail)
    })?;
    let Some(permit) = service.socket() else {
        let detail = "too many WebSockets are open; try again later";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let upgrade = upgrade
        .max_message_size(socket::MESSAGE_BYTES_MAX)
        .max_frame_size(socket::MESSAGE_BYTES_MAX);
    let open = service.open_stream();
    let response = upgrade.on_upgrade(move |connection| async move {
        socket::serve(connection, service, thread).await;
        drop((open, permit));
    });
    Ok(response.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_shape_of_refused_commands() {
        let data = reply::error(Value::Null, "unknown_error", "x");
        let expected =
            json!({"type": "error", "id": null, "error": "unknown_error", "message": "x"});
        assert_eq!(data, expected);
    }
}
