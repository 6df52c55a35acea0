//! The calls of tools of a build.

use crate::agent::Agent;
use crate::definition::ToolMode;
use futures_util::future::join_all;
use serde_json::{Value, json};
use weftwork_agents::{ToolCallError, Tools};
use weftwork_graph::{NodeError, NodeResult};
use weftwork_types::code::Fault;

/// A call with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct ReadyCall {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// The end of a call.
#[derive(Debug)]
pub(crate) enum CallEnd {
    Done(Value),
    Failed(Fault),
    /// A call before it failed.
    NotMade,
}

impl CallEnd {
    /// The call with its end, as the answer has it.
    pub(crate) fn shown(&self, tool: &str, arguments: &Value) -> Value {
        match self {
            Self::Done(result) => json!({"tool": tool, "arguments": arguments, "result": result}),
            Self::Failed(fault) => {
                let error = json!({"code": fault.code, "message": fault.message});
                json!({"tool": tool, "arguments": arguments, "error": error})
            }
            Self::NotMade => json!({"tool": tool, "arguments": arguments, "made": false}),
        }
    }

    /// Returns `true` for a result of which there is only the beginning.
    pub(crate) fn is_cut(&self) -> bool {
        let Self::Done(Value::Object(members)) = self else { return false };
        members.len() == 2 && members.contains_key("cut") && members.contains_key("beginning")
    }
}

/// Returns the results of calls, or the first failure.
pub(crate) fn results_of(ends: &[CallEnd]) -> Result<Vec<Value>, Fault> {
    let failed = ends.iter().find_map(|end| match end {
        CallEnd::Failed(fault) => Some(fault.clone()),
        _ => None,
    });
    if let Some(fault) = failed {
        return Err(fault);
    }
    let result = |end: &CallEnd| match end {
        CallEnd::Done(result) => Some(result.clone()),
        _ => None,
    };
    Ok(ends.iter().filter_map(result).collect())
}

/// Makes the calls in the order of the request, up to the first one that fails, or all at once. Their
/// ends have the order of the request.
pub(crate) async fn call_all(
    agent: &Agent,
    tools: &Tools,
    ready: &[ReadyCall],
) -> NodeResult<Vec<CallEnd>> {
    if agent.definition.tool_mode == Some(ToolMode::Parallel) {
        // A question about one of them waits for the others: a call that began is not cut off.
        let ends = join_all(ready.iter().map(|call| call_one(tools, call))).await;
        return ends.into_iter().collect();
    }
    let mut ends = Vec::new();
    for call in ready {
        let has_failed = ends.iter().any(|end| matches!(end, CallEnd::Failed(_)));
        let end = if has_failed { CallEnd::NotMade } else { call_one(tools, call).await? };
        ends.push(end);
    }
    Ok(ends)
}

/// Makes a call. An open question stops the node.
async fn call_one(tools: &Tools, call: &ReadyCall) -> NodeResult<CallEnd> {
    match tools.call(&call.tool, call.arguments.clone()).await {
        // What a deliverable has is shown to people.
        Ok(result) => Ok(CallEnd::Done(result.shown.unwrap_or(result.value))),
        Err(ToolCallError::Stopped(stopped)) => Err(stopped),
        Err(failed) => Ok(CallEnd::Failed(NodeError::from(failed).try_into_fault()?)),
    }
}
