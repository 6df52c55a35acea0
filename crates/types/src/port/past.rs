//! Records of a run beside its journal: the calls that policies refer to, and values stored by
//! reference.

use super::journal::{CallKey, Intent};
use crate::canonical::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A tool call that a run has begun, as policies refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastCall {
    /// Call key.
    pub key: CallKey,
    /// Canonical name of the tool.
    pub tool: String,
    /// Hashes of the arguments that are compared with those of later calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Hash>,
    /// `true` if the call has succeeded.
    #[serde(default)]
    pub succeeded: bool,
}

/// A request to begin a call if the earlier calls of the run allow it.
#[derive(Clone, Copy)]
pub struct Admission<'a> {
    /// The call.
    pub intent: &'a Intent,
    /// Hashes of arguments for [`PastCall::args`].
    pub args: &'a BTreeMap<String, Hash>,
    /// Decision about the call, given the other calls that the run has begun; an error is the
    /// reason of a refusal.
    pub decide: &'a (dyn Fn(&[PastCall]) -> Result<(), String> + Send + Sync),
}

impl std::fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("intent", self.intent).finish_non_exhaustive()
    }
}

/// The answer to an [`Admission`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// The call may be made. Its record is stored at the latest with its intent.
    Yes {
        /// Call key.
        key: CallKey,
    },
    /// The call must not be made.
    No {
        /// Reason of the refusal.
        reason: String,
    },
    /// The run has no records of earlier calls.
    NoRecords,
}

/// A value to be stored by reference, because it is too large for a message.
#[derive(Debug, Clone, PartialEq)]
pub struct NewArtifact {
    /// Call that returned the value.
    pub key: CallKey,
    /// Canonical name of the tool.
    pub tool: String,
    /// The value.
    pub value: Value,
    /// The part of the value that may be shown; `None` if the whole value may be shown.
    pub shown: Option<Value>,
    /// Length of the value's JSON text in bytes.
    pub bytes: u64,
    /// Time for which the value is stored.
    pub ttl: Duration,
}
