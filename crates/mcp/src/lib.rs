//! Tools of MCP servers, for models and policies like the program's own tools.
//!
//! [`McpFile`] reads the servers that an operator has written down, in the form that other MCP
//! clients use as well. [`McpServers`] starts a server when a tool of it is called for the first
//! time, keeps it running for later calls, and starts it again after its death.
//!
//! Servers are not trusted. A tool exists for a model only after an operator has allowed it by
//! name: the [`LockFile`] records what was allowed, and what the tool was at that time. If the server
//! offers something else under the name, calls fail until the tool is allowed again. Models read
//! the recorded description and schemas, never those that a server sends at the moment.

mod arguments;
mod connection;
mod declared;
mod elicit;
mod error;
mod file;
mod framing;
mod gauge;
mod handler;
mod http;
mod http_answer;
mod limits;
mod lines;
mod lock;
mod media;
mod oauth;
mod offer;
mod open_call;
mod process;
mod progress;
mod repair;
mod result;
mod secrets;
mod servers;
mod text;
mod tool;

pub use error::McpError;
pub use file::{McpFile, OauthSettings, Reached, ServerConfig, Timeouts};
pub use limits::Limits;
pub use lock::{AllowedTool, LockFile, Output, Terms};
pub use oauth::{LoginKind, LoginRequest, LoginScreen, LoginState, LoginStep};
pub use offer::{Hints, Offer, OfferedTool, RefusedTool};
pub use servers::McpServers;
pub use text::clean;
