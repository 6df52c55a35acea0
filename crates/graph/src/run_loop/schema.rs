//! Checking answers against their schemas.

use crate::error::RuntimeError;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value as Json;

/// The most problems of an answer that are listed.
const PROBLEMS_MAX: usize = 5;
/// The longest single problem, in characters: it may quote the answer.
const PROBLEM_CHARS_MAX: usize = 240;

/// A compiled schema. It never reaches for a document outside itself, and its patterns take linear
/// time.
#[derive(Debug)]
pub struct Checker(Validator);

impl Checker {
    /// Compiles a schema.
    ///
    /// # Errors
    /// [`RuntimeError::BadAnswerSchema`].
    pub fn new(schema: &Json) -> Result<Self, RuntimeError> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| RuntimeError::BadAnswerSchema { problem: cut(&error.to_string()) })
    }

    /// Checks an answer.
    ///
    /// # Errors
    /// The first problems, each with the JSON pointer of its place.
    pub fn check(&self, answer: &Json) -> Result<(), String> {
        let mut errors = self.0.iter_errors(answer);
        let mut problems: Vec<String> = errors
            .by_ref()
            .take(PROBLEMS_MAX)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "/" } else { &place };
                cut(&format!("at {place}: {error}"))
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

fn cut(text: &str) -> String {
    match text.char_indices().nth(PROBLEM_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}
