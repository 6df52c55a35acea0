//! Encoding of the rows of checkpoints and tasks, around the bytes that the engine writes.
//!
//! Each row ends with a checksum of its bytes and of its place, so that a flipped bit, a torn write
//! or the row of another checkpoint is detected before its content is used.

use super::calls;
use std::sync::Arc;
use weftwork_engine::codec::{
    LayoutId, Mapped, OutputReader, Reader, ReferenceRow, VERSION, ValueLocation, Writer, open_row,
    open_row_upto, read_output, write_output,
};
use weftwork_engine::plan::Finder;
use weftwork_engine::pregel::Path;
use weftwork_engine::{EngineError, NodeIdx, Plan};
use weftwork_graph::run_loop::{
    ExternalInput, TaskDetails, TaskKey, TaskRecord, TaskRecords, TaskWrites,
};
use weftwork_graph::run_loop::{Metadata, Source};
use weftwork_types::CheckpointId;
use weftwork_types::canonical::Hash;
use xxhash_rust::xxh3::Xxh3Default;

/// Format of rows that include the calls of tasks, and are otherwise as before: a program without
/// support for calls refuses these rows, and reads the others.
const WITH_CALLS: u8 = 2;

/// Size of a checksum, in bytes.
const SUM: usize = 8;

/// Kind of a row, which its checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Checkpoint = 1,
    /// Outcomes of the tasks of a checkpoint.
    Tasks = 2,
    /// Input from outside to a checkpoint.
    Outside = 3,
}

fn compute_checksum(kind: Kind, ns: &str, id: CheckpointId, bytes: &[u8]) -> [u8; SUM] {
    let mut hash = Xxh3Default::new();
    hash.update(&[kind as u8]);
    hash.update(&id.0.to_be_bytes());
    hash.update(&(ns.len() as u64).to_be_bytes());
    hash.update(ns.as_bytes());
    hash.update(bytes);
    hash.digest().to_be_bytes()
}

/// Appends the checksum.
pub(super) fn seal(kind: Kind, ns: &str, id: CheckpointId, bytes: &mut Vec<u8>) {
    let sum = compute_checksum(kind, ns, id, bytes);
    bytes.extend_from_slice(&sum);
}

/// Returns the layout that a row names, and the bytes after it.
pub(super) fn open_as(kind: Kind, row: &[u8]) -> Result<(LayoutId, Reader<'_>), EngineError> {
    match kind {
        Kind::Tasks => open_row_upto(WITH_CALLS, row),
        Kind::Checkpoint | Kind::Outside => open_row(row),
    }
}

/// Returns the bytes before the checksum if the checksum matches.
pub(super) fn open<'r>(kind: Kind, ns: &str, id: CheckpointId, row: &'r [u8]) -> Option<&'r [u8]> {
    let (bytes, found) = row.split_at_checked(row.len().checked_sub(SUM)?)?;
    (compute_checksum(kind, ns, id, bytes) == *found).then_some(bytes)
}

/// Encodes the origin of a checkpoint, and its parent.
pub(super) fn write_metadata(metadata: &Metadata, parent: Option<CheckpointId>) -> Vec<u8> {
    let mut out = Writer::with_capacity(32);
    out.byte(match metadata.source {
        Source::Nothing => 0,
        Source::Input => 1,
        Source::Loop => 2,
        Source::Update => 3,
        Source::Fork => 4,
    });
    out.signed(metadata.step);
    out.number(parent.map_or(0, |id| id.0));
    out.number(metadata.branch.map_or(0, |id| id.0));
    out.count(metadata.parents.len());
    for (ns, id) in &metadata.parents {
        out.text(ns);
        out.number(id.0);
    }
    out.count(metadata.delta.len());
    for (name, (updates, steps)) in &metadata.delta {
        out.text(name);
        out.number(*updates);
        out.number(*steps);
    }
    out.into_bytes()
}

/// Decodes the metadata that [`write_metadata`] encoded.
pub(super) fn read_metadata(bytes: &[u8]) -> Result<(Metadata, Option<CheckpointId>), EngineError> {
    let mut read = Reader::new(bytes);
    let source = match read.byte()? {
        0 => Source::Nothing,
        1 => Source::Input,
        2 => Source::Loop,
        3 => Source::Update,
        4 => Source::Fork,
        _ => return Err(read.damaged("what made the checkpoint")),
    };
    let step = read.signed()?;
    let parent = Some(CheckpointId(read.wide()?)).filter(|id| id.0 != 0);
    let branch = Some(CheckpointId(read.wide()?)).filter(|id| id.0 != 0);
    let mut metadata = Metadata { source, step, branch, ..Metadata::default() };
    for _ in 0..read.count()? {
        let ns = read.text()?.to_owned();
        metadata.parents.insert(ns, CheckpointId(read.wide()?));
    }
    for _ in 0..read.count()? {
        let name = read.text()?.to_owned();
        metadata.delta.insert(name, (read.number()?, read.number()?));
    }
    Ok((metadata, parent))
}

mod tag {
    pub(super) const NUMBERED: u8 = 0;
    pub(super) const NAMED: u8 = 1;
    pub(super) const CALL: u8 = 2;
    pub(super) const OUTPUT: u8 = 1;
    pub(super) const EDGES: u8 = 2;
    pub(super) const REST: u8 = 4;
    /// The output is the input of the checkpoint, and is stored there.
    pub(super) const INPUT: u8 = 8;
    pub(super) const CALLS: u8 = 16;
}

/// Encoded bytes, and the values that are stored separately.
pub(super) type Written = (Vec<u8>, Vec<(Hash, Vec<u8>)>);

fn begin_row(plan: &Plan, version: u8, room: usize) -> Writer {
    let mut out = Writer::with_capacity(room);
    out.byte(version);
    out.raw(&plan.layout().id().0);
    out
}

/// Encodes the outcomes of tasks. Values that `known` has are stored as references to it; their
/// distance is counted from the checkpoint at which the tasks were due.
pub(super) fn write_tasks(
    plan: &Plan,
    tasks: &TaskRecords,
    known: Option<ReferenceRow>,
) -> Result<Written, EngineError> {
    let calls = tasks.iter().any(|(_, record)| record.calls.is_some());
    let (version, room) = if calls { (WITH_CALLS, 256) } else { (VERSION, 32) };
    let mut out = begin_row(plan, version, 32 + room * tasks.len());
    out.refer_to(known);
    out.count(tasks.len());
    let mut nodes = plan.finder();
    for (key, record) in tasks {
        write_key(&mut out, &mut nodes, key);
        let has = |yes: bool, flag: u8| if yes { flag } else { 0 };
        let writes = match &record.writes {
            TaskWrites::None => 0,
            TaskWrites::Input(_) => tag::INPUT | tag::EDGES,
            TaskWrites::Followed(_) => tag::OUTPUT | tag::EDGES,
            TaskWrites::Unfollowed(_) => tag::OUTPUT,
        };
        out.byte(
            writes
                | has(record.details.is_some(), tag::REST)
                | has(record.calls.is_some(), tag::CALLS),
        );
        if let TaskWrites::Followed(output) | TaskWrites::Unfollowed(output) = &record.writes {
            write_output(&mut out, plan, output)?;
        }
        if let Some(details) = &record.details {
            out.json(&**details).map_err(|reason| bad_output(key.name(), reason))?;
        }
        if let Some(calls) = &record.calls {
            calls::write(&mut out, key.name(), calls)
                .map_err(|reason| bad_output(key.name(), reason))?;
        }
    }
    Ok(out.finish())
}

fn bad_output(name: &str, reason: String) -> EngineError {
    EngineError::BadValue { channel: name.to_owned(), reason }
}

fn write_key<'k>(out: &mut Writer, nodes: &mut Finder<'k>, key: &'k TaskKey) {
    match key {
        TaskKey::Node { node, path } => {
            match nodes.find(node) {
                Some(index) => {
                    out.byte(tag::NUMBERED);
                    out.count(index.0);
                }
                None => {
                    out.byte(tag::NAMED);
                    out.text(node);
                }
            }
            let (kind, number) = match path {
                Path::Pull => (0, None),
                Path::Push(index) => (1, Some(index)),
                Path::Handler(None) => (2, None),
                Path::Handler(Some(index)) => (3, Some(index)),
                Path::Outside(index) => (4, Some(index)),
            };
            out.byte(kind);
            number.into_iter().for_each(|number| out.number(*number));
        }
        TaskKey::Call { name, of, index } => {
            out.byte(tag::CALL);
            out.text(name);
            out.number(*index);
            write_key(out, nodes, of);
        }
    }
}

/// Reads rows of tasks and of input from outside.
pub(super) struct RowReader<'a> {
    pub(super) plan: &'a Plan,
    pub(super) mapped: &'a Mapped,
    pub(super) elsewhere: &'a dyn Fn(ValueLocation) -> Option<Vec<u8>>,
}

/// Limit of nested calls; deeper nesting is damage.
const CALLS_MAX: usize = 1_000;

impl RowReader<'_> {
    fn output_reader(&self) -> OutputReader<'_> {
        OutputReader { plan: self.plan, mapped: self.mapped, elsewhere: self.elsewhere }
    }

    pub(super) fn tasks(&self, read: &mut Reader<'_>) -> Result<TaskRecords, EngineError> {
        let mut records = TaskRecords::new();
        for _ in 0..read.count()? {
            let key = self.read_key(read)?;
            let flags = read.byte()?;
            let mut record = TaskRecord::default();
            if flags & tag::OUTPUT != 0 {
                let output = Arc::new(read_output(read, &self.output_reader())?);
                record.writes = match flags & tag::EDGES {
                    0 => TaskWrites::Unfollowed(output),
                    _ => TaskWrites::Followed(output),
                };
            } else if flags & tag::INPUT != 0 {
                // The input itself is part of the checkpoint.
                record.writes = TaskWrites::Input(Arc::default());
            }
            if flags & tag::REST != 0 {
                record.details = Some(Box::new(self.read_details(read, key.as_ref())?));
            }
            if flags & tag::CALLS != 0 {
                record.calls = calls::read(read, task_name(key.as_ref()), &self.output_reader())?;
            }
            records.extend(key.map(|key| (key, record)));
        }
        check_end(read)?;
        Ok(records)
    }

    fn read_details(
        &self,
        read: &mut Reader<'_>,
        key: Option<&TaskKey>,
    ) -> Result<TaskDetails, EngineError> {
        let name = task_name(key);
        let json = self.output_reader().json(read, name)?;
        serde_json::from_value(json).map_err(|error| EngineError::BadStored {
            channel: name.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Reads the key of a task; `None` if its node no longer exists.
    fn read_key(&self, read: &mut Reader<'_>) -> Result<Option<TaskKey>, EngineError> {
        // A call precedes the task that made it.
        let mut calls: Vec<(Arc<str>, _)> = Vec::new();
        let mut kind = read.byte()?;
        while kind == tag::CALL && calls.len() < CALLS_MAX {
            calls.push((read.text()?.into(), read.number()?));
            kind = read.byte()?;
        }
        let node: Option<Arc<str>> = match kind {
            tag::NUMBERED => {
                let index: usize = read.number()?;
                let found = self.mapped.node_of(self.plan, index, read)?;
                found.map(|index: NodeIdx| Arc::clone(self.plan.shared_name(index)))
            }
            tag::NAMED => Some(read.text()?.into()),
            _ => return Err(read.damaged("a node or a call")),
        };
        let path = match read.byte()? {
            0 => Path::Pull,
            1 => Path::Push(read.number()?),
            2 => Path::Handler(None),
            3 => Path::Handler(Some(read.number()?)),
            4 => Path::Outside(read.number()?),
            _ => return Err(read.damaged("how a task came to run")),
        };
        let node = node.map(|node| TaskKey::Node { node, path });
        let within = |of, (name, index)| TaskKey::Call { name, of: Arc::new(of), index };
        Ok(node.map(|node| calls.into_iter().rev().fold(node, within)))
    }

    pub(super) fn outside(&self, read: &mut Reader<'_>) -> Result<ExternalInput, EngineError> {
        let output = read_output(read, &self.output_reader())?;
        let resume = match read.byte()? {
            0 => None,
            1 => Some(self.output_reader().json(read, "an answer")?),
            _ => return Err(read.damaged("whether there is an answer")),
        };
        check_end(read)?;
        Ok(ExternalInput { output, resume })
    }
}

fn task_name(key: Option<&TaskKey>) -> &str {
    key.map_or("a task", |key| key.name())
}

fn check_end(read: &Reader<'_>) -> Result<(), EngineError> {
    if read.is_empty() { Ok(()) } else { Err(read.damaged("the end")) }
}

/// Encodes input from outside.
pub(super) fn write_outside(plan: &Plan, outside: &ExternalInput) -> Result<Written, EngineError> {
    let mut out = begin_row(plan, VERSION, 64);
    write_output(&mut out, plan, &outside.output)?;
    match &outside.resume {
        None => out.byte(0),
        Some(answer) => {
            out.byte(1);
            out.json(answer).map_err(|reason| bad_output("an answer", reason))?;
        }
    }
    Ok(out.finish())
}

#[cfg(test)]
mod tests;
