//! The routes: one file for each group.

mod agents;
mod assistants;
mod chat;
mod extract;
mod info;
mod interrupts;
mod orchestrations;
mod page;
mod protocol;
mod runs;
mod setup;
mod state;
mod store;
mod threads;
#[cfg(feature = "ui")]
mod ui;
mod usage;

pub(crate) use runs::task_caller;

use crate::error::ApiError;
use crate::guard::{self, Allowed};
use crate::mounted::{self, Mounted};
use crate::service::Service;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// Returns the router of a service.
pub(crate) fn router(service: Service, allowed: Allowed, mounted: Vec<Mounted>) -> Router {
    let guard = (Arc::new(allowed), service.clone());
    let router = Router::new();
    #[cfg(feature = "ui")]
    let router = router.merge(ui::routes(guard.clone()));
    let router = mounted
        .into_iter()
        .fold(router, |router, mounted| router.merge(mounted::routes(mounted, &service)));
    router
        .merge(info::routes())
        .merge(agents::routes())
        .merge(orchestrations::routes())
        .merge(assistants::routes())
        .merge(chat::routes())
        .merge(setup::routes())
        .merge(interrupts::routes())
        .merge(threads::routes())
        .merge(state::routes())
        .merge(runs::routes())
        .merge(protocol::routes())
        .merge(store::routes())
        .merge(usage::routes())
        .fallback(async || ApiError::not_found())
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
        // The guard limits bodies.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(guard, guard::check_request))
        .with_state(service)
}
