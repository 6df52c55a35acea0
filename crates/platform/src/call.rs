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

/// A call that ended.
#[derive(Debug)]
pub(crate) struct ToolCalled {
    tool: String,
    /// The arguments with which it was made, as they are shown.
    arguments: Value,
    /// Its result as it is shown, or its failure.
    pub(crate) result: Result<Value, Fault>,
}

impl ToolCalled {
    /// The call with its end, as the answer has it.
    pub(crate) fn shown(&self) -> Value {
        let Self { tool, arguments, result } = self;
        match result {
            Ok(result) => json!({"tool": tool, "arguments": arguments, "result": result}),
            Err(fault) => {
                let error = json!({"code": fault.code, "message": fault.message});
                json!({"tool": tool, "arguments": arguments, "error": error})
            }
        }
    }
}

/// The calls of a build.
#[derive(Debug, Default)]
pub(crate) struct AllCalled {
    /// Calls that ended, in the order of the request.
    ended: Vec<ToolCalled>,
    /// Calls behind one that failed, as the answer has them.
    not_made: Vec<Value>,
}

impl AllCalled {
    /// The calls as the answer has them.
    pub(crate) fn shown(&self) -> Vec<Value> {
        self.ended.iter().map(ToolCalled::shown).chain(self.not_made.iter().cloned()).collect()
    }

    /// Returns `true` if of a result there is only the beginning.
    pub(crate) fn is_cut(&self) -> bool {
        // The result of an API has a body, which is cut.
        let has_cut = |result: &Value| is_cut(result) || result.get("body").is_some_and(is_cut);
        self.ended.iter().any(|call| call.result.as_ref().is_ok_and(has_cut))
    }

    /// Returns the results, or the first failure.
    pub(crate) fn results(&self) -> Result<Vec<Value>, Fault> {
        self.ended.iter().map(|call| call.result.clone()).collect()
    }

    fn has_failed(&self) -> bool {
        self.ended.iter().any(|call| call.result.is_err())
    }
}

/// Returns what stands for a result of which there is only the beginning.
pub(crate) fn cut(beginning: &str) -> Value {
    json!({"cut": true, "beginning": beginning})
}

/// Returns `true` for what stands for a result of which there is only the beginning.
pub(crate) fn is_cut(result: &Value) -> bool {
    let Value::Object(members) = result else { return false };
    members.len() == 2 && members.contains_key("cut") && members.contains_key("beginning")
}

/// Makes the calls in the order of the request, up to the first one that fails, or all at once.
pub(crate) async fn call_all(
    agent: &Agent,
    tools: &Tools,
    ready: &[ReadyCall],
) -> NodeResult<AllCalled> {
    if agent.definition.tool_mode == Some(ToolMode::Parallel) {
        // A question about one of them waits for the others: a call that began is not cut off.
        let ended = join_all(ready.iter().map(|call| call_one(tools, call))).await;
        let ended = ended.into_iter().collect::<NodeResult<_>>()?;
        return Ok(AllCalled { ended, not_made: Vec::new() });
    }
    let mut all = AllCalled::default();
    for call in ready {
        if all.has_failed() {
            let arguments = tools.shown_args(&call.tool, &call.arguments)?;
            all.not_made.push(json!({"tool": call.tool, "arguments": arguments, "made": false}));
        } else {
            all.ended.push(call_one(tools, call).await?);
        }
    }
    Ok(all)
}

/// Makes a call. An open question stops the node.
pub(crate) fn call_one<'t>(
    tools: &'t Tools,
    call: &ReadyCall,
) -> impl Future<Output = NodeResult<ToolCalled>> + Send + use<'t> {
    // It gets its number here, in the order of the request, and not when it is polled.
    let called = tools.call_with_args(&call.tool, call.arguments.clone());
    let tool = call.tool.clone();
    async move {
        let called = called.await?;
        let result = match called.result {
            // What a deliverable has is shown to people.
            Ok(result) => Ok(result.shown.unwrap_or(result.value)),
            Err(failure) => {
                let error = NodeError::from(ToolCallError::Failed(failure));
                Err(error.try_into_fault()?)
            }
        };
        Ok(ToolCalled { tool, arguments: called.args, result })
    }
}
