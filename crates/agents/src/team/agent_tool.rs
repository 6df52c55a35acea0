//! Agents as tools of other agents.

use super::member::{Member, Work, added_work};
use crate::agent::{Agent, AgentKind};
use crate::calls::CallingNode;
use crate::error::AgentError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use weftwork_graph::{IntoGraph, NodeError, NodeResult, SubgraphState};
use weftwork_tools::{FnTool, ToolContext, ToolError, ToolOutput};
use weftwork_types::message::{Message, Role};

/// Default time limit of a call of an agent. The deadline of the run cuts it off earlier.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Codes of faults of the run: of its budget, its limits and its deadline. They are no failures of the agent, and
/// stop the node that called.
const OF_RUN: [&str; 6] = ["W0601", "W0603", "W0609", "W0659", "W0661", "W0124"];

/// The request to an agent.
#[derive(Debug, Deserialize, JsonSchema)]
struct Request {
    /// The task of the agent, with everything that it has to know.
    request: String,
}

/// Returns a graph with a conversation as a tool. A call has one argument `request`, with which the
/// graph begins a conversation of its own; its last answer is the result.
///
/// The tool runs in nodes of agents and in those that take [`Tools`](crate::Tools): the graph is a
/// subgraph of the node that makes the call. So a question within it ends the run as a question of
/// any node, the call goes on after the answer, in another process too, and is no further call.
/// Budget, deadline and principal are those of the run; a used-up budget and the deadline stop the
/// node. Any other failure of the graph is the failed result of the call. The tool counts as
/// read-only: the tools of the graph have effects and a policy of their own. It has a time limit of
/// 24 hours, which [`FnTool::timeout`] changes.
///
/// # Errors
/// [`AgentError::NoConversation`] if the graph has no channel `messages`, [`AgentError::Invalid`]
/// with the problems of the graph.
pub fn as_tool(
    graph: impl IntoGraph,
    name: impl Into<String>,
    description: impl Into<String>,
) -> Result<FnTool, AgentError> {
    let member = Member::new(graph.into_graph()?, "a tool")?;
    let closed = member.clone();
    let tool = FnTool::new(name, description, move |request: Request, context: ToolContext| {
        let member = member.clone();
        async move {
            let node = context.deps::<CallingNode>()?;
            match answer_of_member(&member, &node, &context, request).await {
                Ok(text) => Ok(ToolOutput::Value(text)),
                Err(error) => failed_or_stopped(&member, &node, error),
            }
        }
    });
    // Calls of the agent that are on record stay known when the call of the agent is left open.
    let tool = tool.reconcile(move |request: Request, context: ToolContext| {
        let member = closed.clone();
        async move {
            let node = context.deps::<CallingNode>()?;
            match run_member(&member, &node, &context, request).await {
                Ok(work) => Ok(work.calls_left_open(member.name())),
                Err(error) if error.is_interrupt() => Ok(None),
                Err(error) => failed_or_stopped(&member, &node, error).map(|_| None),
            }
        }
    });
    Ok(tool.timeout(TIMEOUT))
}

impl<K: AgentKind> Agent<K> {
    /// Returns the agent as a tool of other agents: each call gives it a request, and its last answer
    /// is the result. See [`as_tool`](crate::as_tool()).
    ///
    /// # Errors
    /// [`AgentError`] as for [`build`](Self::build), or if the agent has no conversation.
    pub fn as_tool(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<FnTool, AgentError> {
        as_tool(self.build()?, name, description)
    }
}

async fn answer_of_member(
    member: &Member,
    node: &CallingNode,
    context: &ToolContext,
    request: Request,
) -> NodeResult<String> {
    let work = run_member(member, node, context, request).await?;
    Ok(work.answer(member.name())?.joined_text())
}

/// Runs the agent on a request; if the call is left open, returns its work up to then.
async fn run_member(
    member: &Member,
    node: &CallingNode,
    context: &ToolContext,
    Request { request }: Request,
) -> NodeResult<Work> {
    let ctx = node.ctx();
    let asked = [Message::text(ctx.message_id(), Role::User, request)];
    // The id of the call: other calls of the node may come from the journal when it runs again.
    let name = context.tool_call_id.as_str();
    let input = json!({ "messages": asked });
    let output = ctx.call_named(name, member.graph(), SubgraphState::PerTask, input).await?;
    added_work(output, &asked)
}

/// A failure of the graph is the result of the call; everything else stops the node, and the call
/// waits.
fn failed_or_stopped(
    member: &Member,
    node: &CallingNode,
    error: NodeError,
) -> Result<ToolOutput<String>, ToolError> {
    match error.fault().filter(|fault| !OF_RUN.contains(&fault.code.as_str())) {
        Some(fault) => Err(ToolError::failed(format_args!(
            "agent `{}` failed ({}): {}",
            member.name(),
            fault.code,
            fault.message
        ))),
        None => {
            node.stop(error);
            Ok(ToolOutput::Waits)
        }
    }
}
