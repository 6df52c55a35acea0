//! Context agents: a build gathers a context and makes a deliverable of it in one call of a model.

use super::Runner;
use crate::agent::{Agent, system, warn_about};
use crate::context::{self, Fetched, Piece};
use crate::definition::AgentType;
use crate::mode::payload_of;
use crate::records::{ContentFormat, NewVersion, RecordKind};
use crate::skills::choose_skills;
use crate::state::{AgentState, AgentStateUpdate, chain_of, last_request};
use crate::sub_agent::{FailedRequest, NoInput, SubRequest, ask_agent};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, State};
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Mode;

/// Title of a deliverable whose request has none.
const TITLE: &str = "Context Agent Output";

/// The runner of context agents.
#[derive(Debug)]
pub(super) struct Context;

impl Runner for Context {
    fn agent_type(&self) -> AgentType {
        AgentType::Context
    }

    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("build", build)
    }
}

/// Makes a deliverable, or a further version of one.
async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_records(&agent, &payload, &ctx).await?;
    let sub_agent = ask_sub_agent(&agent, &state, &ctx).await?;
    let skills = choose_skills(&agent, &state, &ctx).await?;
    let gathered = context::gather(
        &agent,
        &state,
        Fetched { sub_agent, steps: context::step_pieces(&agent, &state)?, skills },
        &ctx,
    )
    .await?;
    let mut instructions = gathered.text.clone();
    instructions.push_str("\n\nCarry out what the user asks for. Answer with the result alone,");
    let form = agent.definition.deliverable.as_ref();
    instructions.push_str(&context::deliverable_text(form));
    let id = payload.deliverable_id.as_deref();
    let present = match id {
        Some(_) => context::record_content(&agent, RecordKind::Deliverable, id, &ctx).await?,
        None => None,
    };
    if let Some(present) = &present {
        instructions.push_str("\n\nThe present version of the result:\n");
        instructions.push_str(&present.content);
    }
    let asked = last_request(&state).cloned();
    let asked = match asked {
        Some(asked) => asked,
        None => Message::text(ctx.message_id(), Role::User, "Make the result."),
    };
    let messages = vec![system(instructions.trim().to_owned())?, asked];
    let schema = form.and_then(|form| form.schema.as_ref());
    let made = agent.make(&agent.deliverable, schema, messages, &ctx).await?;
    let content = match agent.deliverable.format() {
        ContentFormat::Json => serde_json::from_str(&made.content)?,
        _ => made.content.clone().into(),
    };
    agent.check_output(&content)?;
    let title = payload.title.or_else(|| Some(present.as_ref()?.version.title.clone()));
    let new = NewVersion {
        title: title.unwrap_or_else(|| TITLE.to_owned()),
        content: made.content.clone(),
        parent: present.map(|present| present.version.number),
        ..NewVersion::default()
    };
    let written = agent.write(RecordKind::Deliverable, id, new, &ctx).await?;
    let mut answer = agent.answer(Mode::Build, content, Some(&written));
    gathered.report(&mut answer);
    warn_about(&mut answer, &made.message);
    Ok(AgentStateUpdate::new().messages([made.message]).answer(answer))
}

/// Asks the agent whose result is a part of the context, if the definition requires it.
async fn ask_sub_agent(
    agent: &Agent,
    state: &State<AgentState>,
    ctx: &Ctx,
) -> NodeResult<Option<Piece>> {
    let definition = &agent.definition;
    let Some(slug) = definition.sub_agent_slug.as_deref() else { return Ok(None) };
    if definition.requires_sub_agents != Some(true) {
        return Ok(None);
    }
    let asked: Vec<Message> = state.messages().iter().rev().take(1).cloned().collect();
    let request = SubRequest {
        call: "sub_agent",
        slug,
        input: Map::from_iter([
            ("messages".to_owned(), json!(asked)),
            ("mode".to_owned(), json!(Mode::Build)),
        ]),
        no_input: NoInput::Chat,
        chain: chain_of(state)?,
    };
    let answer = ask_agent(agent, request, ctx).await;
    let asked = FailedRequest { agent: slug, step: "sub_agent", attempt: 1 };
    let mut answer = answer.map_err(|error| asked.fails_with(error, ctx))?;
    let content = answer.get_mut("content").map(Value::take).unwrap_or_default();
    let text = match content {
        Value::Null => return Err(NodeError::message(format!("agent {slug} gave no answer"))),
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(Some(Piece {
        source: "sub_agent".to_owned(),
        title: format!("Result of {slug}"),
        text,
        newest_last: false,
    }))
}
