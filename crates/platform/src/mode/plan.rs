//! The mode `plan`: a plan that the model makes of the conversation.

use super::payload_of;
use crate::agent::{Agent, Written, system};
use crate::context;
use crate::records::{NewVersion, RecordKind};
use crate::state::{AgentState, AgentStateUpdate};
use std::sync::Arc;
use weftwork_graph::{Ctx, Deps, NodeResult, State};
use weftwork_types::message::Message;
use weftwork_types::task::Mode;

/// Makes a plan, or a further version of one.
pub(crate) async fn plan(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    let (mut instructions, gathered) = context::system_text(&agent, &state, &ctx).await?;
    let id = payload.plan_id.as_deref();
    let present = match id {
        Some(_) => context::record_content(&agent, RecordKind::Plan, id, &ctx).await?,
        None => None,
    };
    instructions.push_str(
        "\n\nMake a plan for what the user asks for. Do not carry it out. Answer with the plan alone",
    );
    instructions.push_str(&context::plan_text(agent.definition.plan.as_ref()));
    if let Some(present) = &present {
        instructions.push_str("\n\nThe present version of the plan:\n");
        instructions.push_str(&present.content);
    }
    let mut messages: Vec<Message> = vec![system(instructions.trim().to_owned())?];
    messages.extend(state.messages().iter().cloned());
    let schema = agent.definition.plan.as_ref().and_then(|plan| plan.schema.as_ref());
    let made = agent.make(&agent.plan, schema, messages, &ctx).await?;
    let title = payload.title.clone();
    let title = title.or_else(|| present.as_ref().map(|present| present.version.title.clone()));
    let new = NewVersion {
        title: title.unwrap_or_else(|| format!("Plan of {}", agent.name())),
        content: made.content.clone(),
        parent: present.as_ref().map(|present| present.version.number),
        ..NewVersion::default()
    };
    let written: Written = agent.write(RecordKind::Plan, id, new, &ctx).await?;
    let mut answer = agent.answer(Mode::Plan, made.content.into(), Some(&written));
    if let Some(gathered) = gathered {
        gathered.report(&mut answer);
    }
    Ok(AgentStateUpdate::new().messages([made.message]).answer(answer))
}
