//! Commands that read states and branch from them.

use super::run::{assistant_of, request_run};
use super::{CommandError, Done, Outcome, invalid_argument, no_such_run, object_of};
use crate::protocol::blocks;
use crate::service::Service;
use crate::translate::{ids, time};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weftwork_graph::run_loop::{HistoryFilter, Snapshot, Source};
use weftwork_types::{CheckpointId, ThreadId};

/// Number of checkpoints of a list without a limit, and at most.
const LIMITS: (usize, usize) = (10, 1_000);

#[derive(Debug, Deserialize)]
pub(super) struct GetParams {
    #[serde(default)]
    namespace: Vec<String>,
    #[serde(default)]
    keys: Option<Vec<String>>,
}

/// Returns the newest state of a graph.
pub(super) async fn get(service: &Service, thread: &ThreadId, params: GetParams) -> Outcome {
    let GetParams { namespace, keys } = params;
    let found = service.snapshot(thread, &namespace).await;
    let state = found.map_err(|error| of_namespace(&namespace, error.into()))?;
    let state = state.ok_or_else(|| no_such_run("no run was started on this thread"))?;
    check_namespace(&namespace, state.checkpoint().is_some())?;
    let id = state.checkpoint();
    let mut values = blocks::into_shown(state.values);
    if let Some(keys) = keys
        && let Some(members) = values.as_object_mut()
    {
        members.retain(|name, _| keys.contains(name));
    }
    if !values.is_object() {
        values = json!({});
    }
    let checkpoint =
        id.map(|id| json!({"id": ids::to_hyphenated(id.0), "ns": namespace.join("|")}));
    Ok(Done::read(object_of([("values", Some(values)), ("checkpoint", checkpoint)])))
}

/// Refuses a namespace without checkpoints.
fn check_namespace(namespace: &[String], has_checkpoints: bool) -> Outcome<()> {
    if namespace.is_empty() || has_checkpoints {
        return Ok(());
    }
    let message = format!("namespace {} has no checkpoints", namespace.join("|"));
    Err(CommandError::Refused("no_such_namespace", message))
}

/// Gives the error of a namespace its code.
fn of_namespace(namespace: &[String], error: CommandError) -> CommandError {
    if namespace.is_empty() { error } else { error.with_code("no_such_namespace") }
}

#[derive(Debug, Deserialize)]
pub(super) struct ListParams {
    #[serde(default)]
    namespace: Vec<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    before: Option<String>,
}

/// Returns the checkpoints of a graph, newest first.
pub(super) async fn list(service: &Service, thread: &ThreadId, params: ListParams) -> Outcome {
    let ListParams { namespace, limit, before } = params;
    let limit = limit.unwrap_or(LIMITS.0);
    if limit > LIMITS.1 {
        return Err(invalid_argument(format!("`limit` is {limit}; expected at most {}", LIMITS.1)));
    }
    let before = before.as_deref().map(ids::parse_checkpoint).transpose()?;
    let filter = HistoryFilter { before, limit, ..HistoryFilter::default() };
    let found = service.checkpoints(thread, &namespace, &filter).await;
    let found = found.map_err(|error| of_namespace(&namespace, error.into()))?;
    let found = found.ok_or_else(|| no_such_run("no run was started on this thread"))?;
    check_namespace(&namespace, !found.is_empty())?;
    let checkpoints: Vec<_> = found.iter().filter_map(checkpoint_to_json).collect();
    Ok(Done::read(json!({"checkpoints": checkpoints})))
}

fn checkpoint_to_json(at: &Snapshot) -> Option<Value> {
    let id = at.checkpoint()?;
    let origin = at.metadata.as_ref()?;
    let source = match origin.source {
        Source::Input => "input",
        Source::Loop => "loop",
        Source::Update => "update",
        Source::Fork => "fork",
        Source::Nothing => return None,
    };
    let mut metadata = Map::from_iter([("source".to_owned(), json!(source))]);
    if let Some(run) = &at.run {
        metadata.insert("run_id".to_owned(), json!(run.id));
    }
    if let Some(parent) = at.parent.as_ref().and_then(|parent| parent.id) {
        metadata.insert("parent_id".to_owned(), json!(ids::to_hyphenated(parent.0)));
    }
    let committed = at.run.as_ref().and_then(|run| run.committed_at).unwrap_or_default();
    Some(json!({
        "id": ids::to_hyphenated(id.0),
        "timestamp": time::format_time(committed),
        "step": origin.step,
        "metadata": metadata,
    }))
}

#[derive(Debug, Deserialize)]
pub(super) struct ForkParams {
    checkpoint_id: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    config: Option<Value>,
}

/// Starts a run from a checkpoint, on a branch of its own.
pub(super) async fn fork(service: &Service, thread: &ThreadId, params: ForkParams) -> Outcome {
    let ForkParams { checkpoint_id, input, config } = params;
    let id: CheckpointId = ids::parse_checkpoint(&checkpoint_id)?;
    let assistant = assistant_of(service, thread, "no run was started on this thread").await?;
    if !service.has_checkpoint(thread, id).await? {
        let message = format!("checkpoint {checkpoint_id} is not one of this thread");
        return Err(CommandError::Refused("no_such_checkpoint", message));
    }
    let body = object_of([
        ("assistant_id", Some(assistant)),
        ("input", Some(input)),
        ("config", config),
        ("checkpoint_id", Some(json!(checkpoint_id))),
    ]);
    let run = request_run(service, thread, body).await?;
    Ok(Done { result: json!({"run_id": run, "thread_id": thread}), run: Some(run) })
}
