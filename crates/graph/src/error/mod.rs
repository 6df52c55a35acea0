//! Errors of nodes, of the runtime and of graphs.

mod build;
mod code;
mod invalid_graph;
mod node;
mod not_resumable;
mod runtime;

pub use build::BuildError;
pub(crate) use code::{NODE_CANCELLED, NODE_PANICKED, NODE_TIMED_OUT};
pub use code::{NODE_FAILED, RECORDS_NOT_STORED};
pub use invalid_graph::InvalidGraph;
pub use node::NodeError;
pub(crate) use node::{Drain, Stop, cut_off, records_not_stored};
pub use not_resumable::NotResumable;
pub use runtime::RuntimeError;
