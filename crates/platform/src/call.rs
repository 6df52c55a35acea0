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

/// A call as the answer has it.
#[derive(Debug)]
pub(crate) struct ToolCalled {
    tool: String,
    /// The arguments with which it was made, as they are shown.
    arguments: Value,
    end: CallEnd,
}

/// The end of a call.
#[derive(Debug)]
enum CallEnd {
    Done(Value),
    Failed(Fault),
    /// A call before it failed.
    NotMade,
}

impl ToolCalled {
    /// The call with its end.
    pub(crate) fn shown(&self) -> Value {
        let Self { tool, arguments, end } = self;
        match end {
            CallEnd::Done(result) => {
                json!({"tool": tool, "arguments": arguments, "result": result})
            }
            CallEnd::Failed(fault) => {
                let error = json!({"code": fault.code, "message": fault.message});
                json!({"tool": tool, "arguments": arguments, "error": error})
            }
            CallEnd::NotMade => json!({"tool": tool, "arguments": arguments, "made": false}),
        }
    }

    /// Returns `true` for a result of which there is only the beginning.
    pub(crate) fn is_cut(&self) -> bool {
        let CallEnd::Done(Value::Object(members)) = &self.end else { return false };
        members.len() == 2 && members.contains_key("cut") && members.contains_key("beginning")
    }

    /// The result of the call, or its failure.
    pub(crate) fn result(&self) -> Result<Value, Fault> {
        match &self.end {
            CallEnd::Done(result) => Ok(result.clone()),
            CallEnd::Failed(fault) => Err(fault.clone()),
            CallEnd::NotMade => Ok(Value::Null),
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.end, CallEnd::Failed(_))
    }
}

/// Returns the results of calls, or the first failure.
pub(crate) fn results_of(called: &[ToolCalled]) -> Result<Vec<Value>, Fault> {
    let mut results = Vec::new();
    for ToolCalled { end, .. } in called {
        match end {
            CallEnd::Done(result) => results.push(result.clone()),
            CallEnd::Failed(fault) => return Err(fault.clone()),
            CallEnd::NotMade => {}
        }
    }
    Ok(results)
}

/// Makes the calls in the order of the request, up to the first one that fails, or all at once. They
/// have the order of the request.
pub(crate) async fn call_all(
    agent: &Agent,
    tools: &Tools,
    ready: &[ReadyCall],
) -> NodeResult<Vec<ToolCalled>> {
    if agent.definition.tool_mode == Some(ToolMode::Parallel) {
        // A question about one of them waits for the others: a call that began is not cut off.
        let called = join_all(ready.iter().map(|call| call_one(tools, call))).await;
        return called.into_iter().collect();
    }
    let mut called: Vec<ToolCalled> = Vec::new();
    for call in ready {
        called.push(match called.iter().any(ToolCalled::has_failed) {
            true => ToolCalled {
                tool: call.tool.clone(),
                arguments: tools.shown_args(&call.tool, &call.arguments)?,
                end: CallEnd::NotMade,
            },
            false => call_one(tools, call).await?,
        });
    }
    Ok(called)
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
        let end = match called.result {
            // What a deliverable has is shown to people.
            Ok(result) => CallEnd::Done(result.shown.unwrap_or(result.value)),
            Err(failure) => {
                let error = NodeError::from(ToolCallError::Failed(failure));
                CallEnd::Failed(error.try_into_fault()?)
            }
        };
        Ok(ToolCalled { tool, arguments: called.args, end })
    }
}
