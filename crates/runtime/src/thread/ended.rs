//! The end of a run of a thread.

use std::fmt;
use std::ops::Deref;
use weftwork_graph::{CompiledGraph, Ended};
use weftwork_types::run::{RunOutcome, RunRef};

/// A run of a thread that has ended. It dereferences to its [end](Ended), and is printed like it.
#[derive(Debug)]
pub struct EndedRun {
    run: RunRef,
    ended: Ended,
}

impl EndedRun {
    pub(super) fn new(run: RunRef, outcome: RunOutcome, graph: CompiledGraph) -> Self {
        let ended = Ended::new(run.run.to_string(), outcome, graph);
        Self { run, ended }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunRef {
        &self.run
    }
}

impl Deref for EndedRun {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl fmt::Display for EndedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ended.fmt(f)
    }
}
