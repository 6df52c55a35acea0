//! The parts of a context, fetched from their sources at the same time.

use super::fit::{Kept, Piece, fit};
use super::{instructions_now, record_content};
use crate::agent::{Agent, warn};
use crate::definition::{Source, SourceKind};
use crate::records::{RecordKind, Records};
use crate::skills;
use crate::state::AgentState;
use futures_util::future::{Either, join_all, select};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use weftwork_graph::{Ctx, NodeError, NodeResult, Once, State};
use weftwork_types::item::{ItemQuery, Namespace, Prefix};
use weftwork_types::message::Role;

/// Time after which a source is left out, if the definition names none.
const DEADLINE: Duration = Duration::from_secs(5);
/// Number of tokens of a context, if neither the definition nor the model limits it.
const TOKENS: usize = 8_000;
/// Number of records or items of a source, if the definition names none.
const LIMIT: usize = 5;
/// Number of messages of the history, if the definition names none.
const MESSAGES: usize = 20;

/// A gathered context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gathered {
    pub(crate) text: String,
    kept: Vec<Kept>,
    left_out: Vec<LeftOut>,
}

/// A source without a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LeftOut {
    source: String,
    reason: String,
}

impl Gathered {
    /// Names the sources that are not in the context as a whole.
    fn warning(&self) -> Option<String> {
        let cut = self.kept.iter().filter(|part| part.kept < part.tokens);
        let cut = cut.map(|part| part.source.as_str());
        let names: Vec<_> =
            cut.chain(self.left_out.iter().map(|out| out.source.as_str())).collect();
        (!names.is_empty()).then(|| {
            format!("the model did not get the whole of these sources: {}", names.join(", "))
        })
    }

    /// Describes the context in the metadata of an answer: its parts with their tokens, and the sources
    /// that were left out.
    pub(crate) fn report(&self, answer: &mut Value) {
        let skills = self.kept.iter().filter(|part| part.source == skills::SOURCE && part.kept > 0);
        let names: Vec<&str> = skills.map(|part| part.title.as_str()).collect();
        if !names.is_empty() {
            answer["metadata"]["skills"] = json!(names);
        }
        answer["metadata"]["context"] = json!({"parts": self.kept, "leftOut": self.left_out});
        if let Some(warning) = self.warning() {
            warn(answer, warning);
        }
    }
}

/// Parts that were fetched before the sources, by calls of models.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fetched {
    /// Result of the agent that is asked first.
    pub(crate) sub_agent: Option<Piece>,
    /// Results of the steps of the orchestration.
    pub(crate) steps: Vec<Piece>,
    /// Skills that the model needs; they follow the instructions.
    pub(crate) skills: Vec<Piece>,
}

/// Gathers the context of a build. What was gathered is recorded, so that a node that is executed again
/// asks its model the same.
pub(crate) async fn gather(
    agent: &Agent,
    state: &State<AgentState>,
    fetched: Fetched,
    ctx: &Ctx,
) -> NodeResult<Gathered> {
    let sources = agent.definition.sources();
    let work = async |_| Ok(gather_now(&sources, agent, state, fetched, ctx).await);
    ctx.once(Once::new("context").reads(), work).await
}

/// Gathers the context of another mode than a build, without the sources of a kind. No other agent is
/// asked.
pub(super) async fn gather_without(
    kind: SourceKind,
    agent: &Agent,
    state: &State<AgentState>,
    fetched: Fetched,
    ctx: &Ctx,
) -> NodeResult<Gathered> {
    let mut sources = match agent.definition.sources.is_some() {
        true => agent.definition.sources(),
        false => vec![Source::new(SourceKind::Markdown), Source::new(SourceKind::Steps)],
    };
    sources.retain(|source| source.kind != kind);
    let work = async |_| Ok(gather_now(&sources, agent, state, fetched, ctx).await);
    ctx.once(Once::new("context").reads(), work).await
}

async fn gather_now(
    sources: &[Source],
    agent: &Agent,
    state: &State<AgentState>,
    fetched: Fetched,
    ctx: &Ctx,
) -> Gathered {
    let Fetched { sub_agent, steps, mut skills } = fetched;
    let fetched = sources.iter().map(|source| async {
        let deadline = source.deadline().unwrap_or(DEADLINE);
        match source.kind {
            SourceKind::SubAgent => return Ok(sub_agent.iter().cloned().collect()),
            SourceKind::Steps => return Ok(steps.clone()),
            _ => {}
        }
        let parts = pin!(fetch(agent, source, state, ctx));
        let end = pin!(ctx.clock().sleep(deadline));
        match select(parts, end).await {
            Either::Left((parts, _)) => parts.map_err(|error| reason(&error)),
            Either::Right(_) => Err(format!("it took longer than {} ms", deadline.as_millis())),
        }
    });
    let mut pieces = Vec::new();
    let mut left_out = Vec::new();
    if sources.iter().all(|source| source.kind != SourceKind::Markdown) {
        pieces.append(&mut skills);
    }
    for (source, parts) in sources.iter().zip(join_all(fetched).await) {
        match parts {
            Ok(parts) => pieces.extend(parts),
            Err(reason) => left_out.push(LeftOut { source: source.kind.name().to_owned(), reason }),
        }
        if source.kind == SourceKind::Markdown {
            pieces.append(&mut skills);
        }
    }
    let fitted = fit(&pieces, limit(agent));
    Gathered { text: fitted.text, kept: fitted.kept, left_out }
}

/// Returns the maximum number of tokens of the context of an agent.
fn limit(agent: &Agent) -> usize {
    if let Some(tokens) = agent.definition.context_tokens {
        return usize::try_from(tokens).unwrap_or(usize::MAX);
    }
    let limits = agent.model.token_limits();
    let Some(context) = limits.context else { return TOKENS };
    // A quarter is for the message and the answer, if the model says nothing of its answers.
    let reserve = limits.output.unwrap_or(context / 4).min(context / 2);
    usize::try_from(context - reserve).unwrap_or(usize::MAX)
}

fn reason(error: &NodeError) -> String {
    error.fault().map_or_else(|| "it asks a question".to_owned(), ToString::to_string)
}

/// Returns the parts of one source.
async fn fetch(
    agent: &Agent,
    source: &Source,
    state: &State<AgentState>,
    ctx: &Ctx,
) -> NodeResult<Vec<Piece>> {
    let name = source.kind.name();
    let piece = |title: String, text: String| Piece {
        source: name.to_owned(),
        title,
        text,
        newest_last: source.kind == SourceKind::History,
    };
    let limit = source.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(match source.kind {
        SourceKind::Markdown => {
            let text = instructions_now(agent, state, ctx);
            Some(text)
                .filter(|text| !text.is_empty())
                .map(|text| piece(String::new(), text))
                .into_iter()
                .collect()
        }
        SourceKind::Plan => {
            let payload =
                crate::mode::payload_of(state.payload()).map_err(|error| error.fault())?;
            let id = payload.plan_id.as_deref();
            let found = record_content(agent, RecordKind::Plan, id, ctx).await?;
            let plan = |found: crate::records::VersionContent| {
                piece(format!("Plan: {}", found.version.title), found.content)
            };
            found.map(plan).into_iter().collect()
        }
        SourceKind::Deliverables => {
            let calls = ctx.calls();
            let owner = agent.owner(ctx).await?;
            let records = Records::new(&*agent.store, &owner, calls.clock.now());
            let all = records.list(RecordKind::Deliverable, ctx.thread()).await;
            let mut all = all.map_err(|error| error.fault())?;
            // Those of a sub-agent that this run asked are a source of their own.
            let run = calls.origin.run().map(|caller| &caller.run);
            all.retain(|record| {
                record.current_version().is_ok_and(|version| version.run.as_ref() != run)
            });
            all.sort_by_key(|record| record.current_version().map(|version| version.at).ok());
            let mut pieces = Vec::new();
            for record in all.iter().rev().take(limit.unwrap_or(LIMIT)) {
                let found = records.content(record, None).await.map_err(|error| error.fault())?;
                pieces.push(piece(format!("Deliverable: {}", found.version.title), found.content));
            }
            pieces
        }
        SourceKind::History => {
            let all = state.messages();
            let before = all.len().saturating_sub(1);
            let first = before.saturating_sub(limit.unwrap_or(MESSAGES));
            let lines = all.iter().take(before).skip(first).filter_map(|message| {
                let who = match message.role {
                    Role::User => "user",
                    Role::Assistant => "assistant",
                    _ => return None,
                };
                let text = message.joined_text();
                (!text.is_empty()).then(|| format!("{who}: {text}"))
            });
            let text = lines.collect::<Vec<_>>().join("\n");
            let text = Some(text).filter(|text| !text.is_empty());
            text.map(|text| piece("Conversation".to_owned(), text)).into_iter().collect()
        }
        // They were fetched before.
        SourceKind::SubAgent | SourceKind::Steps => Vec::new(),
        SourceKind::Store => {
            let missing = || NodeError::message("this program has no long-term store");
            let items = ctx.calls().items.clone().ok_or_else(missing)?;
            let namespace = Namespace::new(source.namespace.iter().cloned())?;
            let query = ItemQuery {
                text: source.query.clone(),
                limit: limit.unwrap_or(LIMIT),
                ..ItemQuery::default()
            };
            let who = &ctx.calls().principal;
            let found = items.search(who, &Prefix::from(&namespace), &query).await?;
            found
                .into_iter()
                .map(|item| piece(item.key.clone(), shown_value(&item.value)))
                .collect()
        }
        SourceKind::Files => agent
            .files
            .iter()
            .filter(|file| source.paths.contains(&file.path))
            .map(|file| piece(file.path.clone(), file.text.clone()))
            .collect(),
    })
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
