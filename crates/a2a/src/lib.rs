//! The Agent2Agent protocol (A2A) for the agents of a server that are exposed by it.
//!
//! A task is a run with those that answer its questions, and all that a task shows is read from their
//! logs: a client that subscribes again, also after a restart of the server, gets the same task. Only the
//! configurations of push notifications are records of their own.
//!
//! Source: version 1.0.1 of the specification, with its bindings JSON-RPC and HTTP+JSON.

mod agent;
mod card;
mod content;
mod delivery;
mod error;
mod follow;
mod json_rpc;
mod list;
mod operation;
mod push;
mod reader;
mod rest;
mod routes;
mod send;
mod stream;
mod task;
mod version;

pub use delivery::Deliveries;
pub use routes::A2aServer;
pub use weftwork_a2a_wire as wire;
pub use wire::{CardKey, KeyError};
