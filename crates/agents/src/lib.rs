//! Prebuilt agents. Each is a graph on the public API of `weftwork-graph`, like a user's own
//! graphs.

mod conversation;
mod error;
mod react;

pub use error::AgentError;
pub use react::{Chat, ChatUpdate, ChatView, ReactAgent};
