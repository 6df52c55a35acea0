//! JSON that arrives after the headers of its response.
//!
//! The headers name the place where the values can be asked for again, so a client whose connection
//! is cut while a run is executed continues to wait there.

use crate::error::{ApiError, Result};
use crate::service::Service;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, select};
use futures_util::stream;
use serde_json::Value;
use std::time::Duration;
use weftwork_types::BoxFuture;

/// Interval of line breaks before the JSON, which keep an idle connection open.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Returns a response whose body is the values, once they are there. If there are none, the
/// connection is cut.
pub(crate) fn response(
    service: Service,
    mut headers: HeaderMap,
    values: BoxFuture<'static, Result<Value>>,
) -> Response {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let parts = stream::unfold(Some(values), move |values| {
        let service = service.clone();
        async move {
            match select(values?, service.pause(HEARTBEAT)).await {
                Either::Left((values, _)) => Some((body_of_values(values), None)),
                Either::Right(_) if !service.is_authorized() => {
                    let revoked = "the token was revoked or changed";
                    Some((Err(std::io::Error::other(revoked)), None))
                }
                Either::Right(((), values)) => Some((Ok(Bytes::from_static(b"\n")), Some(values))),
            }
        }
    });
    (headers, Body::from_stream(parts)).into_response()
}

fn body_of_values(values: Result<Value>) -> std::io::Result<Bytes> {
    let refuse = |error: ApiError| std::io::Error::other(error.detail().to_owned());
    values.map(|values| values.to_string().into()).map_err(refuse)
}
