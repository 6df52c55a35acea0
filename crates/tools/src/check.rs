//! Checkers of tools, and sizes of values.

use crate::ToolBoxError;
use serde_json::Value;
use weftwork_schema::Checker;

/// Compiles the schema of a tool's arguments.
///
/// # Errors
/// [`ToolBoxError::Schema`], also if the schema is not of one object.
pub(crate) fn arguments_checker(tool: &str, schema: &Value) -> Result<Checker, ToolBoxError> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(ToolBoxError::Schema {
            name: tool.to_owned(),
            which: "parameters",
            detail: "arguments are one object; expected `\"type\": \"object\"` at its root"
                .to_owned(),
        });
    }
    compile(tool, "parameters", schema)
}

/// Compiles the schema of a tool's results.
///
/// # Errors
/// [`ToolBoxError::Schema`].
pub(crate) fn output_checker(tool: &str, schema: &Value) -> Result<Checker, ToolBoxError> {
    compile(tool, "output", schema)
}

fn compile(tool: &str, which: &'static str, schema: &Value) -> Result<Checker, ToolBoxError> {
    let checker = Checker::compile(schema);
    checker.map_err(|detail| ToolBoxError::Schema { name: tool.to_owned(), which, detail })
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
    fn schemas_of_arguments_are_refused_by_name() {
        for bad in [
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"type": "object", "properties": {"a": {"type": "no such type"}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
            json!({"type": "string"}),
            json!(true),
        ] {
            let error = arguments_checker("t", &bad).expect_err("refused");
            assert_eq!(error.code().0, "W0422", "{error}");
        }
    }

    #[test]
    fn size_is_the_size_of_the_json_text() {
        assert_eq!(bytes_over(&json!("abc"), 5), None);
        assert_eq!(bytes_over(&json!("abcd"), 5), Some(6));
    }
}
