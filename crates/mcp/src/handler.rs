//! Answers to the requests of servers.
#![expect(
    deprecated,
    reason = "the answer to the request for roots, which servers of older protocols send"
)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, Implementation,
    ListRootsResult, ProgressNotificationParam, ProgressToken, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// The client as servers see it. It samples no model for a server and tells no folders. A request for
/// input goes to the call in progress, and progress to the call that it names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handler {
    list_changed: Arc<AtomicBool>,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    open: BTreeMap<u64, mpsc::UnboundedSender<Notice>>,
    /// The calls of requests that were sent, by the token of their progress.
    tokens: HashMap<ProgressToken, u64>,
}

/// A message of a server within a call.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The server asks.
    Asked(Asked),
    /// The server reports progress.
    Progress(ProgressNotificationParam),
}

/// A request for input.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: ElicitRequestParams,
    /// The place of the answer. If it is dropped, the request is cancelled.
    pub(crate) answer: oneshot::Sender<ElicitResult>,
}

/// The messages of a server that belong to a call.
#[derive(Debug)]
pub(crate) struct Listener {
    calls: Arc<Mutex<Calls>>,
    number: u64,
    notices: mpsc::UnboundedReceiver<Notice>,
}

impl Listener {
    /// The number of the call.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for a message. Cancel safe.
    pub(crate) async fn next(&mut self) -> Notice {
        match self.notices.recv().await {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut calls = lock_calls(&self.calls);
        calls.open.remove(&self.number);
        calls.tokens.retain(|_, number| *number != self.number);
    }
}

fn lock_calls(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handler {
    /// Returns `true` once after the server has announced that its tools changed.
    pub(crate) fn take_list_changed(&self) -> bool {
        self.list_changed.swap(false, Ordering::AcqRel)
    }

    /// Begins to receive messages for a call.
    pub(crate) fn listen(&self) -> Listener {
        let (sender, notices) = mpsc::unbounded_channel();
        let mut calls = lock_calls(&self.calls);
        let number = calls.next;
        calls.next += 1;
        calls.open.insert(number, sender);
        drop(calls);
        Listener { calls: Arc::clone(&self.calls), number, notices }
    }

    /// Passes progress with this token to a call.
    pub(crate) fn expect_progress(&self, token: ProgressToken, call: u64) {
        lock_calls(&self.calls).tokens.insert(token, call);
    }

    /// Passes a request to the call in progress. The protocol does not say which call it belongs to,
    /// so it is refused if there are several.
    fn pass_on(&self, request: ElicitRequestParams) -> Option<oneshot::Receiver<ElicitResult>> {
        let calls = lock_calls(&self.calls);
        let mut open = calls.open.values();
        let call = open.next()?;
        if open.next().is_some() {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        call.send(Notice::Asked(Asked { request, answer })).ok()?;
        Some(answered)
    }
}

impl ClientHandler for Handler {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots are not told to servers", None))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(answered) = self.pass_on(request) else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        Ok(answered.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let calls = lock_calls(&self.calls);
        let call = calls.tokens.get(&progress.progress_token);
        if let Some(call) = call.and_then(|number| calls.open.get(number)) {
            // The call may have ended.
            call.send(Notice::Progress(progress)).ok();
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.store(true, Ordering::Release);
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(capabilities, Implementation::new("weftwork", env!("CARGO_PKG_VERSION")))
    }
}
