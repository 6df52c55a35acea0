//! Attributes of spans and points: their names, and lists of them.
//!
//! `gen_ai.*` and `error.type`: semantic conventions for generative AI (`semantic-conventions-genai`),
//! status: development. `openinference.*`, `llm.*`, `tool.*`, `session.id`, `user.id`, `input.*` and
//! `output.*`: OpenInference, "Semantic Conventions", which Phoenix reads. `langfuse.*`: Langfuse,
//! "OpenTelemetry: property mapping" (<https://langfuse.com/integrations/native/opentelemetry>), which
//! reads `session.id` and `user.id`, too. `weft.*` is ours. Names that spans of `tracing` have as well
//! are in [`weftwork_types::telemetry`].

use crate::otlp::{AnyValue, KeyValue, ListValue, Value};

/// Longest text of an attribute, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// Longest content of an attribute, in bytes.
const CONTENT_BYTES_MAX: usize = 32 << 10;

pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

pub(crate) const CONTINUES: &str = "weft.run.continues";
pub(crate) const REASON: &str = "weft.reason";

pub(crate) const SPAN_KIND: &str = "openinference.span.kind";
pub(crate) const SESSION: &str = "session.id";
pub(crate) const USER: &str = "user.id";
pub(crate) const LLM_MODEL: &str = "llm.model_name";
pub(crate) const PROMPT_TOKENS: &str = "llm.token_count.prompt";
pub(crate) const COMPLETION_TOKENS: &str = "llm.token_count.completion";
pub(crate) const TOTAL_TOKENS: &str = "llm.token_count.total";
pub(crate) const OPENINFERENCE_TOOL: &str = "tool.name";
pub(crate) const INPUT: &str = "input.value";
pub(crate) const OUTPUT: &str = "output.value";

pub(crate) const OBSERVATION_TYPE: &str = "langfuse.observation.type";
pub(crate) const USAGE_DETAILS: &str = "langfuse.observation.usage_details";
pub(crate) const COST_DETAILS: &str = "langfuse.observation.cost_details";
pub(crate) const TRACE_NAME: &str = "langfuse.trace.name";
pub(crate) const TRACE_TAGS: &str = "langfuse.trace.tags";

/// A list of attributes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Attributes(Vec<KeyValue>);

impl Attributes {
    /// Adds a text, cut to 1 KiB: names may be those that a model has invented.
    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.add(key, Value::Text(cut(text, TEXT_BYTES_MAX)));
    }

    /// Adds a text, if there is one.
    pub(crate) fn text_if(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// Adds content as JSON, cut to 32 KiB.
    pub(crate) fn content(&mut self, key: &str, content: &serde_json::Value) {
        let text = match content {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.add(key, Value::Text(cut(&text, CONTENT_BYTES_MAX)));
    }

    pub(crate) fn integer(&mut self, key: &str, number: u64) {
        self.add(key, Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)));
    }

    pub(crate) fn number(&mut self, key: &str, number: f64) {
        self.add(key, Value::Number(number));
    }

    pub(crate) fn flag(&mut self, key: &str, flag: bool) {
        self.add(key, Value::Flag(flag));
    }

    pub(crate) fn texts<'a>(&mut self, key: &str, texts: impl IntoIterator<Item = &'a str>) {
        let text = |text| AnyValue { value: Some(Value::Text(cut(text, TEXT_BYTES_MAX))) };
        let values = texts.into_iter().map(text).collect();
        self.add(key, Value::List(ListValue { values }));
    }

    fn add(&mut self, key: &str, value: Value) {
        let value = Some(AnyValue { value: Some(value) });
        self.0.push(KeyValue { key: key.to_owned(), value });
    }

    pub(crate) fn into_list(self) -> Vec<KeyValue> {
        self.0
    }
}

/// Cuts a text at a number of bytes, or before the character there.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
