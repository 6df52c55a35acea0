//! Calls of tools that a node makes itself.

use super::TaskContext;
use crate::run_loop::sync::lock;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use weftwork_types::ToolCallId;
use weftwork_types::canonical::first_128;

/// The calls that an attempt of a task makes itself, in the order in which its code comes to them.
#[derive(Debug, Default)]
pub(crate) struct OwnCalls(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    /// Number of calls so far, by tool.
    counts: BTreeMap<String, u32>,
    /// Number of each call among those of its tool, from 0, by its id.
    numbers: BTreeMap<String, u32>,
}

impl OwnCalls {
    /// Returns the id of the next call of a tool. It is derived from the position of the task in the
    /// history of its thread, as keys of calls are, and from no id of a checkpoint: a run that stores its
    /// checkpoints at its end, and whose process dies before, begins again with other ones.
    pub(crate) fn next_id(&self, task: &TaskContext, tool: &str) -> ToolCallId {
        let branch = *lock(&task.loop_context.run.branch);
        let mut own = lock(&self.0);
        let count = own.counts.entry(tool.to_owned()).or_default();
        let number = *count;
        *count += 1;
        let place = json!(["tool", branch, task.task_path(), tool, number]);
        let bits = first_128(&place.to_string());
        let id =
            ToolCallId::from_uuid(uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid());
        own.numbers.insert(id.to_string(), number);
        id
    }

    /// Returns the number of a call among those that the attempt makes itself of its tool; `None` for a
    /// call of a model.
    pub(crate) fn number(&self, id: &str) -> Option<u32> {
        lock(&self.0).numbers.get(id).copied()
    }
}
