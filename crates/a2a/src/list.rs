//! Lists of tasks.

use crate::error::{A2aError, Result};
use crate::task::{TaskRuns, check_history, cut_history};
use crate::wire::{ListTasks, ListTasksResult, Task, TaskState};
use std::cmp::Reverse;
use weftwork_server::TurnSource;
use weftwork_types::{Principal, Timestamp};

/// Usual and maximum number of tasks of a page.
const PAGE_SIZE: usize = 50;
const PAGE_SIZE_MAX: usize = 100;
/// Number of conversations, those changed last, whose tasks are listed.
const CONVERSATIONS_MAX: usize = 1_000;

/// The place of a task in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    changed_at: i64,
    id: String,
}

impl Place {
    fn of(task: &TaskRuns) -> Self {
        Self { changed_at: task.chain.changed_at().0, id: task.id() }
    }

    fn read(token: &str) -> Result<Self> {
        let parts = token.split_once('.');
        let place = parts.and_then(|(at, id)| {
            let id = uuid::Uuid::try_parse(id).ok()?.to_string();
            Some(Self { changed_at: at.parse().ok()?, id })
        });
        let expected = "the `nextPageToken` of an earlier list";
        place.ok_or_else(|| A2aError::wrong("pageToken", "another text", expected))
    }

    fn token(&self) -> String {
        format!("{}.{}", self.changed_at, self.id)
    }
}

/// Returns a page of the tasks of a principal with an agent, those first whose status changed last.
///
/// # Errors
/// An error for a request that does not fit, and those of the store.
pub(crate) async fn list(
    source: &TurnSource,
    who: &Principal,
    agent: &str,
    request: ListTasks,
) -> Result<ListTasksResult> {
    let page_size = read_page_size(request.page_size)?;
    let history = check_history(request.history_length)?;
    let after = read_time(&request.status_timestamp_after)?;
    let from = match request.page_token.as_str() {
        "" => None,
        token => Some(Place::read(token)?),
    };
    let mut tasks = Vec::new();
    for task in all_of(source, who, agent, &request.context_id).await? {
        let is_later = after.is_none_or(|after| task.chain.changed_at() > after);
        if is_later && has_state(source, who, &task, request.status).await? {
            tasks.push(task);
        }
    }
    tasks.sort_by_cached_key(|task| Reverse(Place::of(task)));
    let total_size = tasks.len();
    let rest: Vec<_> = tasks
        .into_iter()
        .filter(|task| from.as_ref().is_none_or(|from| Place::of(task) < *from))
        .collect();
    let mut shown = Vec::new();
    for task in rest.iter().take(page_size) {
        shown.push(show(source, who, task, history, request.include_artifacts).await?);
    }
    let last = rest.get(..page_size).filter(|page| page.len() < rest.len());
    let next = last.and_then(|page| page.last()).map(|task| Place::of(task).token());
    let next_page_token = next.unwrap_or_default();
    Ok(ListTasksResult { tasks: shown, next_page_token, page_size, total_size })
}

fn read_page_size(size: Option<i64>) -> Result<usize> {
    let Some(size) = size else { return Ok(PAGE_SIZE) };
    let fits = usize::try_from(size).ok().filter(|size| (1..=PAGE_SIZE_MAX).contains(size));
    let expected = || format!("a number from 1 to {PAGE_SIZE_MAX}");
    fits.ok_or_else(|| A2aError::wrong("pageSize", &size.to_string(), &expected()))
}

fn read_time(text: &str) -> Result<Option<Timestamp>> {
    if text.is_empty() {
        return Ok(None);
    }
    let time = text.parse::<jiff::Timestamp>().map_err(|_| {
        A2aError::wrong("statusTimestampAfter", text, "a time as in 2026-01-31T12:00:00Z")
    })?;
    Ok(Some(Timestamp(time.as_millisecond())))
}

/// Returns the tasks of a context, or of the conversations that changed last.
async fn all_of(
    source: &TurnSource,
    who: &Principal,
    agent: &str,
    context: &str,
) -> Result<Vec<TaskRuns>> {
    let platform = &*source.platform;
    let contexts = match context {
        "" => {
            let list = platform.conversations(who, None, None, CONVERSATIONS_MAX).await;
            let list = list.map_err(A2aError::of_fault)?;
            let ids = list["conversations"].as_array().into_iter().flatten();
            ids.filter_map(|of| of["id"].as_str().map(str::to_owned)).collect()
        }
        context => vec![context.to_owned()],
    };
    let mut tasks = Vec::new();
    for context in contexts {
        let turns = platform.turns(who, &context).await.map_err(A2aError::of_fault)?;
        tasks.extend(TaskRuns::all_of(&turns, agent));
    }
    Ok(tasks)
}

async fn has_state(
    source: &TurnSource,
    who: &Principal,
    task: &TaskRuns,
    wanted: Option<TaskState>,
) -> Result<bool> {
    let Some(wanted) = wanted else { return Ok(true) };
    Ok(task.status(&*source.platform, who).await?.state == wanted)
}

async fn show(
    source: &TurnSource,
    who: &Principal,
    task: &TaskRuns,
    history: Option<i64>,
    include_artifacts: bool,
) -> Result<Task> {
    let mut shown = task.snapshot(&*source.platform, who, task.ended()).await?;
    cut_history(&mut shown, history);
    if !include_artifacts {
        shown.artifacts = None;
    }
    Ok(shown)
}
