//! Runs as streams of server-sent events.

use crate::error::ApiError;
use crate::service::Service;
use crate::translate::rows;
use crate::translate::stream::Translator;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use weftwork_runtime::OutputStream;
use weftwork_types::event::Position;
use weftwork_types::run::{CancelAction, RunRef};

/// Interval of comments that keep an idle connection open.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Returns the response that streams a run: `metadata` if it begins with the first frame, the
/// frames, and `error` or `end` if the run has ended.
pub(crate) fn response(
    service: Service,
    run: RunRef,
    frames: OutputStream,
    translator: Translator,
    on_leave: Option<CancelOnDrop>,
) -> Response {
    // A client that received nothing else continues with the first frame.
    let id = Position::START.to_string();
    let metadata = translator.metadata().map(|(name, data)| sse_event(&name, &data).id(&id));
    let open = service.open_stream();
    let revoked = Box::pin(service.revoked());
    let events = stream::iter(metadata).chain(frames_of(frames, translator, on_leave));
    let end = stream::once(async move {
        match Box::pin(service.ending(&run)).await {
            Ok(Some(outcome)) => Some(match rows::failure_of(&outcome) {
                Some(failure) => sse_event("error", &json!(failure)),
                None => sse_event("end", &Value::Null),
            }),
            // This process stops, and another process continues the run: clients connect again.
            Ok(None) => None,
            Err(error) => Some(sse_event("error", &unreadable_run(&error))),
        }
    });
    let events = events.chain(end.filter_map(std::future::ready)).take_until(revoked);
    let events = events.map(move |event| {
        // The stream is open as long as its events are read.
        let _open = &open;
        Ok::<_, Infallible>(event)
    });
    respond(events)
}

/// Returns the response that streams events.
pub(crate) fn respond(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    let kind = axum::http::HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert("content-type", kind);
    headers.insert("cache-control", axum::http::HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    response
}

fn frames_of(
    frames: OutputStream,
    mut translator: Translator,
    on_leave: Option<CancelOnDrop>,
) -> impl Stream<Item = Event> {
    // The guard lives as long as the frames are read.
    let mut on_leave = on_leave;
    let ended = stream::once(async { None });
    frames.map(Some).chain(ended).flat_map(move |frame| {
        let events = match frame {
            Some(Ok(frame)) => {
                let events = translator.events(frame.output);
                let id = if events.is_empty() { String::new() } else { translator.id() };
                events.into_iter().map(|(name, data)| sse_event(&name, &data).id(&id)).collect()
            }
            Some(Err(error)) => vec![sse_event("error", &unreadable_run(&error.into()))],
            None => {
                if let Some(guard) = on_leave.take() {
                    guard.disarm();
                }
                Vec::new()
            }
        };
        stream::iter(events)
    })
}

fn sse_event(name: &str, data: &Value) -> Event {
    // A line break in a name, which graphs choose, would begin another field.
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    Event::default().event(name).data(data.to_string())
}

fn unreadable_run(error: &ApiError) -> Value {
    json!({"error": "StreamError", "message": error.detail()})
}

/// Cancels a run when it is dropped, because its client left.
pub(crate) struct CancelOnDrop(Option<(Service, RunRef)>);

impl CancelOnDrop {
    pub(crate) fn new(service: Service, run: RunRef) -> Self {
        Self(Some((service, run)))
    }

    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((service, run)) = self.0.take() else { return };
        tokio::spawn(async move {
            if let Err(error) = service.cancel(&run, CancelAction::Interrupt, false).await {
                tracing::debug!(?error, run = %run.run, "a run whose client left is not cancelled");
            }
        });
    }
}
