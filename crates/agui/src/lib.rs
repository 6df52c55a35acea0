//! AG-UI, the protocol between agents and front ends, for the agents of a server that are exposed by it.
//!
//! A run of this protocol is a run of the server, found again by the id that the client gave it. All events
//! are made from the logs of the conversation: a client that sends a request again follows the same run.
//! Tools run on the side of the server.
//!
//! Source: the schema of AG-UI 1.0 and its concept pages (interrupts, messages, state), and what
//! `@ag-ui/client` 1.0 and 0.0.59 verify.

mod agent;
mod answers;
mod begin;
mod content;
mod error;
mod event;
mod history;
mod input;
mod reader;
mod routes;
mod state;
mod stream;

pub use routes::routes;
