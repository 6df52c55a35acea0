//! Events of stored checkpoints.

use weftwork_engine::EngineError;
use weftwork_engine::codec::DeltaBase;
use weftwork_engine::pregel::Machine;
use weftwork_graph::run_loop::{Checkpoint, Source, tasks_due};
use weftwork_types::event::{AiEvent, CheckpointSource, CheckpointStored, TaskDue, TaskEnd};
use weftwork_types::message::Message;

/// Returns the messages that nodes added or changed since a checkpoint. Messages of the input are
/// omitted: its caller has them.
pub(super) fn new_messages(
    machine: &Machine,
    since: Option<&DeltaBase>,
    ended: &[TaskEnd],
) -> Vec<Message> {
    if ended.is_empty() { Vec::new() } else { machine.messages_since(since) }
}

/// Returns the event of a checkpoint that is stored. The tasks of the superstep that it closes have
/// ended.
pub(super) fn checkpoint_event(
    ns: &str,
    checkpoint: &Checkpoint,
    ended: Vec<TaskEnd>,
    due: Option<Vec<TaskDue>>,
) -> Result<AiEvent, EngineError> {
    let Checkpoint { id, parent, metadata, machine } = checkpoint;
    let source = match metadata.source {
        Source::Nothing => CheckpointSource::Empty,
        Source::Input => CheckpointSource::Input,
        Source::Loop => CheckpointSource::Loop,
        Source::Update => CheckpointSource::Update,
        Source::Fork => CheckpointSource::Fork,
    };
    let id = *id;
    let parent = *parent;
    let step = metadata.step;
    let due = due.map_or_else(|| tasks_due(machine, ns, id, step), Ok)?;
    let ns = ns.to_owned();
    let event = CheckpointStored { ns, id, parent, source, step, ended, due };
    Ok(AiEvent::Checkpoint(Box::new(event)))
}
