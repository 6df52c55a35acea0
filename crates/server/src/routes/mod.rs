//! The routes: one file for each group.

mod assistants;
mod info;
mod page;
mod runs;
mod state;
mod threads;

use crate::guard::{self, Allowed};
use crate::service::Service;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::{Router, http::StatusCode};
use std::sync::Arc;

/// Maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Returns the router of a service.
pub(crate) fn router(service: Service, allowed: Allowed) -> Router {
    Router::new()
        .merge(info::routes())
        .merge(assistants::routes())
        .merge(threads::routes())
        .merge(state::routes())
        .merge(runs::routes())
        .fallback(async || crate::error::ApiError::new(StatusCode::NOT_FOUND, "Not Found"))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::new(allowed), guard::check))
        .with_state(service)
}
