//! Answers to commands.

use serde_json::{Value, json};

/// Returns the answer to a command that was carried out. `applied` is the number before the first
/// event that the command causes.
pub(crate) fn success(id: &Value, result: Value, applied: Option<u64>) -> Value {
    let mut reply = json!({"type": "success", "id": id, "result": result});
    if let Some(applied) = applied {
        reply["meta"] = json!({"applied_through_seq": applied});
    }
    reply
}

/// Returns the answer to a command that was refused.
pub(crate) fn error(id: Value, code: &str, message: &str) -> Value {
    json!({"type": "error", "id": id, "error": code, "message": message})
}
