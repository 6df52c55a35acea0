//! Answers to the requests of servers.

#![expect(
    deprecated,
    reason = "the answer to the request for roots, which servers of older protocols send"
)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, ErrorData, Implementation, ListRootsResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The client as servers see it. It samples no model for a server and tells no folders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handler {
    list_changed: Arc<AtomicBool>,
}

impl Handler {
    /// Returns `true` once after the server has announced that its tools changed.
    pub(crate) fn take_list_changed(&self) -> bool {
        self.list_changed.swap(false, Ordering::AcqRel)
    }
}

impl ClientHandler for Handler {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots are not told to servers", None))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.store(true, Ordering::Release);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("weftwork", env!("CARGO_PKG_VERSION")),
        )
    }
}
