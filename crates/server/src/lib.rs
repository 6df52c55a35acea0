//! The HTTP server: the Agent Server API of LangGraph over hosted graphs, and chats in the formats
//! of assistant-ui and the AI SDK.
//!
//! Each hosted graph is an assistant. Routes translate requests to runs of a
//! [`Runtime`], and the log of a run to the events of its stream, so that
//! a client that reconnects continues after the last event it received, also after a restart of the
//! server.
//!
//! Each request is on behalf of a [`Principal`]: that of its token, the one that
//! [`Server::authenticate`] returns, or the local one if the server
//! has no tokens. Such a server listens on loopback addresses only. An operation needs a right of the
//! principal: `read`, `run`, `approve` or `admin`. Requests that name another host
//! than a loopback host or one of [`Server::allow_host`] are refused.

mod address;
mod auth;
mod awaited;
mod body;
mod chat;
mod chat_stream;
mod embedded;
mod error;
mod guard;
mod input;
mod log;
mod metrics;
mod mounted;
mod openapi;
mod operations;
mod origin;
pub mod pages;
mod protocol;
mod routes;
mod serve;
mod service;
mod setup;
mod sse;
mod translate;
mod turn_follower;
mod wording;

pub use address::{address_of, page_of_thread};
pub use auth::external::Refusal;
pub use auth::keys::{AccessKey, KeyFile, KeyFileError, KeyProblem, TokenHash};
pub use auth::{TokenError, new_token};
pub use axum::http::HeaderName;
pub use axum::http::request::Parts;
pub use chat::Protocol as ChatProtocol;
pub use embedded::EmbeddedServer;
pub use error::Refused;
pub use log::LogEntry;
pub use mounted::{FaultKind, Mounted, MountedClient, MountedOperation, name_ignored, read_json};
pub use setup::{DownloadState, ModelDownload, ModelOffer};
pub use turn_follower::{TurnFollower, TurnSource, TurnStep};

use auth::external::Authenticator;
use guard::Allowed;
use log::Log;
use mounted::ErrorForm;
use service::{Service, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::net::TcpListener;
use weftwork_runtime::Runtime;
use weftwork_types::Principal;
use weftwork_types::port::Platform;

/// The program of the guide, compiled and run as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct Guide;

/// Number of runs that wait for a slot beyond which requests for runs are refused.
const WAITING_MAX: usize = 10_000;
/// Default maximum number of connections of a server. Further connections wait until open ones end.
pub const CONNECTIONS_MAX: usize = 4_096;

/// A server over the graphs of a runtime.
#[derive(Debug, Clone)]
pub struct Server {
    runtime: Runtime,
    allowed: Allowed,
    waiting_max: usize,
    connections_max: usize,
    log: Option<Log>,
    chat: ChatProtocol,
    models: Vec<String>,
    without_images: BTreeSet<String>,
    descriptions: BTreeMap<String, String>,
    download: Option<Arc<dyn ModelDownload>>,
    platform: Option<Arc<dyn Platform>>,
    mounted: Vec<Mounted>,
    open_to_all: bool,
}

/// Error of a server that would serve everybody who reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server has no token; add one by `Server::token`, or use `Server::authenticate` or \
     `Server::open_to_all`"
)]
pub struct NoToken;

impl Server {
    /// Creates a server over the graphs of a runtime.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            allowed: Allowed::default(),
            waiting_max: WAITING_MAX,
            connections_max: CONNECTIONS_MAX,
            log: None,
            chat: ChatProtocol::default(),
            models: Vec::new(),
            without_images: BTreeSet::new(),
            descriptions: BTreeMap::new(),
            download: None,
            platform: None,
            mounted: Vec::new(),
            open_to_all: false,
        }
    }

    /// Allows requests that name this host, besides loopback names.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.allowed.hosts.push(host.into());
        self
    }

    /// Allows scripts of allowed origins to send this header when their preflight names none, besides
    /// the headers of known clients. A preflight that names headers is allowed to send them.
    #[must_use]
    pub fn allow_header(mut self, name: HeaderName) -> Self {
        self.allowed.headers.push(name);
        self
    }

    /// Sets the number of runs that wait for a slot of this process beyond which requests for runs
    /// are refused with status 429; 10,000 by default.
    #[must_use]
    pub fn waiting_max(mut self, runs: usize) -> Self {
        self.waiting_max = runs;
        self
    }

    /// Sets the maximum number of connections, at least one; 4,096 by default. Further connections
    /// wait until open ones end.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections.max(1);
        self
    }

    /// Calls a function for each answered request, and for the start and the end of each run that a
    /// client requests. The function must not block.
    #[must_use]
    pub fn log(mut self, log: impl Fn(LogEntry) + Send + Sync + 'static) -> Self {
        self.log = Some(Log::new(log));
        self
    }

    /// Sets the format of chats whose clients choose none; the UI message stream by default.
    #[must_use]
    pub fn chat_protocol(mut self, protocol: ChatProtocol) -> Self {
        self.chat = protocol;
        self
    }

    /// Offers models, as `provider:model`, of which chats may select one for their runs. The first one
    /// is that of the runs that select none. The graphs must be hosted with dependencies that open
    /// [`RunOptions::run_model`](weftwork_types::run::RunOptions::run_model). None by default.
    #[must_use]
    pub fn models(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.models = ids.into_iter().collect();
        self
    }

    /// Names the offered models that take no images. A chat that selects one of them is refused if its
    /// message has an image. None by default; the usual model is checked by the graphs.
    #[must_use]
    pub fn models_without_images(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.without_images = ids.into_iter().collect();
        self
    }

    /// Sets the description of a hosted graph, which its assistant has. None by default.
    #[must_use]
    pub fn describe(mut self, graph: impl Into<String>, description: impl Into<String>) -> Self {
        self.descriptions.insert(graph.into(), description.into());
        self
    }

    /// Offers the download of a model to principals with the right `admin`. The program uses the model
    /// when it is there. None by default.
    #[must_use]
    pub fn model_download(mut self, download: Arc<dyn ModelDownload>) -> Self {
        self.download = Some(download);
        self
    }

    /// Serves agents that are asked by their slugs, and the records that they make. None by default.
    #[must_use]
    pub fn platform(mut self, platform: Arc<dyn Platform>) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Serves the routes of a further protocol, such as those of `weftwork-openai`, for the agents of
    /// [`platform`](Self::platform) that are exposed by it.
    #[must_use]
    pub fn mount(mut self, mounted: Mounted) -> Self {
        self.allowed.operations.add(mounted.operations);
        self.allowed.error_forms.push(ErrorForm::of(&mounted));
        self.mounted.push(mounted);
        self
    }

    /// Serves a server without tokens also to other machines, and by [`router`](Self::router): every
    /// client is the local principal, with all rights. For a program that checks requests itself.
    #[must_use]
    pub fn open_to_all(mut self) -> Self {
        self.open_to_all = true;
        self
    }

    /// Accepts requests with this token, on behalf of a principal. Without any token, each request is
    /// of the local principal.
    ///
    /// # Errors
    /// [`TokenError`] if the token is short or has characters that headers cannot have.
    pub fn token(
        mut self,
        token: impl Into<String>,
        principal: Principal,
    ) -> Result<Self, TokenError> {
        self.allowed.tokens.add(token.into(), principal)?;
        Ok(self)
    }

    /// Accepts requests with the tokens of a file of keys, too, each on behalf of its principal and with
    /// its rights. Changes of the file count within a second; while the file is broken, the keys stay
    /// as they were.
    ///
    /// # Errors
    /// The file cannot be read, other users can read it, or lines are no keys.
    pub fn keys(mut self, file: KeyFile) -> Result<Self, KeyFileError> {
        self.allowed.tokens.watch(file)?;
        Ok(self)
    }

    /// Determines who makes a request by a function of the program, in place of tokens and of the
    /// sessions of the page, which are not accepted then. The function gets the head of the request,
    /// with the extensions that layers of the program added, and returns the principal on behalf of
    /// which the request is made, or refuses it with status 401 or 403. It is called for each request
    /// of each route, but for those that everyone may read (`/ok`, `/openapi.json`, and the files of
    /// the page); a WebSocket and a stream of events have the principal of their request until they
    /// end. A principal reads and changes what belongs to its organisation, as its rights allow.
    ///
    /// Requests of other hosts and origins are refused before it is called. If it panics, the request
    /// gets status 500.
    ///
    /// ```
    /// use weftwork_server::{Parts, Refusal, Server};
    /// use weftwork_types::{OrgId, Principal};
    ///
    /// # fn with_customers(server: Server) -> Server {
    /// server.authenticate(async |head: Parts| {
    ///     let customer = head.headers.get("x-customer");
    ///     let customer = customer.ok_or_else(|| Refusal::unauthorized("who are you?"))?.to_str()?;
    ///     Ok(Principal::new(OrgId::new(customer)?, customer))
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn authenticate<F, U>(mut self, function: F) -> Self
    where
        F: Fn(Parts) -> U + Send + Sync + 'static,
        U: Future<Output = Result<Principal, Refusal>> + Send + 'static,
    {
        self.allowed.authenticator = Some(Authenticator::new(function));
        self
    }

    /// Returns a ticket that opens the page at `/ui/#ticket=TICKET` once, within five minutes, on
    /// behalf of the principal of the first token of [`token`](Self::token); `None` without one.
    #[cfg(feature = "ui")]
    #[must_use]
    pub fn ticket(&self) -> Option<String> {
        let token = self.allowed.tokens.first()?;
        Some(self.allowed.tickets.add(token, self.runtime.clock().now()))
    }

    /// Returns `true` if requests from everywhere would be accepted without that being asked for.
    fn lacks_token(&self) -> bool {
        let has_clients = !self.allowed.tokens.is_empty() || self.allowed.authenticator.is_some();
        !has_clients && !self.open_to_all
    }

    /// Returns the routes, for a program that serves them itself. Streams of threads then last until
    /// their clients leave; [`embed`](Self::embed) can end them.
    ///
    /// # Errors
    /// The server has no token: on which address the program listens is not known.
    pub fn router(self) -> Result<axum::Router, NoToken> {
        Ok(self.embed()?.router())
    }

    /// Returns the routes, for a program that serves them beside its own, with the end of their
    /// streams.
    ///
    /// # Errors
    /// As [`router`](Self::router).
    pub fn embed(self) -> Result<EmbeddedServer, NoToken> {
        if self.lacks_token() {
            return Err(NoToken);
        }
        let (router, service) = self.with_service();
        Ok(EmbeddedServer::new(router, service))
    }

    fn with_service(self) -> (axum::Router, Service) {
        let Self {
            runtime,
            allowed,
            waiting_max,
            log,
            chat,
            models,
            without_images,
            descriptions,
            download,
            platform,
            mounted,
            ..
        } = self;
        let settings = Settings {
            waiting_max,
            chat,
            models,
            without_images,
            descriptions,
            download,
            platform,
            mounted: mounted.iter().flat_map(|of| of.operations).copied().collect(),
            log,
        };
        let service = Service::new(runtime, settings);
        (routes::router(service.clone(), allowed, mounted), service)
    }

    /// Serves requests until `stop` completes, and then finishes the accepted requests. Runs continue.
    ///
    /// # Errors
    /// The error of the listener; `PermissionDenied` if it listens on an address that other machines
    /// reach, and the server has no token.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let address = listener.local_addr()?;
        if self.lacks_token() && !address.ip().is_loopback() {
            let reason = format!(
                "{address} is not a loopback address, and the server has no token; add one, or \
                 listen on 127.0.0.1"
            );
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason));
        }
        let connections_max = self.connections_max;
        let (router, service) = self.with_service();
        let stop = async move {
            stop.await;
            service.stop();
        };
        serve::serve(listener, router, connections_max, stop).await
    }
}
