//! The context of a request: the instructions, and what is gathered from the sources.

mod fit;
mod form;
mod gather;
mod template;

pub(crate) use fit::{Piece, tokens};
pub(crate) use form::{deliverable_text, plan_text};
pub(crate) use gather::{Fetched, Gathered, gather};
pub(crate) use template::{NAMES, Template, front_matter};

use crate::agent::Agent;
use crate::definition::{OutlineStep, SourceKind};
use crate::orchestration::Progress;
use crate::records::{Record, RecordId, RecordKind, RecordRef, Records, VersionContent};
use crate::skills::choose_skills;
use crate::state::{AgentState, last_request};
use serde_json::{Map, Value, json};
use weftwork_graph::{Ctx, NodeResult, Once, State};
use weftwork_types::task::Payload;

/// Returns the instructions of an agent for a request: its purpose and its `context`, whose
/// placeholders are filled. They are recorded, so that a node that is executed again asks its model
/// the same.
pub(crate) async fn instructions(
    agent: &Agent,
    state: &State<AgentState>,
    ctx: &Ctx,
) -> NodeResult<String> {
    let work = async |_| Ok(instructions_now(agent, state, ctx));
    ctx.once(Once::new("instructions").reads(), work).await
}

/// Returns the system text of a mode without a build: the instructions, or what is gathered from the
/// sources that the definition declares. The conversation itself follows as messages.
pub(crate) async fn system_text(
    agent: &Agent,
    state: &State<AgentState>,
    ctx: &Ctx,
) -> NodeResult<(String, Option<Gathered>)> {
    let skills = choose_skills(agent, state, ctx).await?;
    // Without sources, a context would be cut that has the instructions alone.
    let steps = step_pieces(agent, state)?;
    if agent.definition.sources.is_none() && skills.is_empty() && steps.is_empty() {
        return Ok((instructions(agent, state, ctx).await?, None));
    }
    let fetched = Fetched { sub_agent: None, steps, skills };
    let gathered = gather::gather_without(SourceKind::History, agent, state, fetched, ctx).await?;
    Ok((gathered.text.clone(), Some(gathered)))
}

/// Returns the contents of the steps of the orchestration of the run.
pub(crate) fn step_pieces(agent: &Agent, state: &State<AgentState>) -> NodeResult<Vec<Piece>> {
    let Some(progress) = Progress::of(state)? else { return Ok(Vec::new()) };
    let outline = progress.outline(agent)?;
    let results = progress.results(&outline);
    let piece = |OutlineStep { id, .. }: &OutlineStep| {
        let text = match results.pointer(&format!("/{id}/content"))? {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let source = SourceKind::Steps.name().to_owned();
        Some(Piece { source, title: format!("Result of step {id}"), text, newest_last: false })
    };
    Ok(outline.steps.iter().filter_map(piece).collect())
}

fn instructions_now(agent: &Agent, state: &State<AgentState>, ctx: &Ctx) -> String {
    let mut text = String::new();
    if let Some(description) = &agent.definition.agent_card.description {
        text = format!("You are {}. {description}.", agent.name()).replace("..", ".");
    }
    if let Some(context) = &agent.context {
        let own = context.fill(&values(agent, state, ctx));
        text = if text.is_empty() { own } else { format!("{text}\n\n{own}") };
    }
    text
}

/// The values of the placeholders.
fn values(agent: &Agent, state: &State<AgentState>, ctx: &Ctx) -> Value {
    let calls = ctx.calls();
    let last = last_request(state);
    let now = jiff::Timestamp::from_millisecond(calls.clock.now().0).unwrap_or_default();
    let date: String = now.to_string().chars().take(10).collect();
    let mut values = Map::from_iter([
        ("agent".to_owned(), json!({"slug": agent.slug, "name": agent.name()})),
        ("user".to_owned(), json!({"subject": calls.principal.subject})),
        ("message".to_owned(), last.map(|last| last.joined_text()).unwrap_or_default().into()),
        ("date".to_owned(), date.into()),
        ("input".to_owned(), state.input().cloned().unwrap_or_default()),
    ]);
    values.extend(agent.context.iter().flat_map(|context| context.own.clone()));
    Value::Object(values)
}

/// Checks that the records that a request names exist, before anything is paid or made.
pub(crate) async fn check_records(agent: &Agent, payload: &Payload, ctx: &Ctx) -> NodeResult<()> {
    let named =
        [(RecordKind::Plan, &payload.plan_id), (RecordKind::Deliverable, &payload.deliverable_id)];
    for (kind, id) in named {
        if id.is_some() {
            find_record(agent, kind, id.as_deref(), ctx).await?;
        }
    }
    Ok(())
}

/// Returns the current version of a record of the conversation; of the newest one if none is named.
/// `None` if there is none.
pub(crate) async fn record_content(
    agent: &Agent,
    kind: RecordKind,
    id: Option<&str>,
    ctx: &Ctx,
) -> NodeResult<Option<VersionContent>> {
    let Some(record) = find_record(agent, kind, id, ctx).await? else { return Ok(None) };
    let owner = agent.owner(ctx).await?;
    let records = Records::new(&*agent.store, &owner, ctx.clock().now());
    Ok(Some(records.content(&record, None).await.map_err(|error| error.fault())?))
}

/// Returns a record of the conversation; the newest one if none is named.
async fn find_record(
    agent: &Agent,
    kind: RecordKind,
    id: Option<&str>,
    ctx: &Ctx,
) -> NodeResult<Option<Record>> {
    let owner = agent.owner(ctx).await?;
    let records = Records::new(&*agent.store, &owner, ctx.clock().now());
    if let Some(id) = id {
        let id = RecordId::new(id)?;
        let at = RecordRef { kind, thread: ctx.thread().clone(), id };
        return Ok(Some(records.read(&at).await.map_err(|error| error.fault())?));
    }
    let all = records.list(kind, ctx.thread()).await.map_err(|error| error.fault())?;
    Ok(all.into_iter().max_by_key(|record| {
        record.versions.iter().map(|version| version.at).max().unwrap_or_default()
    }))
}
