//! Threads.

use super::Service;
use crate::body::{self, CheckpointBody};
use crate::error::{ApiError, Result};
use crate::translate::rows;
use futures_util::future::{join_all, select};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{ForkSource, copy_thread, fork_thread};
use weftwork_store::mailbox::{RESERVED, check_deletion, without_reserved};
use weftwork_store::thread::is_of_other;
use weftwork_store::{
    FoundThread, IfExists, NewThread, SearchFrom, StoreError, ThreadQuery, ThreadRow, ThreadStatus,
};
use weftwork_types::run::RunStatus;
use weftwork_types::{CheckpointId, ThreadId, Timestamp};

/// Longest wait for the end of runs that are cancelled because their thread is deleted.
const END_MAX: Duration = Duration::from_secs(10);
/// Member of the metadata with the id of the assistant that ran last.
const ASSISTANT: &str = "assistant_id";
/// Maximum number of words of a search.
const WORDS_MAX: usize = 16;

/// A change of the state with which a thread begins.
#[derive(Debug)]
pub(crate) struct Superstep {
    pub(crate) values: Value,
    pub(crate) as_node: String,
}

/// Conditions on threads that the store does not check.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Members that the values have.
    pub(crate) values: Map<String, Value>,
    /// Words in lower case. Each is part of a text of the metadata.
    words: Vec<String>,
    /// `true` for threads that wait for a time, `false` for all other threads.
    is_timed: Option<bool>,
    /// Ends of the last run; empty for any.
    pub(crate) last_runs: Vec<LastRun>,
}

/// The status of the last run of a thread, which says more than that of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LastRun {
    /// Nothing has run.
    None,
    /// Nothing has run on this thread, which is a copy and has a state.
    Copied,
    /// A run has this status.
    #[serde(untagged)]
    Run(RunStatus),
}

impl LastRun {
    pub(crate) fn of(row: &ThreadRow) -> Self {
        let copied = if row.head.is_some() { Self::Copied } else { Self::None };
        row.status.map_or(copied, Self::Run)
    }

    /// Returns the name; `None` if nothing has run.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Copied => Some("copied"),
            Self::Run(status) => Some(status.name()),
        }
    }
}

impl Wanted {
    /// Reads conditions: members of the values, and the text of a search.
    ///
    /// # Errors
    /// Status 422 for a text with too many words.
    pub(crate) fn read(
        values: Map<String, Value>,
        query: &str,
        is_timed: Option<bool>,
    ) -> Result<Self> {
        let words: Vec<_> = query.split_whitespace().map(str::to_lowercase).collect();
        if words.len() > WORDS_MAX {
            return Err(ApiError::invalid(format!(
                "`query` has {} words; expected at most {WORDS_MAX}",
                words.len()
            )));
        }
        Ok(Self { values, words, is_timed, last_runs: Vec::new() })
    }

    /// Returns `true` if the texts of the metadata have all words. The id of the assistant is no text
    /// for people.
    fn has_words(&self, metadata: &Map<String, Value>) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let texts = metadata.iter().filter(|(name, _)| *name != ASSISTANT);
        let texts: Vec<_> =
            texts.filter_map(|(_, value)| value.as_str()).map(str::to_lowercase).collect();
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

impl Service {
    /// Creates a thread, with the states of supersteps that its graph has not executed.
    pub(crate) async fn create_thread(
        &self,
        id: Option<&str>,
        metadata: Map<String, Value>,
        if_exists: IfExists,
        supersteps: Vec<Superstep>,
    ) -> Result<Value> {
        let id = match id {
            Some(id) => self.thread_id(id).await?,
            None => ThreadId::from_uuid(uuid::Uuid::now_v7()),
        };
        if if_exists == IfExists::Refuse && self.row(&id).await.is_ok() {
            return Err(ApiError::conflict(format!("Thread with ID {id} already exists")));
        }
        refuse_reserved(&metadata)?;
        let graph = match metadata.get("graph_id").and_then(Value::as_str) {
            Some(name) => Some(self.hosted(&self.graph_of(name)?)?.id),
            None if supersteps.is_empty() => None,
            None => return Err(ApiError::invalid("`supersteps` need `metadata.graph_id`")),
        };
        let new = NewThread { id, graph, metadata, created_at: self.now(), if_exists };
        let row = self.store().create_thread(self.who(), new).await?;
        for Superstep { values, as_node } in supersteps {
            self.update(&row.id, &CheckpointBody::default(), values, Some(as_node)).await?;
        }
        self.thread(&row.id).await
    }

    /// Returns the row of a thread.
    pub(crate) async fn row(&self, thread: &ThreadId) -> Result<ThreadRow> {
        match self.store().thread(self.who(), thread).await {
            Err(StoreError::NotFound { .. }) => Err(ApiError::thread_missing(thread.as_str())),
            row => Ok(row?),
        }
    }

    /// Returns a thread with its values.
    pub(crate) async fn thread(&self, thread: &ThreadId) -> Result<Value> {
        self.with_values(&self.find_thread(thread).await?).await
    }

    /// Returns a thread as a search finds it: also one with a damaged row.
    async fn find_thread(&self, thread: &ThreadId) -> Result<FoundThread> {
        let query =
            ThreadQuery { ids: Some([thread.clone()].into()), limit: 1, ..ThreadQuery::default() };
        let found = self.store().search_threads(self.who(), query).await?.threads.pop();
        found.ok_or_else(|| ApiError::thread_missing(thread.as_str()))
    }

    /// Returns a found thread with the values of its last run that ended. A thread that this build
    /// cannot read has the reason as its error, and no values.
    pub(crate) async fn with_values(&self, found: &FoundThread) -> Result<Value> {
        let read = match &found.damage {
            Some(fault) => Err(fault.clone()),
            None => match self.read_values(found).await {
                Err(error) if error.is_unreadable() => Err(error.fault()),
                shown => Ok(shown?),
            },
        };
        Ok(read.unwrap_or_else(|fault| {
            let mut shown = self.without_values(found);
            rows::add_unreadable(&mut shown, &fault);
            shown
        }))
    }

    async fn read_values(&self, found: &FoundThread) -> Result<Value, RuntimeError> {
        let mut shown = self.without_values(found);
        let row = &found.row;
        let mut has_values = row.head.is_some();
        if found.status == ThreadStatus::Busy || found.status == ThreadStatus::Error {
            let runs = self.store().runs(self.who(), &row.id).await?;
            has_values &= runs.iter().any(|run| run.status.is_final());
            let last = runs.iter().rev().find(|run| run.status.is_final());
            let failure = last.and_then(|run| run.outcome.as_ref()).and_then(rows::failure_of);
            if let Some(failure) = failure.filter(|_| found.status == ThreadStatus::Error) {
                shown["error"] = serde_json::json!(failure);
            }
        }
        if has_values {
            rows::add_values(&mut shown, self.newest_state(row).await?);
        }
        Ok(shown)
    }

    /// Returns the time for which a thread waits: the time of a timer if no person is asked, or the
    /// begin of a delayed run.
    pub(crate) async fn waits_until(&self, found: &FoundThread) -> Result<Option<Timestamp>> {
        match self.read_wait(found).await {
            // The thread was deleted meanwhile, or this build cannot read its questions.
            Err(
                StoreError::NotFound { .. } | StoreError::Corrupt { .. } | StoreError::Newer { .. },
            ) => Ok(None),
            time => Ok(time?),
        }
    }

    async fn read_wait(&self, found: &FoundThread) -> Result<Option<Timestamp>, StoreError> {
        let row = &found.row;
        match found.status {
            ThreadStatus::Interrupted if row.wakes_at.is_some() => {
                let asks = !self.asked_on(&row.id).await?.is_empty();
                Ok(row.wakes_at.filter(|_| !asks))
            }
            ThreadStatus::Busy if row.status != Some(RunStatus::Running) => {
                let runs = self.store().runs(self.who(), &row.id).await?;
                let first = runs.into_iter().find(|run| !run.status.is_final());
                let begins = first.and_then(|run| run.new.options.begins_later(self.now()));
                // A timer comes before a run that has not begun.
                Ok(begins.map(|begins| row.wakes_at.map_or(begins, |timer| timer.min(begins))))
            }
            _ => Ok(None),
        }
    }

    /// Returns a found thread without its values.
    pub(crate) fn without_values(&self, found: &FoundThread) -> Value {
        let graph = found.row.graph.as_deref().map(|graph| self.name_of(graph));
        rows::thread_to_json(&found.row, graph, found.status)
    }

    /// Returns the threads that match, all of them, in order.
    pub(crate) async fn search(
        &self,
        mut query: ThreadQuery,
        wanted: &Wanted,
    ) -> Result<Vec<FoundThread>> {
        // These members follow from the last run, and are not part of the stored metadata.
        let derived: Map<_, _> = ["graph_id", ASSISTANT]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), query.metadata.shift_remove(name)?)))
            .collect();
        let reads_metadata = !derived.is_empty() || !wanted.words.is_empty();
        let derived = Value::Object(derived);
        let threads = self.runtime().threads().with_principal(self.who().clone());
        let mut found = Vec::new();
        loop {
            let page = threads.search(query.clone()).await?;
            for thread in page.threads {
                let wanted_runs = &wanted.last_runs;
                let is_other =
                    !wanted_runs.is_empty() && !wanted_runs.contains(&LastRun::of(&thread.row));
                if is_other || is_of_other(self.who(), &thread.row.metadata) {
                    continue;
                }
                if reads_metadata {
                    let metadata = Value::Object(self.metadata_of(&thread.row));
                    let words = metadata.as_object().is_some_and(|all| wanted.has_words(all));
                    if !words || !body::contains(&metadata, &derived) {
                        continue;
                    }
                }
                if let Some(is_timed) = wanted.is_timed
                    && self.waits_until(&thread).await?.is_some() != is_timed
                {
                    continue;
                }
                if self.has_values(&thread.row, &wanted.values).await? {
                    found.push(thread);
                }
            }
            match page.next {
                Some(next) => query.from = SearchFrom::After(next),
                None => return Ok(found),
            }
        }
    }

    /// Returns the metadata of a thread as clients see it.
    fn metadata_of(&self, row: &ThreadRow) -> Map<String, Value> {
        rows::thread_metadata(row, row.graph.as_deref().map(|graph| self.name_of(graph)))
    }

    async fn has_values(&self, row: &ThreadRow, values: &Map<String, Value>) -> Result<bool> {
        if values.is_empty() {
            return Ok(true);
        }
        match self.newest_state(row).await {
            Ok(at) => Ok(body::contains(&at["values"], &Value::Object(values.clone()))),
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces members of the metadata of a thread.
    pub(crate) async fn set_metadata(
        &self,
        thread: &ThreadId,
        metadata: Map<String, Value>,
    ) -> Result<Value> {
        refuse_reserved(&metadata)?;
        self.row(thread).await?;
        self.store().update_metadata(self.who(), thread, metadata, self.now()).await?;
        self.thread(thread).await
    }

    /// Deletes a thread on behalf of a client. Its unfinished runs are cancelled first, as in
    /// LangGraph's server.
    ///
    /// # Errors
    /// Status 409 if a run has not ended in time, such as a run whose process died and that no worker
    /// claims, and for the thread of an instance that is not terminated.
    pub(crate) async fn delete_with_runs(&self, thread: &ThreadId) -> Result<()> {
        // Before anything is cancelled.
        check_deletion(thread, &self.find_thread(thread).await?.row.metadata)?;
        let threads = self.runtime().threads().with_principal(self.who().clone());
        let mut ends = Vec::new();
        for run in threads.cancel(thread).await? {
            ends.push(self.runtime().follow_run(self.who(), &run).await?.into_future());
        }
        select(join_all(ends), self.pause(END_MAX)).await;
        self.delete_thread(thread).await
    }

    pub(crate) async fn delete_thread(&self, thread: &ThreadId) -> Result<()> {
        self.find_thread(thread).await?;
        let threads = self.runtime().threads().with_principal(self.who().clone());
        threads.delete(thread).await?;
        self.forget_deleted(thread).await
    }

    /// Copies a thread, with its open questions; up to a checkpoint, without runs and questions.
    ///
    /// # Errors
    /// Status 409 if a thread with the id of the copy exists.
    pub(crate) async fn copy_thread(
        &self,
        thread: &ThreadId,
        at: Option<CheckpointId>,
        to: Option<&str>,
    ) -> Result<Value> {
        let to = match to {
            None => ThreadId::from_uuid(uuid::Uuid::new_v4()),
            Some(id) => {
                let to = self.thread_id(id).await?;
                match self.row(&to).await {
                    Err(error) if error.is_missing() => to,
                    Err(error) => return Err(error),
                    Ok(_) => {
                        let text = format!("Thread with ID {to} already exists");
                        return Err(ApiError::conflict(text));
                    }
                }
            }
        };
        let row = self.row(thread).await?;
        let store = self.store().as_ref();
        // Copying reads no values, so that it needs no graph.
        match at {
            Some(_) => {
                let from = ForkSource { thread, checkpoint: at };
                fork_thread(store, self.who(), from, &to, self.now()).await?;
            }
            None if row.head.is_some() => {
                let clock = self.runtime().clock().as_ref();
                copy_thread(store, self.who(), thread, &to, clock).await?;
            }
            None => {
                let new = NewThread {
                    id: to.clone(),
                    graph: row.graph,
                    metadata: without_reserved(row.metadata),
                    created_at: self.now(),
                    if_exists: IfExists::Refuse,
                };
                store.create_thread(self.who(), new).await?;
            }
        }
        self.thread(&to).await
    }
}

/// Refuses metadata that only a runtime sets, such as the mark of an instance.
fn refuse_reserved(metadata: &Map<String, Value>) -> Result<()> {
    match metadata.keys().find(|name| name.starts_with(RESERVED)) {
        Some(name) => Err(ApiError::invalid(format!(
            "`metadata` has the reserved member `{name}`; names that begin with `{RESERVED}` are set by the server"
        ))),
        None => Ok(()),
    }
}
