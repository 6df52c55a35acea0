//! Checks JSON values against JSON Schemas.
//!
//! The validator is generic over representations of JSON, and is compiled anew in each crate that
//! names its types. This crate is the only one, so that it is compiled once.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// Maximum number of reported problems of a value.
const PROBLEMS_MAX: usize = 5;
/// Maximum length of a reported problem in characters; a problem may quote the value.
const PROBLEM_CHARS_MAX: usize = 240;
/// Maximum length of a quoted value in characters, so that a problem has room for its expectation.
const VALUE_CHARS_MAX: usize = 100;

/// A compiled schema. It never loads external documents, and its patterns match in linear time.
///
/// ```
/// use weftwork_schema::{Checker, Quotes};
/// use serde_json::json;
///
/// let checker = Checker::compile(&json!({"type": "integer"}))?;
/// assert!(checker.check(&json!(1), Quotes::Values).is_ok());
/// let problem = checker.check(&json!("one"), Quotes::Values).unwrap_err();
/// assert_eq!(problem, r#"at /: "one" is not of type "integer""#);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Checker(Validator);

/// Quotations of a value in reports about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// Parts of the value that violate the schema.
    Values,
    /// Nothing: parts of the value are not shown.
    Nothing,
}

impl Checker {
    /// Compiles a schema of draft 2020-12.
    ///
    /// # Errors
    /// The problem of the schema, at most 240 characters.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| cut(&error.to_string(), PROBLEM_CHARS_MAX))
    }

    /// Validates a value, and reports problems with these quotations.
    ///
    /// # Errors
    /// The first five problems, each with the JSON pointer of its location and at most 240
    /// characters, and the number of the others.
    pub fn check(&self, value: &Value, quotes: Quotes) -> Result<(), String> {
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
    let text = error.to_string();
    let value = error.instance().to_string();
    match text.strip_prefix(&value) {
        Some(problem) => format!("{}{problem}", cut(&value, VALUE_CHARS_MAX)),
        None => text,
    }
}

/// Cuts a text to a number of characters and marks the cut.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Checker, Quotes};
    use serde_json::{Value, json};

    #[test]
    fn problems_are_listed_with_their_places_and_bounded() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let checker = Checker::compile(&schema).expect("compiles");
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
        let checker = Checker::compile(&schema).expect("compiles");
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
        ] {
            assert!(Checker::compile(&bad).is_err(), "{bad}");
        }
    }
}
