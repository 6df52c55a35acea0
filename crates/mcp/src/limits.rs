//! Limits on what a server may do.

use std::time::Duration;

/// Limits on the messages, lists and life of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for starting a server and agreeing on a protocol.
    pub start: Duration,
    /// Time for listing the tools of a server.
    pub list: Duration,
    /// Maximum length of a message, in bytes.
    pub message_bytes: usize,
    /// Maximum number of bytes that a server sends between two requests to it.
    pub received_bytes: usize,
    /// Maximum number of pages of a list of tools.
    pub pages: usize,
    /// Maximum number of tools of a server.
    pub tools: usize,
    /// Maximum length of a description, in characters.
    pub description_chars: usize,
    /// Maximum size of a schema, in bytes of JSON.
    pub schema_bytes: usize,
    /// Maximum depth of a schema.
    pub schema_depth: usize,
    /// Maximum number of starts of a server within [`Limits::starts_within`].
    pub starts: usize,
    /// The period in which starts are counted.
    pub starts_within: Duration,
    /// Maximum number of calls of one tool in which its server ends, within
    /// [`Limits::starts_within`]. These ends do not count as starts of the server.
    pub crashes: usize,
    /// Age of a list of tools after which it is read again before a call.
    pub list_age: Duration,
    /// Time that a server has to exit after its input was closed.
    pub exit: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            list: Duration::from_secs(30),
            message_bytes: 8 << 20,
            received_bytes: 32 << 20,
            pages: 100,
            tools: 1_000,
            description_chars: 8_000,
            schema_bytes: 64 << 10,
            schema_depth: 32,
            starts: 5,
            starts_within: Duration::from_secs(60),
            crashes: 3,
            list_age: Duration::from_secs(60),
            exit: Duration::from_secs(2),
        }
    }
}
