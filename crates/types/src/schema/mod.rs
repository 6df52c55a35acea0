//! JSON Schemas of records, and types for other languages that follow from them.

mod typescript;

pub use typescript::typescript;

use crate::canonical::Hash;
use crate::event::RunEvent;
use crate::{CheckpointId, InterruptId, InvocationId, MessageId, RunId, TaskId, ToolCallId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;

/// Returns the JSON Schema (2020-12) of the events of runs, with their positions.
#[must_use]
pub fn events() -> Value {
    schemars::schema_for!(RunEvent).to_value()
}

/// Texts that are more than a string in Rust.
macro_rules! texts {
    ($($name:ident, $description:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "type": "string",
                    "pattern": $pattern,
                })
            }
        }
    )*};
}

texts! {
    MessageId, "Id of a message in a thread.", r"^[^\x00-\x1f\x7f-\x9f]{1,256}$";
    ToolCallId, "Id of a tool call.", r"^[^\x00-\x1f\x7f-\x9f]{1,256}$";
    RunId, "Id of a run.", "^[A-Za-z0-9_.:-]{1,128}$";
    InvocationId, "Id of an attempt of a model call.", "^[A-Za-z0-9_.:-]{1,128}$";
    CheckpointId, "Id of a checkpoint.", "^[0-9a-f]{32}$";
    TaskId, "Id of a task of one superstep.", "^[0-9a-f]{32}$";
    InterruptId, "Id of an open question.", "^[0-9a-f]{32}$";
    Hash, "SHA-256 of a canonical JSON text.", "^[0-9a-f]{64}$";
}
