//! The operations behind the routes: hosted graphs, threads and runs of a principal.

use crate::body::{CheckpointBody, IfNotExists, RunBody};
use crate::error::{ApiError, Result};
use crate::translate::stream::{Requested, Translator};
use crate::translate::{ids, messages, rows, state, time};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::CompiledGraph;
use weftwork_graph::run_loop::{HistoryFilter, Snapshot};
use weftwork_runtime::{
    Frame, FramePosition, Runtime, StreamOptions, Subgraphs, Thread, ThreadView,
};
use weftwork_store::{
    FoundThread, IfExists, NewThread, RunRow, SearchFrom, StoreError, ThreadQuery, ThreadRow,
};
use weftwork_types::caller::Caller;
use weftwork_types::event::Position;
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{CancelAction, RunInput, RunOutcome, RunRef, RunRequest, RunStatus};
use weftwork_types::{BoxFuture, BoxStream, Principal, ThreadId};

/// Time for which the thread of a stateless run exists after its end.
const KEPT: Duration = Duration::from_secs(60);

/// The frames of a run.
pub(crate) type Frames =
    BoxStream<'static, std::result::Result<Arc<Frame>, weftwork_graph::RuntimeError>>;

/// The operations of one server.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    runtime: Runtime,
    who: Principal,
    since: Arc<str>,
    /// Names of the hosted graphs by their ids: the part after the colon where it is unique.
    names: Arc<BTreeMap<String, String>>,
}

/// A hosted graph.
pub(crate) struct Hosted<'a> {
    id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) graph: &'a CompiledGraph,
}

impl Service {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let since = time::text(runtime.clock().now()).into();
        let names = Arc::new(names(&runtime.graphs().map(|(id, _)| id).collect::<Vec<_>>()));
        Self { runtime, who: Principal::local(), since, names }
    }

    /// Returns the name of a graph under which clients know it.
    pub(crate) fn name_of<'a>(&'a self, graph: &'a str) -> &'a str {
        self.names.get(graph).map_or(graph, String::as_str)
    }

    /// Returns a run as clients see it.
    pub(crate) fn shown(&self, row: &RunRow) -> Value {
        rows::run(row, self.name_of(&row.new.graph))
    }

    /// Returns the assistants that stand for the hosted graphs.
    pub(crate) fn assistants(&self) -> Vec<Value> {
        self.names.values().map(|name| rows::assistant(name, &self.since)).collect()
    }

    /// Returns the assistant with a UUID.
    pub(crate) fn assistant(&self, id: &str) -> Result<Value> {
        let uuid = ids::uuid("assistant", id)?;
        let found = self.names.values().find(|name| ids::assistant_of(name) == uuid);
        let name =
            found.ok_or_else(|| ApiError::missing(format!("Assistant with ID {id} not found")))?;
        Ok(rows::assistant(name, &self.since))
    }

    /// Returns the graph of an assistant, which is named by its UUID or the name of the graph.
    pub(crate) fn hosted(&self, assistant: &str) -> Result<Hosted<'_>> {
        let uuid = uuid::Uuid::try_parse(assistant).ok();
        let found = self.runtime.graphs().find(|(id, _)| {
            let name = self.name_of(id);
            let named = *id == assistant || name == assistant;
            named || uuid.is_some_and(|uuid| ids::assistant_of(name) == uuid)
        });
        let (id, graph) = found.ok_or_else(|| {
            let known: Vec<_> = self.names.values().map(String::as_str).collect();
            ApiError::invalid(format!(
                "Invalid assistant: '{assistant}'. Must be either:\n- A valid assistant UUID, or\n- \
                 One of the registered graphs: {}",
                known.join(", ")
            ))
        })?;
        Ok(Hosted { id, name: self.name_of(id), graph })
    }

    /// Creates a thread.
    pub(crate) async fn create_thread(
        &self,
        id: Option<&str>,
        metadata: Map<String, Value>,
        if_exists: IfExists,
    ) -> Result<Value> {
        let id = match id {
            Some(id) => ids::thread(id)?,
            None => ThreadId::from_uuid(uuid::Uuid::now_v7()),
        };
        let store = self.runtime.store();
        if if_exists == IfExists::Refuse && self.row(&id).await.is_ok() {
            return Err(ApiError::conflict(format!("Thread with ID {id} already exists")));
        }
        let created_at = self.runtime.clock().now();
        let new = NewThread { id, graph: None, metadata, created_at, if_exists };
        let row = store.create_thread(&self.who, new).await?;
        self.thread(&row.id).await
    }

    /// Returns the row of a thread.
    pub(crate) async fn row(&self, thread: &ThreadId) -> Result<ThreadRow> {
        match self.runtime.store().thread(&self.who, thread).await {
            Err(StoreError::NotFound { .. }) => Err(ApiError::thread_missing(thread.as_str())),
            row => Ok(row?),
        }
    }

    /// Returns a thread with its values.
    pub(crate) async fn thread(&self, thread: &ThreadId) -> Result<Value> {
        let query =
            ThreadQuery { ids: Some([thread.clone()].into()), limit: 1, ..ThreadQuery::default() };
        let found = self.runtime.store().search_threads(&self.who, query).await?.threads.pop();
        let found = found.ok_or_else(|| ApiError::thread_missing(thread.as_str()))?;
        let at = match found.row.head {
            Some(_) => Some(self.state_of(&found.row, &CheckpointBody::default(), false).await?),
            None => None,
        };
        let mut shown = self.thread_row(&found, at);
        if found.row.status == Some(RunStatus::Failed) {
            let runs = self.runtime.store().runs(&self.who, thread).await?;
            let failure = runs.last().and_then(|run| run.outcome.as_ref()).and_then(rows::failure);
            shown["error"] = json!(failure);
        }
        Ok(shown)
    }

    fn thread_row(&self, found: &FoundThread, at: Option<Value>) -> Value {
        let graph = found.row.graph.as_deref().map(|graph| self.name_of(graph));
        rows::thread(&found.row, graph, found.status, at)
    }

    /// Returns the threads that match, all of them, in order.
    pub(crate) async fn search(&self, mut query: ThreadQuery) -> Result<Vec<Value>> {
        let threads = self.runtime.threads().with_principal(self.who.clone());
        let mut found = Vec::new();
        loop {
            let page = threads.search(query.clone()).await?;
            for thread in page.threads {
                found.push(self.thread_row(&thread, None));
            }
            match page.next {
                Some(next) => query.from = SearchFrom::After(next),
                None => return Ok(found),
            }
        }
    }

    /// Replaces members of the metadata of a thread.
    pub(crate) async fn set_metadata(
        &self,
        thread: &ThreadId,
        metadata: Map<String, Value>,
    ) -> Result<Value> {
        self.row(thread).await?;
        let (store, now) = (self.runtime.store(), self.runtime.clock().now());
        store.update_metadata(&self.who, thread, metadata, now).await?;
        self.thread(thread).await
    }

    pub(crate) async fn delete_thread(&self, thread: &ThreadId) -> Result<()> {
        self.row(thread).await?;
        let threads = self.runtime.threads().with_principal(self.who.clone());
        Ok(threads.delete(thread).await?)
    }

    /// Copies a thread, with its open questions.
    pub(crate) async fn copy_thread(&self, thread: &ThreadId) -> Result<Value> {
        let to = uuid::Uuid::new_v4().to_string();
        let row = self.row(thread).await?;
        let Some((of, _)) = self.open(&row)? else {
            return self.create_thread(None, row.metadata, IfExists::Refuse).await;
        };
        self.thread(of.copy(&to).await?.id()).await
    }

    /// Opens a thread with the graph that last ran on it, with the graph's name; `None` if none did.
    fn open<'a>(&'a self, row: &'a ThreadRow) -> Result<Option<(Thread, &'a str)>> {
        let Some(graph) = &row.graph else { return Ok(None) };
        let opened = self.runtime.thread(graph, row.id.as_str())?;
        Ok(Some((opened.with_principal(self.who.clone()), self.name_of(graph))))
    }

    /// Returns the state of a thread at a checkpoint, or its newest state.
    pub(crate) async fn state(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        subgraphs: bool,
    ) -> Result<Value> {
        self.state_of(&self.row(thread).await?, at, subgraphs).await
    }

    async fn state_of(
        &self,
        row: &ThreadRow,
        at: &CheckpointBody,
        subgraphs: bool,
    ) -> Result<Value> {
        let Some((opened, graph)) = self.open(row)? else { return Ok(state::empty()) };
        let mut view = place(opened.view(), at)?;
        if let Some(id) = at.checkpoint()? {
            view = view.at(id);
        }
        if subgraphs {
            view = view.with_subgraphs();
        }
        Ok(state::state(&row.id, graph, view.state().await?))
    }

    /// Returns the checkpoints of a thread, newest first.
    pub(crate) async fn history(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        filter: &HistoryFilter,
    ) -> Result<Value> {
        let row = self.row(thread).await?;
        let Some((opened, graph)) = self.open(&row)? else { return Ok(json!([])) };
        let found: Vec<Snapshot> = place(opened.view(), at)?.history(filter).await?;
        Ok(found.into_iter().map(|at| state::state(thread, graph, at)).collect())
    }

    /// Changes the state of a thread, as a node or as the node that ran last.
    pub(crate) async fn update(
        &self,
        thread: &ThreadId,
        at: &CheckpointBody,
        values: Value,
        as_node: Option<String>,
    ) -> Result<Value> {
        let row = self.row(thread).await?;
        let Some((mut opened, graph)) = self.open(&row)? else {
            let detail = "the thread has no graph yet; run one on it before its state is changed";
            return Err(ApiError::bad(detail));
        };
        if let Some(id) = at.checkpoint()? {
            opened = opened.at(id);
        }
        let hosted = self.hosted(graph)?;
        if let Some(node) = as_node.as_deref().filter(|node| !node.starts_with("__"))
            && hosted.graph.plan().node_idx(node).is_none()
        {
            return Err(ApiError::bad(format!("Node {node} does not exist")));
        }
        let writes = crate::body::writes(hosted.graph, values)?;
        let ended = opened.start(RunInput::Update { writes, as_node }).await?;
        if let RunOutcome::Failed { fault } = ended.outcome() {
            return Err(ApiError::invalid(fault.message.clone()));
        }
        let head = self.row(thread).await?.head.map(|id| ids::hyphenated(id.0));
        let place = json!({"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": head});
        Ok(json!({"checkpoint": place, "configurable": place, "checkpoint_id": head}))
    }

    /// Requests a run. A run without a thread gets one of its own.
    pub(crate) async fn start(&self, thread: Option<&str>, body: &RunBody) -> Result<RunHandle> {
        let Hosted { id: graph, name, graph: compiled } = self.hosted(&body.assistant_id)?;
        let thread = match thread {
            Some(text) => {
                let thread = ids::thread(text)?;
                if body.if_not_exists == IfNotExists::Reject {
                    self.row(&thread).await.map_err(|error| match error.is_missing() {
                        true => ApiError::missing("Thread or assistant not found."),
                        false => error,
                    })?;
                }
                thread
            }
            None if body.resumes() => {
                return Err(ApiError::bad("You must provide a thread_id when resuming."));
            }
            None => ThreadId::from_uuid(uuid::Uuid::now_v7()),
        };
        let mut options = body.options()?;
        options
            .metadata
            .insert("assistant_id".to_owned(), ids::assistant_of(name).to_string().into());
        let request = RunRequest {
            principal: self.who.clone(),
            caller: Caller::local(uuid::Uuid::now_v7().to_string())?,
            graph: graph.to_owned(),
            thread,
            input: body.input(compiled)?,
            options,
        };
        Ok(self.runtime.execute(request).await?)
    }

    /// Returns the row of a run.
    pub(crate) async fn run_row(&self, run: &RunRef) -> Result<RunRow> {
        let row = match self.runtime.store().run(&self.who, run).await {
            Err(StoreError::NotFound { .. }) => {
                return Err(ApiError::run_missing(run.run.as_str()));
            }
            row => row?,
        };
        if row.rolled_back_by.is_some() {
            return Err(ApiError::run_missing(run.run.as_str()));
        }
        Ok(row)
    }

    /// Returns the runs of a thread, newest first.
    pub(crate) async fn runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>> {
        self.row(thread).await?;
        let mut runs = self.runtime.store().runs(&self.who, thread).await?;
        runs.retain(|run| run.rolled_back_by.is_none());
        runs.reverse();
        Ok(runs)
    }

    /// Cancels a run, and waits for its end if asked to.
    pub(crate) async fn cancel(
        &self,
        run: &RunRef,
        action: CancelAction,
        wait: bool,
    ) -> Result<()> {
        let row = self.run_row(run).await?;
        if row.status.is_final() {
            return Err(ApiError::run_missing(run.run.as_str()));
        }
        let handle = self.runtime.watch(&self.who, run, Position::START).await?;
        let rollback = self.runtime.cancel_run(&self.who, run, action).await?;
        if wait {
            handle.outcome.await;
            if let Some(rollback) = rollback {
                rollback.outcome.await;
            }
        }
        Ok(())
    }

    /// Waits for the end of a run, and returns the values that the thread has then.
    pub(crate) async fn end(&self, run: &RunRef) -> Result<Value> {
        let handle = self.runtime.watch(&self.who, run, Position::START).await?;
        let outcome = handle.outcome.await;
        self.values(run, outcome).await
    }

    /// Returns the values that the end of a run leaves.
    ///
    /// # Errors
    /// Status 503 if the run has not ended: this process stops, and another one goes on with it.
    pub(crate) async fn values(&self, run: &RunRef, outcome: RunOutcome) -> Result<Value> {
        if let Some(failure) = rows::failure(&outcome) {
            if self.ending(run).await?.is_none() {
                let detail = "the server stops; the run goes on, join it again";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail));
            }
            return Ok(json!({"__error__": failure}));
        }
        match outcome {
            RunOutcome::Completed { output } => Ok(messages::into_shown(output)),
            outcome => {
                let mut at = self.state(&run.thread, &CheckpointBody::default(), false).await?;
                let mut values = at["values"].take();
                let questions: Vec<_> = outcome.questions().iter().map(state::interrupt).collect();
                if let (false, Some(members)) = (questions.is_empty(), values.as_object_mut()) {
                    members.insert("__interrupt__".to_owned(), questions.into());
                }
                Ok(values)
            }
        }
    }

    /// Returns the outcome of a run as it is stored; `None` if the run has not ended.
    pub(crate) async fn ending(&self, run: &RunRef) -> Result<Option<RunOutcome>> {
        Ok(self.run_row(run).await?.outcome)
    }

    /// Follows a run in stream modes.
    pub(crate) async fn frames(
        &self,
        run: &RunRef,
        requested: Requested,
        subgraphs: bool,
        after: FramePosition,
    ) -> Result<(Frames, Translator)> {
        let row = self.run_row(run).await?;
        let subgraphs = if subgraphs { Subgraphs::Include } else { Subgraphs::Omit };
        // A translator that accumulates texts needs their beginnings.
        let from = if requested.accumulated { FramePosition::START } else { after };
        let options = StreamOptions {
            modes: requested.modes,
            subgraphs,
            after: from,
            ..StreamOptions::default()
        };
        let frames = self.runtime.stream(&self.who, run, options).await?;
        let graph = self.name_of(&row.new.graph).to_owned();
        Ok((frames, Translator::new(run.clone(), graph, requested, after)))
    }

    /// Deletes the thread of a stateless run some time after its end, so that clients that follow
    /// the run can read its last events.
    pub(crate) fn delete_later(&self, run: RunRef, outcome: BoxFuture<'static, RunOutcome>) {
        let service = self.clone();
        tokio::spawn(async move {
            outcome.await;
            service.runtime.clock().sleep(KEPT).await;
            if let Err(error) = service.delete_thread(&run.thread).await {
                tracing::debug!(?error, thread = %run.thread, "a stateless thread is not deleted");
            }
        });
    }
}

/// Returns the names of graphs by their ids: the part after the colon where it is unique.
fn names(graphs: &[&str]) -> BTreeMap<String, String> {
    let plain = |id: &str| id.split_once(':').map_or(id, |(_, name)| name).to_owned();
    let unique = |name: &str| graphs.iter().filter(|id| plain(id) == name).count() == 1;
    let name = |id: &str| Some(plain(id)).filter(|name| unique(name));
    graphs
        .iter()
        .map(|id| ((*id).to_owned(), name(id).unwrap_or_else(|| (*id).to_owned())))
        .collect()
}

fn place(view: ThreadView, at: &CheckpointBody) -> Result<ThreadView> {
    match at.checkpoint_ns.as_deref() {
        None | Some("") => Ok(view),
        Some(ns) => Ok(view.within(&ids::read_namespace(ns))),
    }
}
