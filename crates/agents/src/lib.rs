//! Prebuilt agents. Each is a graph on the public API of `weftwork-graph`, like those users write.

mod conversation;
mod error;
mod react;

pub use error::AgentError;
pub use react::{Chat, ChatUpdate, ChatView, ReactAgent};
