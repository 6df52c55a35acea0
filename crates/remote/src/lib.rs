//! Assistants of Agent Servers (`langgraph dev`, `weft serve`) as nodes of graphs, and as agents of
//! their own (ADR 0051).
//!
//! A [`RemoteGraph`] names an assistant on a [`RemoteServer`]. Its run is an operation that the
//! node does once: the intent is recorded before the start, and the key of the record is in the
//! metadata of the remote run, by which a process that repeats the node finds the run and joins it.
//! Frames of the run appear as frames of a subgraph of the node, and its questions are questions of
//! the local run.
//!
//! All HTTP goes through the [`Egress`](weftwork_types::port::Egress) port. No redirect is followed,
//! so the key of a server is sent to no other. Everything that a server sends is limited in size.

mod call;
mod error;
mod follow;
mod graph;
mod limits;
mod server;
mod wire;

pub use error::RemoteError;
pub use graph::{RemoteGraph, RemoteThread};
pub use server::RemoteServer;
