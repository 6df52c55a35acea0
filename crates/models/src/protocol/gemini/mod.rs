//! Google's `generateContent` protocol.
//!
//! Source: <https://ai.google.dev/api/generate-content>

mod request;
mod stream;

pub(super) use request::{write, write_medium};
pub(super) use stream::GeminiReader;
