//! States and histories of threads, and changes of them.

use super::Service;
use crate::body::{self, CheckpointBody};
use crate::error::{ApiError, Result};
use crate::input::{self, Ignored};
use crate::translate::{ids, state};
use serde_json::{Value, json};
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{CheckpointRef, HistoryFilter, Snapshot};
use weftwork_runtime::{Thread, ThreadView};
use weftwork_store::ThreadRow;
use weftwork_types::ThreadId;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome};

impl Service {
    /// Opens a thread with the graph that last ran on it, with the graph's name; `None` if none did.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownGraph`] if this server does not host the graph.
    pub(super) fn open<'a>(
        &'a self,
        row: &'a ThreadRow,
    ) -> Result<Option<(Thread, &'a str)>, RuntimeError> {
        let Some(graph) = &row.graph else { return Ok(None) };
        let opened = self.runtime().thread_for(self.who(), graph, row.id.as_str())?;
        Ok(Some((opened.with_principal(self.who().clone()), self.name_of(graph))))
    }

    /// Returns the state of a thread at a checkpoint, or its newest state.
    pub(crate) async fn state(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        subgraphs: bool,
    ) -> Result<Value> {
        let row = self.row(thread).await?;
        let Some((opened, graph)) = self.open(&row)? else { return Ok(state::empty_state()) };
        let mut view = view_at(opened.view(), at)?;
        if let Some(id) = at.checkpoint()? {
            view = view.at(id);
        }
        if subgraphs {
            view = view.with_subgraphs();
        }
        Ok(state::state_to_json(&row.id, graph, view.state().await?))
    }

    /// Returns the newest state of a thread.
    pub(super) async fn newest_state(&self, row: &ThreadRow) -> Result<Value, RuntimeError> {
        let Some((opened, graph)) = self.open(row)? else { return Ok(state::empty_state()) };
        Ok(state::state_to_json(&row.id, graph, opened.view().state().await?))
    }

    /// Returns the checkpoints of a thread, newest first, with the selected members or all.
    pub(crate) async fn history(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        filter: &HistoryFilter,
        select: Option<&[String]>,
    ) -> Result<Vec<Value>> {
        let row = self.row(thread).await?;
        let Some((opened, graph)) = self.open(&row)? else { return Ok(Vec::new()) };
        let found: Vec<Snapshot> = view_at(opened.view(), at)?.history(filter).await?;
        let has = |name| select.is_none_or(|names| names.iter().any(|one| one == name));
        let shown = |mut at: Snapshot| {
            // Large members are not translated in vain.
            if !has("values") {
                at.values = Value::Null;
            }
            if !has("tasks") {
                at.tasks.clear();
            }
            let mut shown = state::state_to_json(thread, graph, at);
            if let Some(select) = select {
                body::select_members(&mut shown, select);
            }
            shown
        };
        Ok(found.into_iter().map(shown).collect())
    }

    /// Changes the state of a thread, as a node or as the node that ran last.
    pub(crate) async fn update(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        values: Value,
        as_node: Option<String>,
    ) -> Result<(Value, Ignored)> {
        let row = self.row(thread).await?;
        let Some((opened, graph)) = self.open(&row)? else {
            let detail = "the thread has no graph yet; run one on it before its state is changed";
            return Err(ApiError::bad(detail));
        };
        let within = at.namespace();
        let changed = self.hosted(graph)?.graph.graph_at(&within)?;
        if let Some(node) = as_node.as_deref().filter(|node| !node.starts_with("__"))
            && changed.plan().node_idx(node).is_none()
        {
            return Err(ApiError::bad(format!("Node {node} does not exist")));
        }
        let mut ignored = Ignored::default();
        let writes = input::read_changes(&changed, values, &mut ignored)?;
        let place =
            CheckpointRef { ns: within.clone(), id: at.checkpoint()?, map: at.checkpoints()? };
        let update = opened.start(RunInput::Update { writes, as_node });
        let options = self.within_trace(RunOptions::default());
        let update = update.options(options).caller(self.caller());
        let ended = update.from(&place).await?;
        if let RunOutcome::Failed { fault } = ended.outcome() {
            return Err(ApiError::invalid(fault.message.clone()));
        }
        let newest = match within.as_str() {
            "" => self.row(thread).await?.head,
            within => opened.view().within(within).state().await?.checkpoint(),
        };
        let head = newest.map(|id| ids::to_hyphenated(id.0));
        let ns = ids::join_namespace(within.split('|'));
        let place = json!({"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": head});
        self.log_ignored(thread, &ignored);
        let changed = json!({"checkpoint": place, "configurable": place, "checkpoint_id": head});
        Ok((changed, ignored))
    }
}

fn view_at(view: ThreadView, at: &CheckpointBody) -> Result<ThreadView> {
    match at.checkpoint_ns.as_deref() {
        None | Some("") => Ok(view),
        Some(ns) => Ok(view.within(&ids::read_namespace(ns))),
    }
}
