//! `/ok` and `/info`.

use crate::service::Service;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Service> {
    Router::new().route("/ok", get(ok)).route("/", get(ok)).route("/info", get(info))
}

async fn ok() -> Json<Value> {
    Json(json!({"ok": true}))
}

async fn info() -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "flags": {"assistants": true, "crons": false, "langsmith": false},
        "host": {"kind": "self-hosted"},
    }))
}
