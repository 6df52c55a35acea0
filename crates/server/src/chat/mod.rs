//! Runs as messages of a chat, in the two formats that front ends read.
//!
//! A [`ChatMessage`] turns the events of runs into the parts of one assistant's message, and a
//! format turns parts into frames: [`ui_stream`] has the UI message stream of the AI SDK (version
//! 1, server-sent events), [`data_stream`] the older data stream (version 1, lines). Both are state
//! machines without I/O. Front ends see no other vocabulary: facts of ours, such as checkpoints and
//! retries, are data parts.
//!
//! Source: `ai` 7.0 (`ui-message-chunks`), `assistant-stream` 0.3 (`data-stream`).

pub(crate) mod answer;
mod calls;
mod cut;
pub(crate) mod data_stream;
mod doubt;
mod encoder;
mod message;
mod part;
pub(crate) mod question;
pub(crate) mod request;
mod speech;
mod state_messages;
#[cfg(test)]
mod tests;
pub(crate) mod ui_message;
pub(crate) mod ui_stream;
mod unknown;
mod usage;

pub(crate) use doubt::Doubt;
pub(crate) use encoder::ChatEncoder;
pub use encoder::Protocol;
pub(crate) use message::ChatMessage;
pub(crate) use state_messages::of_state;
