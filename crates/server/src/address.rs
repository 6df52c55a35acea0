//! The address of the server, for texts that people copy.

use axum::http::header::{HOST, HeaderMap};
use weftwork_types::ThreadId;

/// Returns the address of the server, as the client of a request reaches it. The guard has checked the
/// host.
#[must_use]
pub fn address_of(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(HOST.as_str()).unwrap_or("localhost");
    // A proxy that ends TLS sets the header.
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}

/// Returns the address of a thread on the page of the server with this address, where people answer its
/// questions.
#[must_use]
pub fn page_of_thread(server: &str, thread: &ThreadId) -> String {
    format!("{server}/ui/#/thread/{}", thread.to_path())
}
