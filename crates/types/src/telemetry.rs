//! Names of the spans that runs emit through `tracing`, and of their fields.
//!
//! Spans form a tree: a run, its supersteps, their tasks, and the calls of models and tools that a
//! task makes. The supersteps of a subgraph are within the task that runs it. Names that
//! OpenTelemetry defines for generative AI are those of its semantic conventions (0.1.0 of
//! `semantic-conventions-genai`, status: development); the others begin with `weft.`. Fields never
//! have content: no prompts, arguments, results or texts of errors.
//!
//! A field that an operation learns only at its end is recorded then. A span that ends without
//! [`OUTCOME`] was cut off: its run was cancelled or released, a task beside it failed, or the
//! process shut down.

use crate::TraceId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Target of all spans. A filter that names it selects the spans without the events of the log.
pub const TARGET: &str = "weftwork::telemetry";

/// Span of a run: one for each claim of a hosted run, one for each run of a program without a
/// runtime.
pub const RUN: &str = "run";
/// Span of a superstep, from the start of its tasks to its checkpoint.
pub const SUPERSTEP: &str = "superstep";
/// Span of an attempt of a task.
pub const TASK: &str = "task";
/// Span of a model call, with its retries and fallbacks.
pub const MODEL_CALL: &str = "model_call";
/// Span of a tool call: of each round of a call that asks a person.
pub const TOOL_CALL: &str = "tool_call";

/// Field: kind of the operation, [`INVOKE_WORKFLOW`], [`CHAT`] or [`EXECUTE_TOOL`].
pub const OPERATION: &str = "gen_ai.operation.name";
/// Value of [`OPERATION`] for a run.
pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
/// Value of [`OPERATION`] for a model call.
pub const CHAT: &str = "chat";
/// Value of [`OPERATION`] for a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";

/// Field of a run: name of its graph.
pub const GRAPH: &str = "gen_ai.agent.name";
/// Field of a run: its thread, if it has one.
pub const THREAD: &str = "gen_ai.conversation.id";
/// Field of a hosted run: its id.
pub const RUN_ID: &str = "weft.run.id";
/// Field of a hosted run: number of the claim, from 1. A run that another process takes over, or
/// that is resumed in place, has a span for each claim.
pub const CLAIM: &str = "weft.run.claim";

/// Field of a superstep: its number in its graph.
pub const STEP: &str = "weft.step";
/// Field of a superstep: name of its graph.
pub const STEP_GRAPH: &str = "weft.graph";
/// Field of a superstep: namespace of its graph; not recorded for the outermost graph.
pub const NAMESPACE: &str = "weft.namespace";

/// Field of a task: name of its node.
pub const NODE: &str = "weft.node";
/// Field of a task: its id.
pub const TASK_ID: &str = "weft.task.id";
/// Field of a task: number of the attempt, from 1.
pub const ATTEMPT: &str = "weft.attempt";

/// Field of a model call: id of the provider, as in the table of providers.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// Field of a model call: the requested model.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Field of a model call: the model that answered, which a fallback may be.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Field of a model call: id that the provider gave the response.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Field of a model call: input tokens of all attempts of the span. A replayed call has none.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Field of a model call: output tokens of all attempts of the span. A replayed call has none.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Field of a model call: number of attempts. A replayed call has 0.
pub const ATTEMPTS: &str = "weft.call.attempts";

/// Field of a tool call: name of the tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// Field of a tool call: its id, as the model gave it.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";

/// Field of a call: `true` if its outcome is that of an earlier call, from the journal or from the
/// cache of responses, and nothing was called. Otherwise it is not recorded.
pub const REPLAYED: &str = "weft.call.replayed";

/// Field of runs, tasks and tool calls: the outcome. Runs end `completed`, `interrupted`,
/// `limit_reached`, `cancelled` or `failed`, and claims also `released` or `lost`; tasks and calls
/// `ok` or `failed`, or `asks` if they wait for an answer.
pub const OUTCOME: &str = "weft.outcome";
/// Field of every span that failed: the stable code of the error.
pub const ERROR_TYPE: &str = "error.type";

/// Field that bridges of `tracing` to OpenTelemetry take as the name of the span.
pub const OTEL_NAME: &str = "otel.name";
/// Field that bridges of `tracing` to OpenTelemetry take as the kind of the span.
pub const OTEL_KIND: &str = "otel.kind";
/// Field that bridges of `tracing` to OpenTelemetry take as the status; `ERROR` for a span with
/// [`ERROR_TYPE`].
pub const OTEL_STATUS: &str = "otel.status_code";

/// Id of a span: 64 bits, not zero, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SpanId(pub NonZeroU64);

/// A text that is no id of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a span has 16 hexadecimal digits in lower case, not all of them zero")]
pub struct InvalidSpanId;

impl FromStr for SpanId {
    type Err = InvalidSpanId;

    fn from_str(text: &str) -> Result<Self, InvalidSpanId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(InvalidSpanId);
        }
        let bits = u64::from_str_radix(text, 16).map_err(|_| InvalidSpanId)?;
        NonZeroU64::new(bits).map(Self).ok_or(InvalidSpanId)
    }
}

impl TryFrom<String> for SpanId {
    type Error = InvalidSpanId;

    fn try_from(text: String) -> Result<Self, InvalidSpanId> {
        text.parse()
    }
}

impl From<SpanId> for String {
    fn from(id: SpanId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Span of a client in which it requested a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentSpan {
    /// Trace of the span. A run whose [`Caller`](crate::caller::Caller) has another one, because a
    /// later request continues it, is not within the span.
    pub trace: TraceId,
    /// The span.
    pub id: SpanId,
    /// `true` if the client records the trace.
    pub sampled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_span_is_sixteen_digits_that_are_not_all_zero() {
        for text in ["00f067aa0ba902b7", "ffffffffffffffff", "0000000000000001"] {
            assert_eq!(text.parse::<SpanId>().expect("an id").to_string(), text);
        }
        for text in ["", "0", "0000000000000000", "00F067AA0BA902B7", "+0f067aa0ba902b7"] {
            assert_eq!(text.parse::<SpanId>(), Err(InvalidSpanId), "{text}");
        }
    }
}
