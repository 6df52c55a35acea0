//! Supersteps whose tasks the log of a run has reported as due.

use std::collections::BTreeMap;
use weftwork_types::CheckpointId;
use weftwork_types::event::AiEvent;

/// The open supersteps of a run's graphs whose tasks are reported, by the namespaces of the graphs
/// and the checkpoints that they start from. A worker that continues them does not report them
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OpenSteps(BTreeMap<String, CheckpointId>);

impl OpenSteps {
    /// Reads an event of the log.
    pub(super) fn read(&mut self, event: &AiEvent) {
        match event {
            AiEvent::Checkpoint(stored) => {
                if stored.ns.is_empty() {
                    // Subgraphs belong to tasks of the superstep that it closes.
                    self.0.clear();
                }
                self.0.insert(stored.ns.clone(), stored.id);
            }
            AiEvent::TasksStarted { ns, checkpoint, .. } => {
                self.0.insert(ns.clone(), *checkpoint);
            }
            // The tasks run again after it.
            AiEvent::Requeued { .. } => self.0.clear(),
            _ => {}
        }
    }

    /// Reads an event that reports tasks of an open superstep. Returns `false` if the log has
    /// reported them before.
    pub(super) fn reports(&mut self, started: &AiEvent) -> bool {
        let AiEvent::TasksStarted { ns, checkpoint, .. } = started else { return true };
        self.0.insert(ns.clone(), *checkpoint) != Some(*checkpoint)
    }
}
