//! Command line arguments.

mod dev;
mod keys;
mod mcp;
mod serve;
mod worker;

pub use dev::Dev;
pub(crate) use keys::AddKey;
pub use keys::Keys;
pub use mcp::McpServe;
pub use serve::Serve;
pub use worker::Worker;
