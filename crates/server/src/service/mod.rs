//! The operations behind the routes: hosted graphs, assistants, threads, runs,
//! conversations, questions and items of a principal.

mod agents;
mod aliases;
mod answered;
mod artifacts;
mod assistants;
mod cards;
mod chat;
mod deleted;
mod exposure;
mod graphs;
mod inbox;
mod invented;
mod items;
mod protocol;
mod run_log;
mod runs;
mod state_messages;
mod states;
mod threads;
mod tools;
mod usage;

pub(crate) use agents::refused;
pub(crate) use assistants::Changes;
pub(crate) use chat::{MessageRuns, StoredTurn, USER_SUFFIX};
pub(crate) use runs::{Admission, Bulk, FollowStart, Started};
pub(crate) use threads::{LastRun, Superstep, Wanted};
pub(crate) use usage::AnswerUsage;

use self::aliases::Aliases;
use crate::auth::Client;
use crate::chat::Protocol;
use crate::error::{ApiError, Result};
use crate::log::Log;
use crate::metrics::{Counts, Metrics, OpenStream};
use crate::mounted::MountedOperation;
use crate::setup::ModelDownload;
use crate::translate::rows;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, watch};
use weftwork_runtime::Runtime;
use weftwork_store::{ItemStore, RunRow, Store, StoreError, StoreItems};
use weftwork_types::caller::Caller;
use weftwork_types::port::{BudgetError, Platform, RunHandle};
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{Principal, Right, RunId, Timestamp};

/// Maximum number of WebSockets. Further ones are refused with status 503.
const SOCKETS_MAX: usize = 1_024;

/// Maximum time for which a stream outlives the token of its client.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// The operations of one server on behalf of a principal.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    state: Arc<ServiceState>,
    client: Client,
}

#[derive(Debug)]
struct ServiceState {
    runtime: Runtime,
    items: Arc<dyn ItemStore>,
    /// Time at which the server started.
    since: Timestamp,
    /// Names of the hosted graphs by their ids: the part after the colon where it is unique.
    names: BTreeMap<String, String>,
    /// Held while an assistant is read and written.
    assistants: Mutex<()>,
    aliases: Mutex<Aliases>,
    counts: Counts,
    settings: Settings,
    /// Permits of WebSockets.
    sockets: Arc<Semaphore>,
    /// `true` once the server stops, which ends the streams that do not end by themselves.
    stopping: watch::Sender<bool>,
}

/// Settings of the operations.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Number of runs that wait for a slot beyond which requests for runs are refused.
    pub(crate) waiting_max: usize,
    /// Format of chats whose clients choose none.
    pub(crate) chat: Protocol,
    /// Models of which chats select one; the first one is that of the graphs.
    pub(crate) models: Vec<String>,
    /// Offered models that take no images.
    pub(crate) without_images: BTreeSet<String>,
    /// Descriptions of hosted graphs by their ids.
    pub(crate) descriptions: BTreeMap<String, String>,
    pub(crate) download: Option<Arc<dyn ModelDownload>>,
    /// Agents that are asked by their slugs.
    pub(crate) platform: Option<Arc<dyn Platform>>,
    /// Operations of mounted protocols.
    pub(crate) mounted: Vec<MountedOperation>,
    pub(crate) log: Option<Log>,
}

impl Service {
    pub(crate) fn new(runtime: Runtime, settings: Settings) -> Self {
        let since = runtime.clock().now();
        let names = short_names(&runtime.graphs().map(|(id, _)| id).collect::<Vec<_>>());
        let store = Arc::clone(runtime.store());
        let clock = Arc::clone(runtime.clock());
        let items = Arc::new(StoreItems::of(store, clock));
        let assistants = Mutex::default();
        let counts = Counts::default();
        let aliases = Mutex::default();
        let state = ServiceState {
            runtime,
            items,
            since,
            names,
            assistants,
            aliases,
            counts,
            settings,
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            stopping: watch::Sender::default(),
        };
        Self { state: Arc::new(state), client: Client::local(Principal::local()) }
    }

    /// Returns a run as clients see it.
    pub(crate) fn shown(&self, row: &RunRow) -> Value {
        rows::run_to_json(row, self.name_of(&row.new.graph))
    }

    /// Counts an answered request.
    pub(crate) fn count(&self, method: &Method, status: u16) {
        self.state.counts.count(method, status);
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.state.settings.log.as_ref()
    }

    pub(crate) fn open_stream(&self) -> OpenStream {
        self.state.counts.open_stream()
    }

    /// Returns a permit for a WebSocket; `None` if there are too many.
    pub(crate) fn socket(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.state.sockets).try_acquire_owned().ok()
    }

    /// Ends the streams that do not end by themselves.
    pub(crate) fn stop(&self) {
        self.state.stopping.send_replace(true);
    }

    /// Waits until the server stops. Cancel safe.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.state.stopping.subscribe();
        // Fails when the server is dropped, which ends it, too.
        async move { stopping.wait_for(|stopping| *stopping).await.map(drop).unwrap_or_default() }
    }

    /// Returns `false` if the token of the client was revoked, or has other rights now.
    pub(crate) fn is_authorized(&self) -> bool {
        self.client.is_current(self.now())
    }

    /// Waits until the token of the client is revoked; forever for a token that cannot be revoked. Cancel
    /// safe.
    pub(crate) fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        let service = self.clone();
        async move {
            if !service.client.is_of_file() {
                return std::future::pending().await;
            }
            while service.is_authorized() {
                service.pause(REVOKED_WITHIN).await;
            }
        }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let peers = self.state.settings.platform.as_deref().map(Platform::peers);
        self.state.counts.with(self.state.runtime.load(), peers)
    }

    /// Checks that the store answers.
    pub(crate) async fn check_store(&self) -> Result<()> {
        let nobody = RunId::from_uuid(uuid::Uuid::nil());
        match self.store().find_run(self.who(), &nobody).await {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.state.runtime
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.state.runtime.store()
    }

    fn items(&self) -> &dyn ItemStore {
        self.state.items.as_ref()
    }

    fn waiting_max(&self) -> usize {
        self.state.settings.waiting_max
    }

    pub(crate) fn models(&self) -> &[String] {
        &self.state.settings.models
    }

    pub(crate) fn mounted(&self) -> &[MountedOperation] {
        &self.state.settings.mounted
    }

    pub(crate) fn download(&self) -> Option<&dyn ModelDownload> {
        self.state.settings.download.as_deref()
    }

    pub(crate) fn chat_protocol(&self) -> Protocol {
        self.state.settings.chat
    }

    /// Follows a run from its first event.
    pub(crate) async fn follow(&self, run: &RunRef) -> Result<RunHandle> {
        Ok(self.runtime().follow_run(self.who(), run).await?.into_handle())
    }

    pub(crate) fn who(&self) -> &Principal {
        &self.client.principal
    }

    /// Returns options of a run with the span in which the client requests it.
    fn within_trace(&self, options: RunOptions) -> RunOptions {
        RunOptions { parent_span: self.client.parent_span(), ..options }
    }

    /// Returns the caller of a run that the client requests.
    pub(crate) fn caller(&self) -> Caller {
        self.client.caller()
    }

    /// Checks a right of the client that depends on the body of a request.
    ///
    /// # Errors
    /// Status 403 if the client does not have it.
    pub(crate) fn require(&self, right: Right) -> Result<()> {
        let rights = self.who().rights;
        if rights.has(right) { Ok(()) } else { Err(ApiError::lacking(&[right], rights)) }
    }

    /// Checks the rights of the client for a run with an input: answers by any route come here.
    ///
    /// # Errors
    /// Status 403 if the client lacks one.
    fn require_for(&self, input: &RunInput) -> Result<()> {
        if input.is_answer() {
            self.require(Right::Approve)?;
        }
        match input {
            RunInput::Command(command) if input.is_answer() && command.only_answers() => Ok(()),
            _ => self.require(Right::Run),
        }
    }

    /// Checks the rights and the limits of the client for a run that it starts, and counts it.
    ///
    /// # Errors
    /// Status 403 if the client lacks a right, 429 if a limit of its account or key is reached.
    async fn admit_run(&self, input: &RunInput) -> Result<()> {
        self.require_for(input)?;
        self.admit_start(1).await
    }

    /// Checks the limits of the client for a request that starts runs, and counts it. Called before
    /// anything is stored.
    ///
    /// # Errors
    /// Status 429 if a limit of its account or key is reached.
    pub(crate) async fn admit_start(&self, runs: u64) -> Result<()> {
        let admitted = self.runtime().admit_start(&self.caller(), runs).await;
        admitted.map_err(|error| match error {
            BudgetError::Limit(reached) => ApiError::limited(&reached, self.now()),
            error => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.runtime.clock().now()
    }

    fn since(&self) -> Timestamp {
        self.state.since
    }

    async fn lock_assistants(&self) -> MutexGuard<'_, ()> {
        self.state.assistants.lock().await
    }
}

/// The service on behalf of the principal of a request.
impl FromRequestParts<Service> for Service {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, all: &Service) -> Result<Self, ApiError> {
        let client = parts.extensions.get::<Client>();
        let client =
            client.ok_or_else(|| ApiError::unauthorized("the request has no principal"))?;
        Ok(Self { state: Arc::clone(&all.state), client: client.clone() })
    }
}

/// The query of an address. One that does not fit is refused as a body is.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        let axum::extract::Query(query) =
            query.map_err(|error| ApiError::invalid(error.body_text()))?;
        Ok(Self(query))
    }
}

/// Returns the names of graphs by their ids: the part after the colon where it is unique.
fn short_names(graphs: &[&str]) -> BTreeMap<String, String> {
    let plain = |id: &str| id.split_once(':').map_or(id, |(_, name)| name).to_owned();
    let unique = |name: &str| graphs.iter().filter(|id| plain(id) == name).count() == 1;
    let name = |id: &str| Some(plain(id)).filter(|name| unique(name));
    graphs
        .iter()
        .map(|id| ((*id).to_owned(), name(id).unwrap_or_else(|| (*id).to_owned())))
        .collect()
}
