//! Prebuilt agents. Each is a graph on the public API of `weftwork-graph`, like a user's own
//! graphs. [`Tools`] is for the nodes of any graph: they call tools themselves.

mod calls;
mod conversation;
mod error;
mod react;

pub use calls::{CallError, Tools};
pub use error::AgentError;
pub use react::{Chat, ChatUpdate, ChatView, ReactAgent};
