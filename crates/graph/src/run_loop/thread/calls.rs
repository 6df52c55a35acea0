//! Calls on record of a thread.

use super::StateQuery;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::run_loop::context::Host;
use std::sync::Arc;
use weftwork_types::port::CallRecord;

/// Number of checkpoints read at a time.
const PAGE: usize = 64;

impl CompiledGraph {
    /// The recorded calls of runs of this process on a thread, those of subgraphs included:
    /// superstep by superstep, the oldest first, of all branches, whichever checkpoint `at` names.
    ///
    /// They are stored with the checkpoints of the outermost graph and deleted with them. Calls of
    /// hosted runs are in the store (`JournalRead` of the store).
    ///
    /// # Errors
    /// [`RuntimeError::NoCheckpointer`], and errors of the checkpointer: a checkpoint that cannot
    /// be read is an error, never left out.
    pub async fn calls(
        &self,
        host: &Host,
        at: &StateQuery,
    ) -> Result<Vec<CallRecord>, RuntimeError> {
        let checkpointer =
            host.checkpointer().ok_or(RuntimeError::NoCheckpointer { what: "looking at calls" })?;
        let (graph, place) = self.at(at)?;
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let page = checkpointer.list(&place, graph.plan(), before, PAGE).await?;
            let Some(oldest) = page.last() else { break };
            before = Some(oldest.checkpoint.id);
            for saved in page {
                let calls = saved.tasks.into_iter().filter_map(|(_, record)| record.calls);
                let mut calls: Vec<_> = calls.flat_map(|calls| calls.0).collect();
                // Pages come newest first: the list is reversed as a whole at the end.
                calls.reverse();
                found.extend(calls);
            }
        }
        Ok(found.into_iter().rev().map(Arc::unwrap_or_clone).collect())
    }
}
