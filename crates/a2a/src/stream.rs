//! Events of streams.

use crate::follow::{Follower, Until};
use crate::reader::Update;
use crate::task::TaskRuns;
use crate::wire::{ArtifactUpdate, StatusUpdate, StreamResponse, Task};
use futures_util::{StreamExt, stream};
use weftwork_server::TurnSource;
use weftwork_types::{BoxStream, Principal};

/// The events of a task.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    task_id: String,
    context_id: String,
}

impl Events {
    pub(crate) fn of(task: &TaskRuns) -> Self {
        Self { task_id: task.id(), context_id: task.context().to_owned() }
    }

    pub(crate) fn of_update(&self, update: Update) -> StreamResponse {
        let Self { task_id, context_id } = self.clone();
        match update {
            Update::Status(status) => {
                StreamResponse::StatusUpdate(StatusUpdate { task_id, context_id, status })
            }
            Update::Artifact { artifact, append, last: last_chunk, .. } => {
                StreamResponse::ArtifactUpdate(ArtifactUpdate {
                    task_id,
                    context_id,
                    artifact,
                    append,
                    last_chunk,
                })
            }
        }
    }
}

/// A task and the number of its runs that it shows completely.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) task: Task,
    pub(crate) runs: TaskRuns,
    pub(crate) done: usize,
}

/// Returns the stream of a task: the task, and the updates after it.
pub(crate) fn events_of(
    source: TurnSource,
    who: Principal,
    shown: Shown,
    until: Until,
) -> BoxStream<'static, StreamResponse> {
    let Shown { task, runs, done } = shown;
    let events = Events::of(&runs);
    let follower = Follower::new(source, who, runs, done, until);
    let updates = follower.into_stream().map(move |update| events.of_update(update));
    Box::pin(stream::iter([StreamResponse::Task(task)]).chain(updates))
}
