//! Validates values against precompiled schemas.

use crate::ToolBoxError;
use crate::error::cut;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// Maximum number of reported problems of a value.
const PROBLEMS_MAX: usize = 5;
/// Maximum length of a reported problem in characters; a problem may quote the value.
const PROBLEM_CHARS_MAX: usize = 240;

/// Maximum length of a quoted value in characters, so that a problem has room for its expectation.
const VALUE_CHARS_MAX: usize = 100;

/// A compiled schema. It never loads external documents, and its patterns match in linear time.
#[derive(Debug)]
pub(crate) struct Checker(Validator);

/// Quotations of a value in reports about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// Parts of the value that violate the schema.
    Values,
    /// Nothing: parts of the value are not shown.
    Nothing,
}

impl Checker {
    pub(crate) fn args(tool: &str, schema: &Value) -> Result<Self, ToolBoxError> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(ToolBoxError::Schema {
                name: tool.to_owned(),
                which: "parameters",
                detail: "arguments are one object; expected `\"type\": \"object\"` at its root"
                    .to_owned(),
            });
        }
        Self::compile(tool, "parameters", schema)
    }

    pub(crate) fn output(tool: &str, schema: &Value) -> Result<Self, ToolBoxError> {
        Self::compile(tool, "output", schema)
    }

    fn compile(tool: &str, which: &'static str, schema: &Value) -> Result<Self, ToolBoxError> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| ToolBoxError::Schema {
                name: tool.to_owned(),
                which,
                detail: cut(&error.to_string(), PROBLEM_CHARS_MAX),
            })
    }

    /// Validates a value, and reports problems with these quotations.
    ///
    /// # Errors
    /// The first problems, each with the JSON pointer of its location.
    pub(crate) fn check(&self, value: &Value, quotes: Quotes) -> Result<(), String> {
        let mut errors = self.0.iter_errors(value);
        let mut problems: Vec<String> = errors
            .by_ref()
            .take(PROBLEMS_MAX)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "/" } else { &place };
                let problem = match quotes {
                    Quotes::Values => format!("at {place}: {}", quoted(&error)),
                    Quotes::Nothing => format!("at {place}: {}", error.masked()),
                };
                cut(&problem, PROBLEM_CHARS_MAX)
            })
            .collect();
        if problems.is_empty() {
            return Ok(());
        }
        let more = errors.count();
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Err(problems.join("; "))
    }
}

/// A problem as text, with the beginning of a long value.
fn quoted(error: &jsonschema::ValidationError<'_>) -> String {
    let (text, value) = (error.to_string(), error.instance().to_string());
    match text.strip_prefix(&value) {
        Some(problem) => format!("{}{problem}", cut(&value, VALUE_CHARS_MAX)),
        None => text,
    }
}

/// Returns the length of a value's JSON text if it is over a limit, without copying the value.
pub(crate) fn bytes_over(value: &Value, bytes_max: usize) -> Option<usize> {
    let mut counter = Counter(0);
    // Counting cannot fail and a `Value` always serialises, so the count is correct.
    let counted = serde_json::to_writer(&mut counter, value);
    (counted.is_err() || counter.0 > bytes_max).then_some(counter.0)
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problems_are_listed_with_their_places_and_bounded() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let checker = Checker::args("t", &schema).expect("compiles");
        let many: serde_json::Map<_, _> =
            (0..9).map(|i| (format!("k{i}"), json!("x".repeat(1000)))).collect();
        let text = checker
            .check(&Value::Object(many), Quotes::Values)
            .expect_err("strings are no integers");
        assert!(text.contains("at /k0: ") && text.contains("at /k4: "), "{text}");
        assert!(text.ends_with("and 4 more") && text.len() < 2_000, "{text}");
    }

    #[test]
    fn a_value_that_is_not_shown_is_not_quoted() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"enum": [1]}, "c": {"maxLength": 1}},
        });
        let checker = Checker::output("t", &schema).expect("compiles");
        let value = json!({"a": "CANARY", "b": "CANARY", "c": "CANARY"});
        let text = checker.check(&value, Quotes::Nothing).expect_err("three problems");
        assert!(text.contains("at /a: ") && text.contains("at /c: "), "{text}");
        assert!(!text.contains("CANARY"), "{text}");
    }

    #[test]
    fn schemas_that_reach_outside_or_do_not_compile_are_refused() {
        for bad in [
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"type": "object", "properties": {"a": {"type": "no such type"}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
            json!({"type": "string"}),
            json!(true),
        ] {
            let error = Checker::args("t", &bad).expect_err("refused");
            assert_eq!(error.code().0, "W0422", "{error}");
        }
    }

    #[test]
    fn size_is_the_size_of_the_json_text() {
        assert_eq!(bytes_over(&json!("abc"), 5), None);
        assert_eq!(bytes_over(&json!("abcd"), 5), Some(6));
    }
}
