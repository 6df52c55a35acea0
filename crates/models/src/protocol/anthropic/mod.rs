//! Anthropic's messages protocol.
//!
//! Source: <https://platform.claude.com/docs/en/api/messages>

mod request;
mod stream;
mod turn;

pub(super) use request::{write, write_medium};
pub(super) use stream::AnthropicReader;
