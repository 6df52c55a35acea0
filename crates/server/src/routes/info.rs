//! `/ok`, `/health`, `/info`, `/metrics` and the description of the routes.

use crate::body::parse_flag;
use crate::error::Result;
use crate::openapi;
use crate::service::{Query, Service};
use crate::translate::names;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/ok", get(ok))
        .route("/", get(ok))
        .route("/health", get(async || Json(json!({"status": "ok"}))))
        .route("/info", get(info))
        .route("/metrics", get(metrics))
        .route(
            "/openapi.json",
            get(async |State(all): State<Service>| Json(openapi::document(all.mounted()))),
        )
        .route("/schemas/events", get(events))
        .route("/docs", get(async |State(all): State<Service>| Html(openapi::page(all.mounted()))))
}

#[derive(Debug, Deserialize)]
struct Ok {
    #[serde(default)]
    check_db: Option<String>,
}

/// The JSON Schema of the events of runs.
async fn events(_: Service) -> Json<Value> {
    Json(weftwork_types::schema::events())
}

/// Answers for anyone, so it takes the service of no principal.
async fn ok(
    State(service): State<Service>,
    Query(Ok { check_db }): Query<Ok>,
) -> Result<Json<Value>> {
    if parse_flag(check_db.as_deref())? {
        service.check_store().await?;
    }
    Result::Ok(Json(json!({"ok": true, "services": {}})))
}

async fn info(_: Service) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "langgraph_py_version": names::LANGGRAPH,
        "flags": {
            "assistants": true,
            "crons": false,
            "langsmith": false,
            "langsmith_tracing_replicas": false,
            "langsmith_tracing_session_on_runs": false,
        },
        "host": {
            "kind": "self-hosted",
            "project_id": null,
            "host_revision_id": null,
            "revision_id": null,
            "tenant_id": null,
        },
    }))
}

#[derive(Debug, Deserialize)]
struct MetricsFormat {
    #[serde(default)]
    format: Option<String>,
}

async fn metrics(
    service: Service,
    Query(MetricsFormat { format }): Query<MetricsFormat>,
) -> Response {
    let metrics = service.metrics();
    match format.as_deref() {
        Some("json") => Json(metrics.json()).into_response(),
        _ => {
            let kind = [("content-type", "text/plain; version=1.0.0; charset=utf-8")];
            (kind, metrics.prometheus()).into_response()
        }
    }
}
