//! The address of the page of the server, where people answer questions.

use axum::http::HeaderMap;
use weftwork_server::{address_of, page_of_thread};
use weftwork_types::ThreadId;

/// The address under which a client reached the server.
#[derive(Debug, Clone)]
pub(crate) struct PageAddress {
    origin: String,
}

impl PageAddress {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { origin: address_of(headers) }
    }

    /// Returns the address of a thread.
    pub(crate) fn of_thread(&self, thread: &ThreadId) -> String {
        page_of_thread(&self.origin, thread)
    }

    /// Returns a question with the address where a person answers it.
    pub(crate) fn invite(&self, question: &str, thread: &ThreadId) -> String {
        format!("{question}\n\nAnswer it there: {}", self.of_thread(thread))
    }
}
