//! The commands that serve agents until they are told to stop, `weft serve`, `weft dev`,
//! `weft worker` and `weft mcp serve`, and `weft keys` for those who may use a server.
#![expect(missing_docs, reason = "comments of arguments are the help of commands")]

mod args;
mod dev;
mod keys;
mod mcp;
mod serve;
mod staying;
mod worker;

pub use args::{Dev, Keys, McpServe, Serve, Worker};
pub use dev::dev;
pub use keys::keys;
pub use mcp::mcp_serve;
pub use serve::serve;
pub use weftwork_server::pages;
pub use worker::worker;
