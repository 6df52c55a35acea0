//! Requirements of a rule on the earlier calls of a run.

use super::ToolPattern;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weftwork_types::canonical::Hash;
use weftwork_types::port::PastCall;

/// Requirements that a call must fulfil after its rule has allowed it. They refer to the recorded
/// calls of the run, which survive the death of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Calls that must have succeeded earlier in the run, all of them.
    pub after: Vec<After>,
    /// Maximum number of calls of the tool in a run.
    pub calls_per_run: Option<u32>,
    /// Maximum number of calls of the tool that this process makes at once. Others wait.
    pub at_once: Option<u32>,
}

impl Requirements {
    /// Returns `true` if the requirements refer to earlier calls.
    #[must_use]
    pub fn look_back(&self) -> bool {
        !self.after.is_empty() || self.calls_per_run.is_some()
    }

    /// Checks the requirements of a call, given the earlier calls of the run. An error is the reason
    /// of a refusal.
    pub(crate) fn fulfilled(
        &self,
        tool: &str,
        args: &BTreeMap<String, Hash>,
        past: &[PastCall],
    ) -> Result<(), String> {
        let made = past.iter().filter(|call| call.tool == tool).count();
        if let Some(max) = self.calls_per_run.filter(|max| made >= *max as usize) {
            return Err(format!("a run may call it {max} times, and has done so"));
        }
        for After { tool, same } in &self.after {
            let fits = |call: &&PastCall| {
                let equal =
                    |name| args.get(name).is_some_and(|hash| call.args.get(name) == Some(hash));
                call.succeeded && call.tool == *tool && same.iter().all(equal)
            };
            if past.iter().find(fits).is_none() {
                let with = match same.as_slice() {
                    [] => String::new(),
                    same => format!(" with the same `{}`", same.join("`, `")),
                };
                return Err(format!("`{tool}` must have succeeded before{with} in this run"));
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An earlier call that a rule requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// The tool that must have succeeded.
    pub tool: String,
    /// Arguments that must be equal in both calls, such as `path` for reading before writing.
    pub same: Vec<String>,
}

/// The form of an earlier call in files: a name, or a name with arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum AfterFile {
    Tool(String),
    Same(SameFile),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SameFile {
    pub(super) tool: String,
    pub(super) same: Vec<String>,
}

impl TryFrom<AfterFile> for After {
    type Error = String;

    fn try_from(file: AfterFile) -> Result<Self, String> {
        let (tool, same) = match file {
            AfterFile::Tool(tool) => (tool, Vec::new()),
            AfterFile::Same(SameFile { tool, same }) => (tool, same),
        };
        match ToolPattern::new(&tool) {
            Ok(ToolPattern::One(tool)) => Ok(Self { tool, same }),
            _ => Err(format!(
                "expected the name of one tool, found `{}`",
                crate::error::cut(&tool, 80)
            )),
        }
    }
}

impl From<After> for AfterFile {
    fn from(After { tool, same }: After) -> Self {
        if same.is_empty() { Self::Tool(tool) } else { Self::Same(SameFile { tool, same }) }
    }
}
