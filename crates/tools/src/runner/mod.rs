//! The runner, the only code that executes tools.

mod admit;
mod announce;
mod ask;
mod attempt;
mod execute;
mod large;
mod left_open;
mod prepare;
mod retry;
mod spans;
mod unknown;

pub use ask::{AskingCall, QUESTION_BYTES_MAX, QUESTIONS_MAX, ROUNDS_MAX, STATE_BYTES_MAX};
pub use execute::Executed;
pub use left_open::{LeftOpen, not_decided};
pub use prepare::{HumanCall, PendingCall, Prepared, ReadyCall};
pub use unknown::{UnknownAnswer, UnknownCall, UnknownQuestion};

use crate::error::ToolBoxErrors;
use crate::toolbox::Catalogue;
use crate::{Policy, ToolBox};
use admit::Places;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::message::{ToolCall, ToolResult};
use weftwork_types::port::Dependencies;
use weftwork_types::tool::{AgentTools, ToolOutcome, ToolSpec, ToolSummary};

/// The default for the maximum size of a result, in bytes of JSON.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;

/// The default for the time for which results over the maximum size are stored by reference.
pub const ARTIFACT_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Executes tool calls; no other code does. Cheap to clone.
///
/// A call has two steps, so that a node can stop between them and ask a person.
/// [`prepare`](Self::prepare) checks the call against tools, schema and policy, and changes
/// nothing. [`execute`](Self::execute) records its intent, makes it at most once, and reports its
/// outcome. A node that is executed again after an answer repeats both steps with the same results:
/// finished calls are read from the journal.
///
/// **Events.** Each `execute` that reaches an outcome emits exactly one `tool_call_start` and one
/// `tool_call_result`, also after a refusal, failure, panic, timeout, reuse, or a dropped future.
/// `prepare` emits nothing, so the start of a call that waits for a person belongs to the run that
/// makes the call. If the tool itself asks, the start belongs to the run in which it asked, and the
/// result to the run in which the call ends.
///
/// ```
/// use weftwork_tools::{Policy, ToolBox, ToolRunner, tool};
///
/// /// Doubles a number.
/// #[tool]
/// fn double(n: i64) -> i64 {
///     n * 2
/// }
///
/// let runner = ToolRunner::new(ToolBox::new().with(double), Policy::new())?;
/// assert_eq!(runner.specs()[0].description, "Doubles a number.");
/// // A rule for a tool that does not exist is refused.
/// let policy = Policy::new().ask_human("duoble", "to be sure").expect("a pattern");
/// assert!(ToolRunner::new(ToolBox::new().with(double), policy).is_err());
/// # Ok::<(), weftwork_tools::ToolBoxErrors>(())
/// ```
#[derive(Debug, Clone)]
pub struct ToolRunner {
    catalogue: Arc<Catalogue>,
    policy: Arc<Policy>,
    provided: Dependencies,
    result_bytes_max: usize,
    artifact_ttl: Duration,
    places: Places,
}

impl ToolRunner {
    /// Validates the tools and compiles their schemas. Each tool that a rule of the policy names must
    /// be one of them, unless the rule is [shared](crate::SharedRules).
    ///
    /// # Errors
    /// [`ToolBoxErrors`] with all problems, not just the first.
    pub fn new(tools: ToolBox, policy: Policy) -> Result<Self, ToolBoxErrors> {
        Ok(Self {
            catalogue: Arc::new(tools.compile(&policy)?),
            policy: Arc::new(policy),
            provided: tools.provided,
            result_bytes_max: RESULT_BYTES_MAX,
            artifact_ttl: ARTIFACT_TTL,
            places: Places::default(),
        })
    }

    /// Sets the time for which results over the maximum size are stored by reference.
    #[must_use]
    pub fn artifact_ttl(mut self, ttl: Duration) -> Self {
        self.artifact_ttl = ttl;
        self
    }

    /// Sets the maximum size of a result for the model, in bytes of JSON. A larger one is stored by
    /// reference, and the model reads its beginning.
    #[must_use]
    pub fn result_bytes_max(mut self, bytes: usize) -> Self {
        self.result_bytes_max = bytes;
        self
    }

    /// Returns `true` if there is a tool with this wire name.
    #[must_use]
    pub fn has(&self, wire_name: &str) -> bool {
        self.catalogue.get(wire_name).is_some()
    }

    /// The tools to offer to a model, in the order in which they were added.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.catalogue.iter().map(|entry| entry.spec.clone()).collect()
    }

    /// The tools with the decisions of the policy, for people.
    #[must_use]
    pub fn summaries(&self) -> AgentTools {
        let summary = |spec: ToolSpec| {
            let permission = self.policy.permission(&spec);
            ToolSummary { spec, permission }
        };
        AgentTools(self.specs().into_iter().map(summary).collect())
    }
}

/// Returns the outcome of a call as a result in a message, with the value for the model and its
/// shown form.
#[must_use]
pub fn tool_result(call: &ToolCall, outcome: &ToolOutcome) -> ToolResult {
    let (value, shown, is_error) = match outcome {
        ToolOutcome::Ok { value, shown } => (value.clone(), shown.clone(), false),
        ToolOutcome::Failed(failure) => {
            let shown = failure.model_message.is_some();
            let shown = shown.then(|| json!(failure.clone().into_shown()));
            (json!(failure.clone().into_model_form()), shown, true)
        }
    };
    ToolResult { tool_call_id: call.id.clone(), name: call.name.clone(), value, shown, is_error }
}
