//! The one place where tools run.

mod announce;
mod attempt;
mod execute;
mod prepare;
mod unknown;

pub use execute::Executed;
pub use prepare::{HumanCall, PendingCall, Prepared, ReadyCall};
pub use unknown::{UnknownAnswer, UnknownCall, UnknownQuestion};

use crate::context::Provided;
use crate::error::ToolBoxErrors;
use crate::toolbox::Catalogue;
use crate::{Policy, ToolBox};
use serde_json::json;
use std::sync::Arc;
use weftwork_types::message::{ToolCall, ToolResult};
use weftwork_types::tool::{ToolOutcome, ToolSpec};

/// The longest result a tool may give, in bytes of JSON, unless the runner is told otherwise.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;

/// The one place where tools run. Cheap to clone.
///
/// A call goes through it in two steps, so that a node can stop between them and ask a person:
/// [`prepare`](Self::prepare) checks the call against tools, schema and policy and changes
/// nothing; [`execute`](Self::execute) announces it, makes it at most once, and tells how it
/// ended. A node that is executed again after an answer does both steps again and gets the same
/// results: calls that ended are taken from the journal.
///
/// **Events.** Each `execute` that gets as far as an outcome emits exactly one `tool_call_start`
/// and one `tool_call_result`, whatever happens: refusal, failure, panic, timeout, reuse, or a
/// dropped future. `prepare` emits nothing, so a call that waits for a person has its start in the
/// run that makes it, not in the one that asked.
#[derive(Debug, Clone)]
pub struct ToolRunner {
    catalogue: Arc<Catalogue>,
    policy: Arc<Policy>,
    provided: Provided,
    result_bytes_max: usize,
}

impl ToolRunner {
    /// Checks the tools and compiles their schemas.
    ///
    /// # Errors
    /// [`ToolBoxErrors`] with everything that is wrong, not just the first.
    pub fn new(tools: ToolBox, policy: Policy) -> Result<Self, ToolBoxErrors> {
        Ok(Self {
            catalogue: Arc::new(tools.compile()?),
            policy: Arc::new(policy),
            provided: tools.provided,
            result_bytes_max: RESULT_BYTES_MAX,
        })
    }

    /// Sets the longest result a tool may give, in bytes of JSON.
    #[must_use]
    pub fn result_bytes_max(mut self, bytes: usize) -> Self {
        self.result_bytes_max = bytes;
        self
    }

    /// The tools to offer to a model, in the order in which they were added.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.catalogue.iter().map(|entry| entry.spec.clone()).collect()
    }
}

/// The outcome of a call in the form the model reads.
#[must_use]
pub fn tool_result(call: &ToolCall, outcome: &ToolOutcome) -> ToolResult {
    let (value, is_error) = match outcome {
        ToolOutcome::Ok { value } => (value.clone(), false),
        ToolOutcome::Failed(failure) => (json!(failure), true),
    };
    ToolResult { tool_call_id: call.id.clone(), name: call.name.clone(), value, is_error }
}
