//! Chat models behind one trait.
//!
//! A provider implements [`ChatModel`]: one attempt, as a stream. Everything that must happen
//! around an attempt (journal, budget, retries, usage facts, ledger, events) happens in one place,
//! and nodes call models only through it.

pub mod chat;
pub mod error;

pub use chat::{ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo, ToolChoice};
pub use error::ModelError;
