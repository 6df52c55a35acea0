//! The address of the page of the server, where people answer questions.

use axum::http::header::{HOST, HeaderMap};
use weftwork_types::ThreadId;

/// The address under which a client reached the server. The guard has checked the host.
#[derive(Debug, Clone)]
pub(crate) struct PageAddress {
    origin: String,
}

impl PageAddress {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name| {
            headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok())
        };
        let host = text(HOST.as_str()).unwrap_or("localhost");
        // A proxy that ends TLS says so.
        let scheme = match text("x-forwarded-proto") {
            Some("https") => "https",
            _ => "http",
        };
        Self { origin: format!("{scheme}://{host}") }
    }

    /// Returns the address of a thread.
    pub(crate) fn of_thread(&self, thread: &ThreadId) -> String {
        format!("{}/ui/#/thread/{}", self.origin, thread.to_path())
    }

    /// Returns a question with the address where a person answers it.
    pub(crate) fn invite(&self, question: &str, thread: &ThreadId) -> String {
        format!("{question}\n\nAnswer it there: {}", self.of_thread(thread))
    }
}
