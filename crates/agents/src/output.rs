//! Structured output: the schema that a model receives, and the checks of its answer.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::channel::LastValue;
use weftwork_graph::{ChannelDef, OUTPUT};
use weftwork_models::FinishReason;
use weftwork_schema::{Checker, Quotes};
use weftwork_tools::{args_schema, input_schema, output_schema};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::json::{self, JsonError};

/// Member of the object around a list: providers accept only objects.
const ITEMS: &str = "items";

/// Member of the object around a union.
const VALUE: &str = "value";

/// Maximum length in characters of a problem that is sent back to the model.
const PROBLEM_CHARS_MAX: usize = 400;

/// Container of a structured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    /// A JSON object.
    Object,
    /// A JSON list.
    List,
    /// A union of types, which need not be objects.
    Union,
}

/// The declaration of a structured output.
#[derive(Debug, Clone)]
pub(crate) struct OutputSpec {
    /// Schema that the model receives.
    schema: Value,
    container: Option<Container>,
    /// Decodes a value, to find out if it fits.
    check: fn(&Value) -> Result<(), String>,
    /// Limits that the schema has and the type does not, such as a range of numbers; or the problem of
    /// a schema that is none. Undeclared members are read over, as by the type.
    limits: Result<Arc<Checker>, String>,
}

/// The answer of a model is no value of the declared output type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The answer is no JSON, or a value of the right container that does not fit the type.
    #[error("the answer does not fit the output type: {problem}")]
    Malformed {
        /// Description of the problem.
        problem: String,
    },
    /// The answer is a list instead of an object, or the reverse, or neither.
    #[error("the answer is {found}, and the output type is {expected}")]
    WrongContainer {
        /// Kind of the answer.
        found: &'static str,
        /// Kind of the output type.
        expected: &'static str,
    },
    /// The answer has no text.
    #[error("the answer is empty, and the prompt declares an output type")]
    Empty,
    /// The answer was cut at the token limit.
    #[error("the answer reached the token limit before its end; raise `max_tokens`")]
    Truncated,
}

impl OutputError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Malformed { .. } => "W0615",
            Self::WrongContainer { .. } => "W0616",
            Self::Empty => "W0617",
            Self::Truncated => "W0618",
        })
    }

    /// Returns the error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string())
    }
}

impl OutputSpec {
    /// The declaration of a type.
    pub(crate) fn of<T: DeserializeOwned + JsonSchema>() -> Self {
        let check = |value: &Value| T::deserialize(value).map(drop).map_err(|e| e.to_string());
        let limits = Checker::compile(&input_schema::<T>()).map(Arc::new);
        Self::new(args_schema::<T>(), check, limits)
    }

    /// The declaration of a schema that is known only when the program runs.
    pub(crate) fn of_schema(schema: &Value) -> Self {
        let limits = Checker::compile(schema).map(Arc::new);
        Self::new(schema.clone(), |_| Ok(()), limits)
    }

    fn new(
        schema: Value,
        check: fn(&Value) -> Result<(), String>,
        limits: Result<Arc<Checker>, String>,
    ) -> Self {
        let container = match schema.get("type").and_then(Value::as_str) {
            Some("object") => Some(Container::Object),
            Some("array") => Some(Container::List),
            // An enum with data.
            None if schema.get("oneOf").is_some() || schema.get("anyOf").is_some() => {
                Some(Container::Union)
            }
            _ => None,
        };
        let within = |member: &str, schema: Value| {
            json!({
                "type": "object",
                "properties": {member: schema},
                "required": [member],
                "additionalProperties": false,
            })
        };
        let schema = match container {
            Some(Container::List) => within(ITEMS, schema),
            Some(Container::Union) => within(VALUE, schema),
            _ => schema,
        };
        Self { schema, container, check, limits }
    }

    /// Returns the reason for which the type cannot be an output.
    pub(crate) fn problem(&self) -> Option<String> {
        let text = "its output type is neither an object, a list nor an enum with data; wrap the value in a struct";
        if self.container.is_none() {
            return Some(text.to_owned());
        }
        let problem = self.limits.as_ref().err()?;
        Some(format!("the schema of its output type is not valid: {problem}"))
    }

    /// Schema that the model receives.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the value of an answer.
    pub(crate) fn read(&self, text: &str, finish: FinishReason) -> Result<Value, OutputError> {
        let text = strip_fence(text);
        if text.is_empty() {
            return Err(match finish {
                FinishReason::Length => OutputError::Truncated,
                _ => OutputError::Empty,
            });
        }
        let value: Value = json::read(text.as_bytes()).map_err(|error| match finish {
            FinishReason::Length => OutputError::Truncated,
            _ => malformed_output(match &error {
                JsonError::Syntax(error) => format!("it is no JSON: {error}"),
                JsonError::WideInteger { .. } => format!("it has the {error}"),
            }),
        })?;
        let value = self.take_contained(value)?;
        (self.check)(&value).map_err(malformed_output)?;
        if let Ok(limits) = &self.limits {
            limits.check(&value, Quotes::Values).map_err(malformed_output)?;
        }
        Ok(value)
    }

    /// Checks the container, and takes a list or union out of the object around it.
    fn take_contained(&self, mut value: Value) -> Result<Value, OutputError> {
        let wrong = |found: &Value, expected| OutputError::WrongContainer {
            found: kind_of(found),
            expected,
        };
        match self.container {
            Some(Container::List) => match value.get_mut(ITEMS).map(Value::take) {
                Some(items @ Value::Array(_)) => Ok(items),
                Some(other) => Err(wrong(&other, "a list")),
                None if value.is_array() => Ok(value),
                None => Err(wrong(&value, "a list")),
            },
            Some(Container::Union) => Ok(match &mut value {
                Value::Object(members) if members.len() == 1 => {
                    members.get_mut(VALUE).map(Value::take).unwrap_or(value)
                }
                _ => value,
            }),
            _ if value.is_object() => Ok(value),
            _ => Err(wrong(&value, "an object")),
        }
    }
}

/// The type of the final answer of an agent.
#[derive(Debug, Clone)]
pub(crate) struct TypedOutput {
    pub(crate) spec: OutputSpec,
    /// Schema of the type, for clients.
    schema: Value,
    pub(crate) type_name: &'static str,
}

impl TypedOutput {
    pub(crate) fn of<T: DeserializeOwned + JsonSchema>() -> Self {
        Self {
            spec: OutputSpec::of::<T>(),
            schema: output_schema::<T>(),
            type_name: std::any::type_name::<T>(),
        }
    }

    /// Returns the channel of the output.
    pub(crate) fn channel(&self) -> ChannelDef {
        ChannelDef::new(OUTPUT, LastValue::<Value>::new()).with_schema(self.schema.clone())
    }
}

fn malformed_output(problem: String) -> OutputError {
    OutputError::Malformed { problem: problem.chars().take(PROBLEM_CHARS_MAX).collect() }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a truth value",
        Value::Null => "null",
    }
}

/// The text without white space around it, and without the fence of a code block: models put one
/// around JSON even if they are asked for JSON alone.
fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
    struct Day {
        city: String,
        hours: u32,
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "the value is not read")]
    enum Plan {
        Rest,
        Day(Day),
    }

    #[test]
    fn each_kind_of_bad_payload_has_an_error_of_its_own() {
        let object = OutputSpec::of::<Day>();
        let list = OutputSpec::of::<Vec<Day>>();
        let day = json!({"city": "Bern", "hours": 3});
        let one = day.to_string();
        let many = json!([day]).to_string();
        let stop = FinishReason::Stop;
        let length = FinishReason::Length;
        let code = |spec: &OutputSpec, text: &str, finish| match spec.read(text, finish) {
            Ok(_) => "ok",
            Err(error) => error.code().0,
        };
        for (spec, text, finish, expected) in [
            (&object, one.as_str(), stop, "ok"),
            (&object, &format!("```json\n{one}\n```"), stop, "ok"),
            (&list, &many, stop, "ok"),
            (&list, &json!({"items": [day]}).to_string(), stop, "ok"),
            (&list, r#"{"items": []}"#, stop, "ok"),
            (&object, r#"{"city": "Bern"}"#, stop, "W0615"),
            (&object, r#"{"city": "Bern", "hours": "3"}"#, stop, "W0615"),
            (&object, "Sure! Here it is.", stop, "W0615"),
            (&list, r#"[{"city": 1}]"#, stop, "W0615"),
            (&object, &many, stop, "W0616"),
            (&object, "3", stop, "W0616"),
            (&list, &one, stop, "W0616"),
            (&list, r#"{"items": 3}"#, stop, "W0616"),
            (&object, " \n", stop, "W0617"),
            (&object, "``````", stop, "W0617"),
            (&object, r#"{"city": "Be"#, length, "W0618"),
            (&object, "", length, "W0618"),
        ] {
            assert_eq!(code(spec, text, finish), expected, "{text} {finish:?}");
        }
        let union = OutputSpec::of::<Plan>();
        for (text, expected) in [
            (json!({"value": {"day": {"city": "Bern", "hours": 3}}}), "ok"),
            (json!({"day": {"city": "Bern", "hours": 3}}), "ok"),
            (json!({"value": "rest"}), "ok"),
            (json!("rest"), "ok"),
            (json!({"value": "work"}), "W0615"),
            (json!([day]), "W0615"),
        ] {
            assert_eq!(code(&union, &text.to_string(), stop), expected, "{text}");
        }
        assert_eq!(union.schema()["type"], "object", "providers accept only objects");
        assert_eq!(union.schema()["required"], json!(["value"]));
        assert!(OutputSpec::of::<u32>().problem().is_some());
        assert!(object.problem().is_none() && list.problem().is_none());
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "the value is not read")]
    struct Rating {
        #[schemars(range(min = 1, max = 5))]
        stars: u32,
        #[schemars(length(min = 3), regex(pattern = "^[a-z]+$"))]
        word: String,
        #[serde(default)]
        note: Option<String>,
    }

    #[test]
    fn limits_of_the_schema_hold_for_answers() {
        let spec = OutputSpec::of::<Rating>();
        let read = |value: Value| spec.read(&value.to_string(), FinishReason::Stop);
        assert!(read(json!({"stars": 5, "word": "good"})).is_ok());
        assert!(read(json!({"stars": 5, "word": "good", "note": null, "more": 1})).is_ok());
        for (value, part) in [
            (json!({"stars": 10, "word": "good"}), "10 is greater than the maximum of 5"),
            (json!({"stars": 0, "word": "good"}), "/stars"),
            (json!({"stars": 1, "word": "ab"}), "/word"),
            (json!({"stars": 1, "word": "GOOD"}), "/word"),
        ] {
            let problem = read(value).expect_err("over a limit").to_string();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
