//! The embedded language model: small quantised Llama weights on the CPU.
//!
//! [`chat::LocalModel`] implements [`weftwork_models::ChatModel`] with the [`engine`], which
//! processes prompts, caches the processed tokens, and generates answers, freely or constrained by
//! a JSON schema. A tool call of this model is valid JSON for that tool's schema by construction.
//! [`weights`] has the table of known model files and downloads them.
//!
//! The engine is written without `unsafe` and without a tensor library; the decision record on the
//! embedded model has the reasons.

pub mod chat;
pub mod cpu;
pub mod engine;
pub mod error;
pub mod file;
mod gguf;
pub mod grammar;
mod half;
mod llama;
mod matrix;
pub mod prefixes;
mod repeat;
pub mod snapshot;
mod tokenizer;
pub mod weights;
pub mod writer;

pub use error::Error;
