//! The HTTP server for clients of LangGraph: its Agent Server API over hosted graphs.
//!
//! Each hosted graph is an assistant. Routes translate requests to runs of a
//! [`Runtime`], and the log of a run to the events of its stream, so that
//! a client that reconnects continues after the last event it received, also after a restart of the
//! server.
//!
//! The server has no authentication. It answers only requests that name a loopback host or one of
//! [`Server::allow_host`].

mod body;
mod error;
mod guard;
mod routes;
mod service;
mod sse;
mod translate;

use guard::Allowed;
use service::Service;
use tokio::net::TcpListener;
use weftwork_runtime::Runtime;

/// A server over the graphs of a runtime.
#[derive(Debug, Clone)]
pub struct Server {
    runtime: Runtime,
    allowed: Allowed,
}

impl Server {
    /// Creates a server over the graphs of a runtime.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, allowed: Allowed::default() }
    }

    /// Allows requests that name this host, besides loopback names.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.allowed.hosts.push(host.into());
        self
    }

    /// Returns the routes, for a program that serves them itself.
    pub fn router(self) -> axum::Router {
        routes::router(Service::new(self.runtime), self.allowed)
    }

    /// Serves requests until `stop` completes, and then those that were accepted. Runs go on.
    ///
    /// # Errors
    /// The error of the listener.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(stop).await
    }
}
