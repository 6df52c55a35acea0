//! The embedded language model: small quantised Llama weights on the CPU.
//!
//! [`chat::LocalModel`] is a [`weftwork_models::ChatModel`] like any other. Below it lies the
//! [`engine`]: it reads prompts, keeps what it has read, and writes answers, freely or within a
//! JSON schema. A tool call of this model is valid JSON for that tool's schema by construction.
//! [`weights`] knows which model files there are and gets them.
//!
//! The engine is written without `unsafe` and without a tensor library; the decision record on
//! the embedded model says why.

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
