//! Chat models behind one trait.
//!
//! A provider implements [`ChatModel`]: one attempt, as a stream. [`ModelCaller`] does everything
//! around an attempt (journal, budget, retries, usage facts, ledger, events), and nodes call models
//! only through it. [`ModelRegistry`] resolves names such as `openai:gpt-4o-mini` or `ollama:qwen3`
//! to models.

mod attempt;
pub mod cache;
mod call;
mod capability;
mod chat;
mod collect;
mod error;
mod extras;
mod fingerprint;
mod form;
mod limiter;
mod options;
mod price;
mod prompt_hash;
mod protocol;
mod refusal;
mod registry;
mod replay;
mod retry;
pub mod scripted;
mod secret;
mod secrets;
mod settings;
mod spans;
mod transcripts;
mod words;

pub use call::{ChatResponse, ModelCaller, RunModel};
pub use capability::{Capability, ModelFacts, TokenLimits, check_media};
pub use chat::{
    ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, IntoModel, ModelChoice, ModelInfo,
    ToolChoice,
};
pub use error::{ModelCallError, ModelError};
pub use extras::{Additions, RequestExtras};
pub use price::{ModelPrices, Price, PriceTable};
pub use protocol::{HttpModel, Protocol, Quirk, Quirks, ServerConfig};
pub use refusal::{RefusalKind, retry_delay};
pub use registry::{ModelProvider, ModelRegistry, ProviderOverride, ProviderRow, ProviderTable};
pub use replay::{Recorder, ReplayModel, ReplayProvider};
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use settings::{FallbackOn, ModelSettings, SettingsTable, with_fallbacks};
pub use transcripts::TranscriptFolder;
