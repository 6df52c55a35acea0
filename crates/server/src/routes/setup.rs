//! `/setup`, the model of a first run, and `/errors`, the pages of error codes.

use crate::error::{ApiError, Result};
use crate::pages;
use crate::service::Service;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/setup", get(setup))
        .route("/setup/download", post(download))
        .route("/errors/{code}", get(error_page))
}

async fn setup(service: Service) -> Json<Value> {
    let offer = service.download().map(|download| download.offer());
    Json(json!({"download": offer}))
}

async fn download(service: Service) -> Result<StatusCode> {
    let download = service.download().ok_or_else(|| {
        ApiError::missing("the server offers no model; it uses the one that it was started with")
    })?;
    download.begin();
    Ok(StatusCode::ACCEPTED)
}

async fn error_page(Path(code): Path<String>) -> Result<Response> {
    let page = pages::find_page(&code.to_uppercase())
        .ok_or_else(|| ApiError::missing("there is no such code; codes look like `W0302`"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}
