//! LangGraph's newer protocol of threads: commands, and one stream of events over all runs of a
//! thread, by server-sent events and WebSocket.
//!
//! [`tape`] follows the runs of a thread; [`encode`] turns their logs and frames into events
//! without I/O, with [`message`] for messages, [`tree`] for the graphs of a run, [`blocks`] for
//! content blocks and [`number`] for the numbers of events. [`filter`] selects events, [`command`]
//! carries out commands, and [`socket`] serves a WebSocket.
//!
//! Source: the Agent Streaming Protocol (`@langchain/protocol` 0.0.21) and recorded exchanges with
//! LangGraph's server.

pub(crate) mod blocks;
pub(crate) mod command;
pub(crate) mod encode;
pub(crate) mod event;
pub(crate) mod filter;
pub(crate) mod message;
pub(crate) mod number;
pub(crate) mod reply;
pub(crate) mod socket;
pub(crate) mod tape;
pub(crate) mod tree;
