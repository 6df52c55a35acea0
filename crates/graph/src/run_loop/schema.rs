//! Schemas of answers.

use crate::error::RuntimeError;
use serde_json::Value as Json;
use weftwork_schema::Checker;

/// Compiles the schema that a question's answer has to satisfy.
///
/// # Errors
/// [`RuntimeError::BadAnswerSchema`].
pub(crate) fn answer_checker(schema: &Json) -> Result<Checker, RuntimeError> {
    Checker::compile(schema).map_err(|problem| RuntimeError::BadAnswerSchema { problem })
}
