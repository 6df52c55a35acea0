//! Calls of tools outside of nodes, where nobody can be asked.

use super::{ToolCallError, result_of_outcome};
use serde_json::Value;
use weftwork_graph::NodeError;
use weftwork_tools::{Executed, Prepared, ToolRunner};
use weftwork_types::ToolCallId;
use weftwork_types::message::{ToolCall, ToolResult};
use weftwork_types::port::CallContext;
use weftwork_types::tool::wire_name;

/// Calls a tool outside of nodes.
pub(crate) async fn call_outside(
    runner: &ToolRunner,
    calls: &CallContext,
    name: &str,
    args: Value,
) -> Result<ToolResult, ToolCallError> {
    let id = ToolCallId::from_uuid(uuid::Uuid::from_u128(calls.clock.unique()));
    let call = ToolCall { id, name: wire_name(name), args, shown: None };
    let refused = |problem: String| {
        let text = format!("tool `{name}` {problem}");
        ToolCallError::Stopped(NodeError::message(text))
    };
    let needs_person = || {
        refused(
            "needs a person, and this logic runs outside of a node; call it in a node of an activity, which waits for the answer".to_owned(),
        )
    };
    let Prepared::Ready(ready) = runner.prepare(&call, calls) else {
        return Err(needs_person());
    };
    let executed = runner.execute(ready).await;
    match executed.map_err(|error| ToolCallError::Stopped(error.fault().into()))? {
        Executed::Done(outcome) => result_of_outcome(&call, outcome),
        Executed::Asks(_) => Err(needs_person()),
        Executed::OutcomeUnknown(unknown) => {
            let reason = unknown.question().reason;
            Err(refused(format!(
                "was called, and the outcome is unknown: {reason}; look at what it should have changed before you call it again"
            )))
        }
    }
}
