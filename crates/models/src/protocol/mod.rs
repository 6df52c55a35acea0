//! Wire protocols of model providers.

pub mod openai;
mod sse;
