//! History of threads.

use super::{Inspection, StateQuery};
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::CheckpointAddress;
use crate::run_loop::context::Host;
use crate::run_loop::event::{Snapshot, Source};
use std::sync::Arc;
use weftwork_types::{CheckpointId, RunId};

/// Filter of the checkpoints of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Only those before this one.
    pub before: Option<CheckpointId>,
    /// At most so many.
    pub limit: usize,
    /// Only those that this made.
    pub source: Option<Source>,
    /// Only those of this superstep.
    pub step: Option<i64>,
    /// Only those of this run. A run within a program has no id, and no checkpoint matches.
    pub run: Option<RunId>,
    /// Only those of runs whose metadata has these members with these values. A run within a
    /// program has no metadata.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Default for HistoryFilter {
    fn default() -> Self {
        Self {
            before: None,
            limit: usize::MAX,
            source: None,
            step: None,
            run: None,
            metadata: serde_json::Map::new(),
        }
    }
}

impl CompiledGraph {
    /// The checkpoints of a thread on all its branches, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history(
        &self,
        host: &Host,
        at: &StateQuery,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        self.history_of(host, at, &HistoryFilter::default()).await
    }

    /// Returns the checkpoints that match the filter, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history_of(
        &self,
        host: &Host,
        at: &StateQuery,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let checkpointer = host
            .checkpointer()
            .ok_or(RuntimeError::NoCheckpointer { what: "looking at a thread" })?;
        let (graph, place) = self.at(at)?;
        let look = Inspection { graph: &graph, checkpointer, within: false };
        // Runs of a program have neither ids nor metadata.
        if filter.run.is_some() || !filter.metadata.is_empty() {
            return Ok(Vec::new());
        }
        let all = filter.source.is_none() && filter.step.is_none();
        // The store filters neither by source nor by superstep: its limit would cut off matches.
        let limit = if all { filter.limit } else { usize::MAX };
        let saved = checkpointer.list(&place, graph.plan(), filter.before, limit).await?;
        let wanted = saved.into_iter().filter(|saved| {
            let metadata = &saved.checkpoint.metadata;
            filter.source.is_none_or(|source| metadata.source == source)
                && filter.step.is_none_or(|step| metadata.step == step)
        });
        let mut found = Vec::new();
        for saved in wanted.take(filter.limit) {
            found.push(look.snapshot(&place, saved, false).await?.in_form(at.form));
        }
        Ok(found)
    }

    /// Deletes all checkpoints of a thread but the newest `keep` of each of its graphs.
    ///
    /// # Errors
    /// [`RuntimeError::NoCheckpointer`], or an error of the checkpointer: for example, that the
    /// thread continued meanwhile.
    pub async fn prune(&self, host: &Host, thread: &str, keep: usize) -> Result<(), RuntimeError> {
        let checkpointer =
            host.checkpointer().ok_or(RuntimeError::NoCheckpointer { what: "pruning a thread" })?;
        for ns in checkpointer.graphs(thread).await? {
            let (graph, _) = self.at(&StateQuery::thread(thread).within(Arc::clone(&ns)))?;
            let place = CheckpointAddress { thread: thread.into(), ns };
            checkpointer.prune(&place, graph.plan(), keep).await?;
        }
        Ok(())
    }
}
