//! Events of sessions, as threads store them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the channel in which a thread stores the events of its session, oldest first.
pub const SESSION_CHANNEL: &str = "session";

/// An event of a session, for one slice of its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEvent {
    /// Name of the slice.
    pub slice: String,
    /// The event, as the slice declares it.
    pub event: Value,
}
