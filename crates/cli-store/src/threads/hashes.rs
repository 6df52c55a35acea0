//! Prompt hashes of a thread's model calls, compared with the last run of the same agent.

use serde::Serialize;
use weftwork::store::{RunRow, Store};
use weftwork::types::canonical::Hash;
use weftwork::types::usage::UsageStatus;
use weftwork::types::{Principal, RunId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Table;

/// The maximum number of threads among which the last run of an agent is searched, the most recently
/// changed first.
const THREADS_MAX: usize = 200;

/// An answered model call.
#[derive(Debug, Serialize)]
struct AnsweredCall {
    run: RunId,
    /// Number of the call within its run, from 1.
    call: usize,
    model: String,
    prompt_hash: Hash,
    /// The last run of the same agent before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared_with: Option<RunId>,
    comparison: Comparison,
}

/// The prompt of a call beside that of the call with the same number in the earlier run.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Comparison {
    /// There is no earlier run.
    First,
    /// The prompts are equal.
    Same,
    /// The prompts differ.
    Differs,
    /// The earlier run has no such call.
    New,
}

impl Comparison {
    fn name(self) -> &'static str {
        match self {
            Self::First => "first run",
            Self::Same => "same",
            Self::Differs => "differs",
            Self::New => "new",
        }
    }
}

/// Lists the prompt hashes of a thread's model calls.
pub(crate) async fn hashes(
    id: &ThreadId,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    let calls = answered_calls(id, store.as_ref()).await?;
    if json {
        calls.iter().try_for_each(|call| context.terminal.line(serde_json::json!(call)))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["RUN", "CALL", "MODEL", "PROMPT HASH", "COMPARED WITH", "RESULT"]);
    for call in calls {
        table.row([
            call.run.to_string(),
            call.call.to_string(),
            call.model,
            call.prompt_hash.to_string(),
            call.compared_with.map_or_else(|| "-".to_owned(), |run| run.to_string()),
            call.comparison.name().to_owned(),
        ]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

async fn answered_calls(id: &ThreadId, store: &dyn Store) -> Result<Vec<AnsweredCall>, CliError> {
    let who = Principal::local();
    let runs = store.runs(&who, id).await?;
    let known = runs_of_agents(&runs, store, &who).await?;
    let mut calls = Vec::new();
    for run in &runs {
        let last = last_before(run, &known);
        let before = match last {
            Some(last) => prompts_of_run(last, store, &who).await?,
            None => Vec::new(),
        };
        for (index, (model, prompt_hash)) in
            prompts_of_run(run, store, &who).await?.into_iter().enumerate()
        {
            let comparison = match (last, before.get(index)) {
                (None, _) => Comparison::First,
                (Some(_), None) => Comparison::New,
                (Some(_), Some((_, hash))) if *hash == prompt_hash => Comparison::Same,
                (Some(_), Some(_)) => Comparison::Differs,
            };
            calls.push(AnsweredCall {
                run: run.new.at.run.clone(),
                call: index + 1,
                model,
                prompt_hash,
                compared_with: last.map(|last| last.new.at.run.clone()),
                comparison,
            });
        }
    }
    Ok(calls)
}

/// Returns the runs of the agents that have runs here, on the most recently changed threads.
async fn runs_of_agents(
    here: &[RunRow],
    store: &dyn Store,
    who: &Principal,
) -> Result<Vec<RunRow>, CliError> {
    let is_here = |graph: &str| here.iter().any(|run| run.new.graph == graph);
    let mut found = here.to_vec();
    for thread in store.threads(who, 0, THREADS_MAX).await? {
        let is_other = here.iter().all(|run| run.new.at.thread != thread.id);
        if is_other && thread.graph.as_deref().is_some_and(is_here) {
            found.extend(store.runs(who, &thread.id).await?);
        }
    }
    Ok(found)
}

/// Returns the last run of the same agent that was created before a run.
fn last_before<'a>(run: &RunRow, known: &'a [RunRow]) -> Option<&'a RunRow> {
    let earlier = known.iter().filter(|other| {
        other.new.graph == run.new.graph
            && other.new.at.run != run.new.at.run
            && other.new.created_at <= run.new.created_at
    });
    earlier.max_by_key(|other| (other.new.created_at, other.new.at.run.as_str()))
}

/// Returns model and prompt hash of each answered call of a run, in order.
async fn prompts_of_run(
    run: &RunRow,
    store: &dyn Store,
    who: &Principal,
) -> Result<Vec<(String, Hash)>, CliError> {
    let facts = store.usage_of_run(who, &run.new.at.run).await?.into_iter().map(|row| row.fact);
    let answered = facts.filter(|fact| fact.status == UsageStatus::Ok);
    Ok(answered
        .map(|fact| (format!("{}:{}", fact.provider, fact.model), fact.prompt_hash))
        .collect())
}
