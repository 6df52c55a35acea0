//! Parts of an assistant's message, before a format gives them their frames.

use super::usage::CallUsage;
use serde::Serialize;
use serde_json::Value;

/// A change of an assistant's message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChatPart {
    /// The message begins, or continues in a further response under the same id.
    Start { message: String, metadata: Value },
    /// A step begins: one answer of a model, and the results of its calls.
    StepStart { message: String },
    /// The step ends, with the usage of its model call.
    StepFinish { reason: FinishReason, usage: CallUsage },
    /// A block of text begins.
    TextStart { kind: TextKind, id: String },
    /// Text of the open block.
    TextDelta { kind: TextKind, id: String, delta: String },
    /// The block ends.
    TextEnd { kind: TextKind, id: String },
    /// A tool call begins.
    CallStart { id: String, name: String },
    /// A piece of the JSON text of its arguments.
    CallDelta { id: String, delta: String },
    /// The arguments are complete. `rest` is the part of their JSON text that no piece had.
    CallReady { id: String, name: String, args: Value, rest: String },
    /// The result of a call.
    CallResult { id: String, result: Value, is_error: bool },
    /// A call waits for approval.
    ApprovalRequest { id: String, call: String },
    /// An image, audio, video or file.
    File { media_type: String, url: String },
    /// A fact of ours. One that is not lasting is no part of the message.
    Data { name: &'static str, data: Value, lasting: bool },
    /// The run failed.
    Error { text: String },
    /// The run was cancelled.
    Abort { reason: String },
    /// The response ends.
    Finish { reason: FinishReason, usage: CallUsage, metadata: Value },
}

/// The kind of a block of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    Text,
    Reasoning,
}

/// The reason for which a step or a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FinishReason {
    /// The answer is complete.
    Stop,
    /// Calls wait for a person.
    ToolCalls,
    /// The limit of tokens cut the answer.
    Length,
    /// A filter of the provider cut the answer.
    ContentFilter,
    /// The run failed or reached its limit.
    Error,
    /// The run was cancelled, or waits for something else than a person.
    Other,
}
