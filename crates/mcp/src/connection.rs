//! A connection to a server.

use crate::McpError;
use crate::file::{Reached, ServerConfig};
use crate::gauge::{Gauge, Measured};
use crate::handler::{Handler, Listener};
use crate::http::{EgressClient, Repeatable, http_cause, new_transport};
use crate::http_answer::is_status_error;
use crate::limits::Limits;
use crate::lines::{LateAnswer, Lines, RequestLines, is_unreadable};
use crate::oauth::Login;
use crate::process::Process;
use crate::secrets::Secrets;
use crate::text::short;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult,
    CancelledNotificationParam, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, RequestId, ServerResult, Tool as Listed,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions,
    RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use weftwork_types::port::Egress;

/// Maximum length of a server's message in an error, in characters.
const PROBLEM_CHARS_MAX: usize = 600;

/// A connection to a server. Dropping it ends the server if this program started it.
#[derive(Debug)]
pub(crate) struct Connection {
    caller: Caller,
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    limits: Limits,
}

/// The requests of a connection. It does not keep the connection.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    server: String,
    peer: Peer<RoleClient>,
    handler: Handler,
    gauge: Arc<Gauge>,
    secrets: Secrets,
}

/// A request that was sent. Dropping it before its answer cancels it on the server.
struct SentRequest {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let peer = self.peer.clone();
        let cancelled = CancelledNotificationParam::new(Some(id), None);
        runtime.spawn(async move {
            if let Err(error) = peer.notify_cancelled(cancelled).await {
                tracing::debug!(%error, "a request to an MCP server was not cancelled");
            }
        });
    }
}

/// The way to a server at an address.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    pub(crate) egress: Arc<dyn Egress>,
    /// The login, unless the operator gives the server a token or rules a login out.
    pub(crate) login: Option<Arc<Login>>,
}

impl Connection {
    /// Starts or reaches a server, and agrees on the newest protocol that it has.
    pub(crate) async fn open(
        server: &str,
        config: &ServerConfig,
        web: Option<&Web>,
        limits: Limits,
    ) -> Result<Self, McpError> {
        let first = Self::open_as(server, config, web, limits, &newest_lifecycle()).await;
        // Some servers end at a request of a protocol that they do not know, or answer it with
        // anything.
        match first {
            Err(McpError::Start { .. }) => {
                let again = ClientLifecycleMode::Initialize;
                let second = Self::open_as(server, config, web, limits, &again).await;
                second.or(first)
            }
            first => first,
        }
    }

    async fn open_as(
        server: &str,
        config: &ServerConfig,
        web: Option<&Web>,
        limits: Limits,
        mode: &ClientLifecycleMode,
    ) -> Result<Self, McpError> {
        let gauge = Arc::new(Gauge::default());
        let secrets = &config.secrets;
        let (mut process, service) = match &config.reached {
            Reached::Process { command, args, env, folder } => {
                let (process, input, output) = Process::start(server, command, args, env, folder)?;
                let late = LateAnswer::default();
                let measured = Measured::new(output, limits, Arc::clone(&gauge));
                let output = Lines::new(measured, late.clone());
                let pipes = AsyncRwTransport::new(output, RequestLines::new(input, late))
                    .with_max_line_length(limits.message_bytes.saturating_add(1));
                (Some(process), start_session(config, server, pipes, limits, mode).await)
            }
            Reached::Http { url, headers, .. } => {
                let web = web.ok_or_else(|| McpError::Start {
                    server: server.to_owned(),
                    problem: "this program has no HTTP client for it".to_owned(),
                })?;
                let client = EgressClient::new(web.clone(), limits, secrets.clone());
                let pipes = new_transport(client, url, headers);
                let pipes = pipes
                    .map_err(|problem| McpError::Start { server: server.to_owned(), problem })?;
                (None, start_session(config, server, pipes, limits, mode).await)
            }
        };
        let service = match (service, gauge.exceeded(server)) {
            (Ok(service), _) => service,
            (Err(_), Some(limit)) => return Err(limit),
            (Err(McpError::Start { server, problem }), None) => {
                let words = match &mut process {
                    Some(process) => process.last_words(secrets).await,
                    None => String::new(),
                };
                return Err(McpError::Start { server, problem: format!("{problem}{words}") });
            }
            (Err(other), None) => return Err(other),
        };
        let peer = service.peer().clone();
        let handler = service.service().clone();
        let caller =
            Caller { server: server.to_owned(), peer, handler, gauge, secrets: secrets.clone() };
        Ok(Self { caller, service, process, limits })
    }

    /// Returns `true` if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The negotiated version of the protocol.
    pub(crate) fn protocol(&self) -> String {
        let info = self.service.peer().peer_info();
        info.map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    /// The id of the process, if this program started the server.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    pub(crate) fn handler(&self) -> &Handler {
        self.service.service()
    }

    /// Lists the tools, page by page. If a later page fails, those of the earlier pages are returned
    /// with the error.
    pub(crate) async fn list(&self) -> Result<(Vec<Listed>, Option<McpError>), McpError> {
        let Caller { server, gauge, .. } = &self.caller;
        gauge.begin();
        let mut tools = Vec::new();
        let read = tokio::time::timeout(self.limits.list, self.list_pages(&mut tools)).await;
        let error = match read {
            Ok(Ok(())) => return Ok((tools, None)),
            Ok(Err(error)) => error,
            Err(_) => gauge.exceeded(server).unwrap_or_else(|| McpError::Timeout {
                server: server.clone(),
                what: "the list of its tools",
                after: self.limits.list,
            }),
        };
        if tools.is_empty() || matches!(error, McpError::Limit { .. }) {
            return Err(error);
        }
        tracing::warn!(%error, "the list of tools of an MCP server is incomplete");
        Ok((tools, Some(error)))
    }

    async fn list_pages(&self, tools: &mut Vec<Listed>) -> Result<(), McpError> {
        let limit = |what: String| McpError::Limit { server: self.caller.server.clone(), what };
        let mut cursors = BTreeSet::new();
        let mut cursor = None;
        for _ in 0..self.limits.pages {
            let before = tools.len();
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest {
                method: Default::default(),
                params: Some(params),
                extensions: Default::default(),
            };
            let asked = self.service.peer().send_request(ClientRequest::ListToolsRequest(request));
            let page = match asked.await {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => {
                    return Err(self.caller.answer("it answered `tools/list` with something else"));
                }
                Err(error) => return Err(self.caller.failed(&error)),
            };
            // A server whose cursor does not advance sends the same page again.
            let new = page.tools.into_iter().filter(|tool| !tools[..before].contains(tool));
            tools.extend(new.collect::<Vec<_>>());
            if tools.len() > self.limits.tools {
                let max = self.limits.tools;
                return Err(limit(format!("it lists more than {max} tools")));
            }
            // Some servers end a list with an empty cursor.
            match page.next_cursor.filter(|cursor| !cursor.is_empty()) {
                None => return Ok(()),
                Some(next) if !cursors.insert(next.clone()) => {
                    let what = "a page of its list of tools leads back to an earlier one";
                    // It has no further tools.
                    return if tools.is_empty() { Err(limit(what.into())) } else { Ok(()) };
                }
                Some(next) => cursor = Some(next),
            }
        }
        Err(limit(format!("its list of tools has more than {} pages", self.limits.pages)))
    }

    /// Ends the connection: the server may exit by itself before it is killed.
    pub(crate) async fn close(self) {
        let Self { service, process, limits, .. } = self;
        if let Err(error) = service.cancel().await {
            tracing::debug!(%error, "a connection to an MCP server ended with an error");
        }
        if let Some(process) = process {
            process.end(limits.exit).await;
        }
    }
}

impl Caller {
    /// Begins to receive the messages of the server for a call.
    pub(crate) fn listen(&self) -> Listener {
        self.handler.listen()
    }

    /// Calls a tool, for the call with this number. Dropping the future cancels the call on the server.
    pub(crate) async fn call(
        &self,
        params: CallToolRequestParams,
        number: u64,
        repeatable: Option<Repeatable>,
    ) -> Result<CallToolResponse, McpError> {
        self.gauge.begin();
        let mut request = CallToolRequest::new(params);
        if let Some(mark) = repeatable {
            request.extensions.insert(mark);
        }
        let options = PeerRequestOptions::no_options();
        let request = ClientRequest::CallToolRequest(request);
        let sent = self.peer.send_cancellable_request(request, options).await;
        let sent = sent.map_err(|error| self.failed(&error))?;
        self.handler.expect_progress(sent.progress_token.clone(), number);
        let mut guard = SentRequest { peer: self.peer.clone(), id: Some(sent.id.clone()) };
        let answer = sent.await_response().await;
        guard.id = None;
        match answer.map_err(|error| self.failed(&error))? {
            ServerResult::CallToolResult(result) => {
                Ok(CallToolResponse::Complete(self.secrets.hide_in_result(result)))
            }
            ServerResult::InputRequiredResult(result) => {
                Ok(CallToolResponse::InputRequired(result))
            }
            // A result without content.
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
                Ok(CallToolResponse::Complete(CallToolResult::default()))
            }
            _ => Err(self.unanswered("it answered `tools/call` with something else than a result")),
        }
    }

    fn answer(&self, problem: &str) -> McpError {
        McpError::Answer { server: self.server.clone(), problem: self.words(problem) }
    }

    fn unanswered(&self, problem: &str) -> McpError {
        McpError::Unanswered { server: self.server.clone(), problem: self.words(problem) }
    }

    /// Returns words of the server as they may be read.
    fn words(&self, text: &str) -> String {
        short(&self.secrets.hide(text), PROBLEM_CHARS_MAX)
    }

    fn failed(&self, error: &ServiceError) -> McpError {
        let server = self.server.clone();
        if let Some(limit) = self.gauge.exceeded(&self.server) {
            return limit;
        }
        if let Some(source) = http_cause(error) {
            return source.clone().of(&server);
        }
        match error {
            ServiceError::McpError(error) if is_unreadable(error) => {
                self.unanswered(&error.message)
            }
            ServiceError::McpError(error) if is_status_error(error) => self.answer(&error.message),
            ServiceError::McpError(error) => {
                self.answer(&format!("{} (code {})", error.message, error.code.0))
            }
            ServiceError::UnexpectedResponse => {
                self.unanswered("its answer has not the form that the protocol requires")
            }
            other => {
                let problem = match describe_chain(other) {
                    // Names of types say nothing to people.
                    text if text.contains("::") => "the connection to it ended".to_owned(),
                    text => text,
                };
                McpError::Lost { server, problem: self.words(&problem) }
            }
        }
    }
}

/// The newest protocol, or that of 2025 for servers that do not know it.
fn newest_lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// Agrees on a protocol.
async fn start_session<T, E, A>(
    config: &ServerConfig,
    server: &str,
    pipes: T,
    limits: Limits,
    mode: &ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Handler>, McpError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let served = Box::pin(Handler::default().serve_with_lifecycle(pipes, mode.clone()));
    match tokio::time::timeout(limits.start, served).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(not_greeted(server, &error, &config.secrets)),
        Err(_) => Err(start_timeout(server, limits.start)),
    }
}

fn start_timeout(server: &str, after: Duration) -> McpError {
    McpError::Timeout { server: server.to_owned(), what: "its first request", after }
}

fn not_greeted(server: &str, error: &ClientInitializeError, secrets: &Secrets) -> McpError {
    let inner: &(dyn std::error::Error + 'static) = match error {
        ClientInitializeError::TransportError { error, .. } => error,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => match fallback.as_ref() {
            ClientInitializeError::TransportError { error, .. } => error,
            other => other,
        },
        other => other,
    };
    match http_cause(inner) {
        Some(source) => source.clone().of(server),
        None => McpError::Start {
            server: server.to_owned(),
            problem: short(&secrets.hide(&describe_chain(inner)), PROBLEM_CHARS_MAX),
        },
    }
}

/// An error with its causes.
fn describe_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
