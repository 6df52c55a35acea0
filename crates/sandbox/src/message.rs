//! Messages between a program and the process of a sandbox.

use crate::error::LimitKind;
use crate::host::HostError;
use crate::limits::SandboxLimits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kinds of code, and what is done with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CodeKind {
    /// JavaScript with a function `handler(input, ctx)`, which is called. Its result may be a promise.
    #[default]
    Function,
    /// A program of jq, which is executed. It has one output.
    Jq,
    /// A program of jq, which is read and not executed. The result is null.
    JqCheck,
}

/// A call of code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Kind of the code.
    pub code_kind: CodeKind,
    /// Source.
    pub code: String,
    /// First argument of the function, or input of the program.
    pub input: Value,
    /// Results of other agents, which a function finds as `ctx.results`.
    #[serde(default)]
    pub results: Value,
    /// Time that a function sees, in milliseconds since 1970. It does not pass.
    pub now_ms: u64,
    /// Seed of the random numbers that a function sees.
    pub seed: u64,
    /// Limits.
    pub limits: SandboxLimits,
}

/// A message to the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ToProcess {
    /// The code. The first message.
    Script(Box<Script>),
    /// The answer to a call.
    Reply { id: u32, answer: Result<Value, HostError> },
}

/// A message of the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FromProcess {
    /// The process has given up its rights.
    Ready,
    /// It cannot give them up: what is missing, and why.
    Unavailable { missing: String, reason: String },
    /// The code calls the host.
    Call { id: u32, member: String, args: Value },
    /// The result of the code.
    Done { value: Value },
    /// The code failed.
    Failed { failure: ScriptFailure },
}

/// A failure of code.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ScriptFailure {
    /// It is no program, or no function `handler`.
    Invalid { reason: String },
    /// It threw an error.
    Thrown { message: String, stack: String },
    /// It threw null, or its engine did because there was no memory for an error. The process waits, so
    /// that its memory can be read.
    Null,
    /// It came to a limit.
    Limit { limit: LimitKind },
    /// Its promise never ends.
    NeverEnds,
}
