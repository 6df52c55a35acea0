//! Followers of hosted runs, whose frames must be the same.

use super::hosted::GRAPH;
use crate::play::Played;
use crate::python::Raised;
use crate::setting::Home;
use futures_util::{StreamExt, TryStreamExt};
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::{CompiledGraph, MessagePart, Modes, RuntimeError, StreamEvent};
use weftwork_runtime::{Frame, Runtime, Selection, Subgraphs};
use weftwork_store::ItemStore;
use weftwork_types::Principal;
use weftwork_types::event::Position;
use weftwork_types::run::RunRef;

/// Frames of a run, as its followers received them.
pub(super) struct Followed {
    pub(super) modes: Modes,
    /// Frames of the follower that read them as they came.
    pub(super) live: Vec<Arc<Frame>>,
    /// Frames of the follower that reconnected after each of them.
    pub(super) again: Vec<Arc<Frame>>,
}

/// Followers of the runs of a spec.
pub(super) struct Followers {
    graph: CompiledGraph,
    home: Home,
    items: Arc<dyn ItemStore>,
    runs: Mutex<Vec<CheckedRun>>,
}

/// A run that was compared, with the frames of its modes.
type CheckedRun = (RunRef, Modes, Vec<Arc<Frame>>);

impl Followers {
    pub(super) fn new(graph: CompiledGraph, home: &Home, items: Arc<dyn ItemStore>) -> Self {
        Self { graph, home: home.clone(), items, runs: Mutex::default() }
    }

    /// Compares the frames of a run that ended, and reads those of all runs so far once more, with
    /// another runtime.
    pub(super) async fn check(&self, run: &RunRef, followed: Followed) -> Played<()> {
        let Followed { modes, live, again } = followed;
        let live = lasting(live);
        same("one who reconnected", &live, &lasting(again))?;
        let runs = {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.push((run.clone(), modes, live));
            runs.clone()
        };
        let builder = Runtime::builder(Arc::clone(&self.home.store));
        let builder = builder.graph(GRAPH, self.graph.clone()).items(Arc::clone(&self.items));
        let runtime = builder.open().await.map_err(|error| super::raised(&error))?;
        for (run, modes, live) in runs {
            let who = self.home.who.clone();
            let run = FollowedRun { runtime: runtime.clone(), who, run, modes };
            let later = run.frames(Position::START, usize::MAX).await;
            let later = later.map_err(|error| super::raised(&error))?;
            same("one who came later", &live, &lasting(later))?;
        }
        Ok(())
    }
}

/// A run as followers of some modes read it.
#[derive(Clone)]
pub(super) struct FollowedRun {
    pub(super) runtime: Runtime,
    pub(super) who: Principal,
    pub(super) run: RunRef,
    pub(super) modes: Modes,
}

impl FollowedRun {
    /// Returns the frames of a follower that reconnects after each of them.
    pub(super) async fn frames_one_by_one(&self) -> Vec<Arc<Frame>> {
        let mut all = Vec::new();
        let mut after = Position::START;
        loop {
            let next = self.frames(after, 1).await.unwrap_or_default();
            let Some(frame) = next.into_iter().next() else { return all };
            after = frame.position;
            all.push(frame);
        }
    }

    /// Returns the frames after a position, as many as the limit.
    pub(super) async fn frames(
        &self,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>, RuntimeError> {
        let subgraphs = Subgraphs::Include;
        let select = Selection { subgraphs, ..Selection::frames(self.modes) };
        let output = self.runtime.follow(&self.who, &self.run, after, select).await?;
        let frames = output.try_filter_map(async |output| Ok(output.into_frame()));
        frames.take(limit).try_collect().await
    }
}

/// Frames without partial text, which is not repeated once its message is final.
pub(super) fn lasting(mut frames: Vec<Arc<Frame>>) -> Vec<Arc<Frame>> {
    frames.retain(|frame| {
        let partial = frame.item().is_some_and(|item| {
            let StreamEvent::Message { part, .. } = &item.event else { return false };
            matches!(part, MessagePart::Chunk { .. } | MessagePart::Reset { .. })
        });
        !partial
    });
    frames
}

/// Compares the frames of two followers.
fn same(who: &str, live: &[Arc<Frame>], other: &[Arc<Frame>]) -> Played<()> {
    if live == other {
        return Ok(());
    }
    let differs = live.iter().zip(other).position(|(one, two)| one != two);
    let at = differs.unwrap_or(live.len().min(other.len()));
    let text = format!(
        "{who} got {} frames in place of {}; frame {at} is {:?} in place of {:?}",
        other.len(),
        live.len(),
        other.get(at),
        live.get(at)
    );
    Err(Raised::new("FramesDiffer", text))
}
