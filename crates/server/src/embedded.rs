//! A server within a program that has routes of its own.

use crate::service::Service;
use axum::Router;

/// The routes of a server, for a program that serves them beside its own, and the end of their
/// streams.
///
/// A client may follow a thread for as long as it likes, so that a graceful end of the program needs
/// [`stop`](Self::stop): it ends the streams of events and the WebSockets that do not end by
/// themselves.
#[derive(Debug, Clone)]
pub struct EmbeddedServer {
    router: Router,
    service: Service,
}

impl EmbeddedServer {
    pub(crate) fn new(router: Router, service: Service) -> Self {
        Self { router, service }
    }

    /// Returns the routes, for [`axum::Router::merge`]. Their paths are absolute, so that they cannot
    /// be nested under another path.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Ends the streams that do not end by themselves, and those of later requests. Runs continue.
    pub fn stop(&self) {
        self.service.stop();
    }
}
