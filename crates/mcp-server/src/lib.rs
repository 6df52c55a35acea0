//! The Model Context Protocol (MCP) for the agents of a server that are exposed by it.
//!
//! An agent is a tool, and a call of it is a run with those that answer its questions. All that a client
//! sees is read from their logs: results, tasks, and questions with the state that a client sends back. No
//! request depends on the process that answered an earlier one.
//!
//! Source: versions 2026-07-28 and 2025-11-25 of the specification, and its extension
//! `io.modelcontextprotocol/tasks`.

mod call;
mod call_runs;
mod call_stream;
mod error;
mod follow;
mod message;
mod method;
mod open_calls;
mod peer;
mod progress;
mod question;
mod result;
mod resume;
mod routes;
mod seal;
mod source;
mod stdio;
mod task;
mod tool;

pub use routes::McpServer;
pub use stdio::serve_lines;
