//! Checks JSON values against JSON Schemas.
//!
//! The validator is generic over representations of JSON, and is compiled anew in each crate that
//! names its types. This crate is the only one, so that it is compiled once.

use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
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

/// A violation of a schema by a part of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// JSON pointer of the part.
    pub at: String,
    /// JSON pointer of the keyword in the schema; its references are part of it.
    pub keyword: String,
    /// Kind.
    pub kind: ViolationKind,
}

/// Kinds of violations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ViolationKind {
    /// An object has members that it may not have.
    UnknownMembers(Vec<String>),
    /// An object lacks a member.
    MissingMember(String),
    /// A value has another type than this one.
    Type(String),
    /// A value is none of these.
    NoneOf(Vec<Value>),
    /// Another violation, as a text without the value.
    Other(String),
}

impl Violation {
    fn of(error: &ValidationError<'_>) -> Self {
        let kind = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                ViolationKind::UnknownMembers(unexpected.clone())
            }
            ValidationErrorKind::Required { property } => {
                ViolationKind::MissingMember(property.as_str().unwrap_or_default().to_owned())
            }
            ValidationErrorKind::Type { kind } => ViolationKind::Type(match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    let kinds: Vec<_> = kinds.into_iter().map(|kind| kind.to_string()).collect();
                    kinds.join(" or ")
                }
            }),
            ValidationErrorKind::Enum { options } => {
                ViolationKind::NoneOf(options.as_array().cloned().unwrap_or_default())
            }
            _ => ViolationKind::Other(cut(&error.masked().to_string(), PROBLEM_CHARS_MAX)),
        };
        Self {
            at: error.instance_path().to_string(),
            keyword: error.schema_path().to_string(),
            kind,
        }
    }
}

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

    /// Returns the violations by a value, at most this number.
    ///
    /// ```
    /// use weftwork_schema::{Checker, ViolationKind};
    /// use serde_json::json;
    ///
    /// let checker = Checker::compile(&json!({"properties": {"a": {"type": "integer"}}}))?;
    /// let found = checker.violations(&json!({"a": "one"}), 10);
    /// assert_eq!(found[0].at, "/a");
    /// assert_eq!(found[0].kind, ViolationKind::Type("integer".to_owned()));
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn violations(&self, value: &Value, max: usize) -> Vec<Violation> {
        self.0.iter_errors(value).take(max).map(|error| Violation::of(&error)).collect()
    }

    /// Validates a value, and reports problems with these quotations. If a value fits none of
    /// several forms, and its constants select one of them, the problems of that form are reported.
    ///
    /// # Errors
    /// The first five problems, each with the JSON pointer of its location and at most 240
    /// characters, and the number of the others.
    pub fn check(&self, value: &Value, quotes: Quotes) -> Result<(), String> {
        let mut errors = self.0.iter_errors(value);
        let first = errors.by_ref().take(PROBLEMS_MAX);
        let mut problems: Vec<String> =
            first.flat_map(|error| problems_of(&error, quotes)).collect();
        if problems.is_empty() {
            return Ok(());
        }
        let more = errors.count() + problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Err(problems.join("; "))
    }
}

/// Returns the problems of an error. A value that has to be of one of several forms has those of
/// the form that its constants select.
fn problems_of(error: &ValidationError<'_>, quotes: Quotes) -> Vec<String> {
    if let Some(form) = selected_form(error) {
        return form.iter().flat_map(|error| problems_of(error, quotes)).collect();
    }
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "/" } else { &place };
    let problem = match (is_of_no_form(error), quotes) {
        (true, Quotes::Nothing) => "value has none of the expected forms".to_owned(),
        (_, Quotes::Values) => quoted(error),
        (false, Quotes::Nothing) => error.masked().to_string(),
    };
    vec![cut(&format!("at {place}: {problem}"), PROBLEM_CHARS_MAX)]
}

/// Returns the problems of the only form whose constants a value has.
fn selected_form<'a>(error: &'a ValidationError<'_>) -> Option<&'a [ValidationError<'static>]> {
    let (ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context }) =
        error.kind()
    else {
        return None;
    };
    let differs = |problem: &ValidationError<'_>| {
        let kind = problem.kind();
        matches!(kind, ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. })
    };
    let mut selected = context.iter().filter(|form| !form.iter().any(differs));
    match (context.len(), selected.next(), selected.next()) {
        (2.., Some(form), None) => Some(form),
        _ => None,
    }
}

fn is_of_no_form(error: &ValidationError<'_>) -> bool {
    let kind = error.kind();
    matches!(kind, ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::AnyOf { .. })
}

/// A problem as text, with the beginning of a long value.
fn quoted(error: &ValidationError<'_>) -> String {
    let value = error.instance().to_string();
    if is_of_no_form(error) {
        return format!("{} has none of the expected forms", cut(&value, VALUE_CHARS_MAX));
    }
    let text = error.to_string();
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
    fn a_value_of_one_of_several_forms_has_the_problems_of_that_form() {
        let form = |word: &str, value: Value| json!({"properties": {"is": {"const": word}, "value": value}});
        let schema =
            json!({"oneOf": [form("a", json!({"type": "integer"})), form("b", json!(true))]});
        let checker = Checker::compile(&schema).expect("compiles");
        for (value, expected) in [
            (json!({"is": "a", "value": "x"}), r#"at /value: "x" is not of type "integer""#),
            (json!({"is": "c"}), r#"at /: {"is":"c"} has none of the expected forms"#),
        ] {
            let problem = checker.check(&value, Quotes::Values).expect_err("does not fit");
            assert_eq!(problem, expected);
        }
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
