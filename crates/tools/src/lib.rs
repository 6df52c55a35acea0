//! Tools, and the runner that executes their calls.
//!
//! A tool is a function with [`#[tool]`](macro@tool), an [`FnTool`], or any implementation of
//! [`Tool`]. A [`ToolBox`] collects the tools. A [`ToolRunner`] takes each call of a model through
//! the same steps: validate the arguments, check the [`Policy`], ask a person if the policy
//! requires it, run, validate the result, reduce it to the members that may be shown, emit the
//! events, and return.
//!
//! ```
//! use weftwork_tools::{Policy, ToolBox, ToolRunner, tool};
//!
//! /// Multiplies two numbers.
//! #[tool(example(request = "What is 6 times 7?", args = {"a": 6, "b": 7}))]
//! fn multiply(a: f64, b: f64) -> f64 {
//!     a * b
//! }
//!
//! let runner = ToolRunner::new(ToolBox::new().with(multiply), Policy::new())?;
//! assert_eq!(runner.specs()[0].description, "Multiplies two numbers.");
//! # Ok::<_, weftwork_tools::ToolBoxErrors>(())
//! ```

pub mod builtin;
mod check;
mod content;
mod context;
mod dispatch;
mod error;
mod fn_tool;
mod macro_support;
mod name;
mod output;
mod policy;
mod redact;
mod runner;
mod schema;
mod tool;
mod toolbox;

pub use context::{FromContext, Need, ToolContext};
pub use dispatch::{DISPATCHED_BYTES_MAX, DISPATCHED_MAX, Dispatched};
pub use error::{IntoToolError, RunToolError, ToolBoxError, ToolBoxErrors, ToolError, code};
pub use fn_tool::FnTool;
pub use name::{API_TOOLS, ASK_HUMAN, WIRE_NAME_CHARS_MAX, is_server_name, wire_name};
pub use output::{IntoToolOutput, Replies, ToolOutput, question};
pub use policy::{
    After, Condition, Decision, Policy, PolicyBuilder, PolicyCall, Requirements, Rule, Ruling,
    SharedRules, ToolPattern,
};
pub use runner::{
    ARTIFACT_TTL, AskingCall, Executed, HumanCall, LeftOpen, PendingCall, Prepared,
    QUESTION_BYTES_MAX, QUESTIONS_MAX, RESULT_BYTES_MAX, ROUNDS_MAX, ReadyCall, STATE_BYTES_MAX,
    ToolRunner, UnknownAnswer, UnknownCall, UnknownQuestion, not_decided, tool_result,
};
pub use schema::{WHOLE, args_schema, input_schema, output_schema};
pub use tool::{DEFAULT_TIMEOUT, Reconcile, Tool};
pub use toolbox::ToolBox;
pub use weftwork_macros::tool;
pub use weftwork_types::port::Deps;
pub use weftwork_types::retry::RetryPolicy;
pub use weftwork_types::tool::{Questions, Reply, ToolQuestion};

/// Support code for the expansion of [`#[tool]`](macro@tool). Not a public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::macro_support::{Plain, ToolReturn};
    pub use schemars;
    pub use serde;
    pub use serde_json;
    pub use weftwork_types::BoxFuture;
    pub use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
}
