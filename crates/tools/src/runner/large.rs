//! Results that are too large for a message: stored by reference, and cut for the model.

use super::ToolRunner;
use super::execute::RunCall;
use crate::check::bytes_over;
use serde_json::{Value, json};
use weftwork_types::port::{CallKey, NewArtifact};
use weftwork_types::tool::ToolOutcome;

/// Maximum size of a result that is stored by reference, in bytes of JSON.
const ARTIFACT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of the shown members that accompany a reference, in bytes of JSON.
const SUMMARY_BYTES_MAX: usize = 4 * 1024;
/// Size of a cut without its text.
const FRAME_BYTES: usize = 512;

impl ToolRunner {
    /// Stores a checked value of this size by reference, and returns the outcome with its cut.
    /// `None` if the value is too large, or the run has no place for it.
    pub(super) fn by_reference(
        &self,
        call: &RunCall,
        key: CallKey,
        value: &Value,
        bytes: usize,
    ) -> Option<ToolOutcome> {
        if bytes > ARTIFACT_BYTES_MAX {
            return None;
        }
        let text = value.to_string();
        // In a JSON string, quotes and backslashes take twice the room.
        let room = self.result_bytes_max.saturating_sub(FRAME_BYTES) / 2;
        let beginning = &text[..text.floor_char_boundary(room)];
        let members = call.entry.shown();
        let ToolOutcome::Ok { shown: part, .. } = call.head.outcome(value.clone(), members) else {
            return None;
        };
        let artifact = NewArtifact {
            key,
            tool: call.name().to_owned(),
            value: value.clone(),
            shown: part.clone(),
            bytes: bytes as u64,
            ttl: self.artifact_ttl,
        };
        let reference = call.head.context.journal.store_artifact(artifact)?;
        let mut shown = json!({"status": "stored", "bytes": bytes, "reference": reference});
        let summary = part.unwrap_or_else(|| value.clone());
        if bytes_over(&summary, SUMMARY_BYTES_MAX).is_none() {
            shown["summary"] = summary;
        }
        let cut = json!({
            "cut": {
                "bytes": beginning.len(),
                "of": bytes,
                "reference": reference,
                "note": "the result is too large; this is its beginning, and the whole is stored",
            },
            "beginning": beginning,
        });
        Some(ToolOutcome::Ok { value: cut, shown: Some(shown) })
    }
}

/// Returns `true` for the cut of a value that is stored by reference.
pub(super) fn is_cut(value: &Value) -> bool {
    value.pointer("/cut/reference").is_some_and(Value::is_string) && value["beginning"].is_string()
}
