//! The mode `converse`: an answer of the model to the conversation.

use crate::agent::{Agent, system, warn_about};
use crate::context;
use crate::state::{AgentState, AgentStateUpdate};
use std::sync::Arc;
use weftwork_graph::{Ctx, Deps, NodeResult, State};
use weftwork_types::message::Message;
use weftwork_types::task::Mode;

/// Answers the conversation in one call of the model.
pub(crate) async fn converse(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let (instructions, gathered) = context::system_text(&agent, &state, &ctx).await?;
    let mut messages: Vec<Message> = Vec::new();
    if !instructions.is_empty() {
        messages.push(system(instructions)?);
    }
    messages.extend(state.messages().iter().cloned());
    let message = agent.ask(messages, &ctx).await?;
    let mut answer = agent.answer(Mode::Converse, message.joined_text().into(), None);
    warn_about(&mut answer, &message);
    if let Some(gathered) = gathered {
        gathered.report(&mut answer);
    }
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}
