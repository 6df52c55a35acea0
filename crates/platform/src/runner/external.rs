//! External agents: a build asks an agent of another server, and its answer is the deliverable.

use super::Runner;
use crate::agent::{Agent, warn};
use crate::call::{cut, is_cut};
use crate::context;
use crate::definition::{AgentType, Orchestration};
use crate::deliver::{answered, deliver, normalized};
use crate::external::{Asked, PeerAnswer, PeerLocation};
use crate::mode::{RequestError, payload_of};
use crate::state::{AgentState, AgentStateUpdate, chain_of, last_request};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, State};
use weftwork_types::CallChain;
use weftwork_types::message::{Message, MessageExtra, Role};

/// Title of a deliverable whose request has none.
const TITLE: &str = "External Agent Output";
/// Member of the data of a message with its agent, and its conversation at the server of the agent.
const EXTERNAL: &str = "external";
/// Longest content that becomes a deliverable whole, in bytes.
const CONTENT_BYTES_MAX: usize = 640 << 10;

/// The runner of external agents.
#[derive(Debug)]
pub(super) struct External;

impl Runner for External {
    fn agent_type(&self) -> AgentType {
        AgentType::External
    }

    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("build", build)
    }
}

/// Asks the agent.
async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_records(&agent, &payload, &ctx).await?;
    let id = ctx.message_id();
    let asked = Asked {
        message: last_request(&state),
        input: state.input().filter(|input| !input.is_null()),
        payload: &payload,
        chain: chain_behind(&agent, chain_of(&state)?)?,
        context: known_context(&agent, &state),
        answer: &id,
    };
    let peer =
        agent.peer.as_ref().ok_or_else(|| NodeError::message("the definition has no peer"))?;
    let PeerAnswer { content, location } = Box::pin(peer.ask(asked, &ctx)).await;
    let PeerLocation { context, task, is_late } = location;
    let external = json!({"agent": agent.slug, "context": context, "task": task});
    let mut was_cut = false;
    let done = match content {
        Ok(content) => {
            let content = normalized(&agent, limited(content));
            was_cut = is_cut(&content);
            deliver(&agent, &payload, TITLE, content, &ctx).await
        }
        Err(error) => Err(error),
    };
    let (mut answer, text) = answered(&agent, done)?;
    answer["metadata"][EXTERNAL] = external.clone();
    if was_cut {
        warn(
            &mut answer,
            "the answer of the agent is longer than a deliverable may be, and was cut",
        );
    }
    if is_late {
        warn(
            &mut answer,
            "the task went on at its server before the answer to its question, which was not taken",
        );
    }
    let mut message = Message::text(id, Role::Assistant, text);
    let response_metadata = Map::from_iter([(EXTERNAL.to_owned(), external)]);
    message.extra = Some(Box::new(MessageExtra { response_metadata, ..MessageExtra::default() }));
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// Returns the agents that led to the request of this one.
///
/// # Errors
/// W1037 if agents ask one another too deeply.
fn chain_behind(agent: &Agent, chain: CallChain) -> NodeResult<CallChain> {
    let usual = Orchestration::default();
    let own = agent.definition.orchestration.as_ref().unwrap_or(&usual);
    let limit = own.depth_max();
    if chain.depth >= u64::from(limit) {
        let agent = agent.slug.clone();
        return Err(RequestError::Depth { agent, limit }.fault().into());
    }
    // The limits of the agent there are not known: those that are usual.
    let depth = own.depth_of_asked(chain.depth, &usual);
    Ok(chain.asking(agent.id(), depth))
}

/// Returns the conversation at the server of the agent in which it answered last.
fn known_context(agent: &Agent, state: &State<AgentState>) -> Option<String> {
    state.messages().iter().rev().find_map(|message| {
        let of = message.extra.as_ref()?.response_metadata.get(EXTERNAL)?;
        let is_own = of.get("agent").and_then(Value::as_str) == Some(&agent.slug);
        let context = of.get("context").and_then(Value::as_str).filter(|_| is_own);
        context.map(str::to_owned)
    })
}

/// Returns a content, or what stands for one that is too long.
fn limited(content: Value) -> Value {
    let text = match &content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.len() <= CONTENT_BYTES_MAX {
        true => content,
        false => cut(&text[..text.floor_char_boundary(CONTENT_BYTES_MAX / 2)]),
    }
}
