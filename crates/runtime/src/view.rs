//! Views of threads: their states and histories, also those of their subgraphs.

use crate::origin::Origins;
use crate::runtime::Runtime;
use std::collections::BTreeSet;
use weftwork_graph::run_loop::{HistoryFilter, Snapshot, StateQuery, Unanswered};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::{CheckpointId, InterruptId, Principal, ThreadId};

/// A view of a thread, or of one of its subgraphs. It reads and never changes anything.
///
/// Results of tools have their shown form, unless the thread was given the right to the
/// [whole state](crate::Thread::whole_state). A thread that does not exist has the state of one on which nothing ran.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until the state or the history is"]
pub struct ThreadView {
    runtime: Runtime,
    graph: CompiledGraph,
    who: Principal,
    at: StateQuery,
    subgraphs: bool,
}

impl ThreadView {
    pub(crate) fn new(
        runtime: &Runtime,
        graph: &CompiledGraph,
        who: &Principal,
        at: StateQuery,
    ) -> Self {
        let runtime = runtime.clone();
        let graph = graph.clone();
        let who = who.clone();
        Self { runtime, graph, who, at, subgraphs: false }
    }

    /// Reads a subgraph, which is named by its namespace: the `ns` of a
    /// [`CheckpointRef`](weftwork_graph::run_loop::CheckpointRef).
    pub fn within(mut self, namespace: &str) -> Self {
        self.at = self.at.within(namespace);
        self
    }

    /// Reads the state at this checkpoint, of the graph that is viewed.
    pub fn at(mut self, checkpoint: CheckpointId) -> Self {
        self.at.checkpoint = Some(checkpoint);
        self
    }

    /// Includes the states of subgraphs.
    pub fn with_subgraphs(mut self) -> Self {
        self.subgraphs = true;
        self
    }

    /// Returns the state. Finished tasks of an open superstep are included, and only the other ones
    /// are due. Questions that have an answer are not open, also while no run has taken it: in the
    /// semantics of LangGraph they are until then.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownNamespace`], [`RuntimeError::UnknownCheckpoint`],
    /// [`RuntimeError::Engine`] if a checkpoint does not fit the graph, or the error of the store.
    pub async fn state(&self) -> Result<Snapshot, RuntimeError> {
        let host = self.runtime.looking(&self.who);
        let origins = self.load_origins().await?;
        let graph = self.runtime.graph_at(&self.who, &origins, &self.at, self.graph.clone())?;
        let mut state = graph.state(&host, &self.at, self.subgraphs).await?;
        let waits = graph.semantics().unanswered == Unanswered::Wait;
        if waits && self.at.checkpoint.is_none() && !state.interrupts.is_empty() {
            state.drop_answered(&self.answered_questions().await?);
        }
        origins.add(std::slice::from_mut(&mut state)).await?;
        Ok(state)
    }

    async fn answered_questions(&self) -> Result<BTreeSet<InterruptId>, RuntimeError> {
        let thread = ThreadId::new(&*self.at.thread)?;
        let rows = self.runtime.store().interrupts(&self.who, &thread).await?;
        let answered = rows.into_iter().filter(|row| row.answer.is_some());
        Ok(answered.map(|row| row.interrupt.id).collect())
    }

    async fn load_origins(&self) -> Result<Origins<'_>, RuntimeError> {
        let thread = ThreadId::new(&*self.at.thread)?;
        Origins::of(self.runtime.store().as_ref(), &self.who, &thread).await
    }

    /// Returns the checkpoints that match the filter, on all branches, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history(&self, filter: &HistoryFilter) -> Result<Vec<Snapshot>, RuntimeError> {
        self.runtime.history_by(&self.graph, &self.who, &self.at, filter).await
    }
}
