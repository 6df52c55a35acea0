//! Encoding of the outputs of tasks.

use crate::binary::{Reader, Stored, ValueLocation, Writer};
use crate::error::EngineError;
use crate::plan::layout::{Mapped, write_node};
use crate::plan::{ChannelIdx, Plan};
use crate::task::{Arg, Goto, TaskOutput};
use crate::value::Write;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;

mod tag {
    pub(super) const WRITE: u8 = 0;
    pub(super) const OVERWRITE: u8 = 1;
    pub(super) const NODE: u8 = 0;
    pub(super) const SEND: u8 = 1;
    pub(super) const END: u8 = 2;
}

/// Writes the output of a task.
///
/// # Errors
/// [`EngineError::BadValue`] or [`EngineError::BadSend`] for values that cannot be written.
pub fn write_output(out: &mut Writer, plan: &Plan, output: &TaskOutput) -> Result<(), EngineError> {
    out.count(output.writes.len());
    for (index, write) in &output.writes {
        out.count(index.0);
        write_one(out, plan, *index, write)?;
    }
    out.count(output.named.len());
    for (name, write) in &output.named {
        out.text(name);
        write_one(out, plan, ChannelIdx(usize::MAX), write)?;
    }
    out.count(output.goto.len());
    let mut nodes = plan.finder();
    for goto in &output.goto {
        match goto {
            Goto::Node(name) => {
                out.byte(tag::NODE);
                write_node(out, nodes.find(name), name);
            }
            Goto::Send { node, arg } => {
                out.byte(tag::SEND);
                write_node(out, nodes.find(node), node);
                write_arg(out, node, arg)?;
            }
            Goto::End => out.byte(tag::END),
        }
    }
    Ok(())
}

pub(super) fn write_arg(out: &mut Writer, node: &str, arg: &Arg) -> Result<(), EngineError> {
    out.json(&arg.json).map_err(|reason| EngineError::BadSend {
        node: node.to_owned(),
        by: "a task".to_owned(),
        reason,
    })
}

fn write_one(
    out: &mut Writer,
    plan: &Plan,
    index: ChannelIdx,
    write: &Write,
) -> Result<(), EngineError> {
    let bad =
        |reason| EngineError::BadValue { channel: plan.channel_name(index).to_owned(), reason };
    match write {
        Write::Json(json) => {
            out.byte(tag::WRITE);
            out.json(json).map_err(bad)
        }
        Write::Overwrite(json) => {
            out.byte(tag::OVERWRITE);
            out.json(json).map_err(bad)
        }
        Write::Typed(value) => {
            out.byte(tag::WRITE);
            let channel = plan.channels.get(index.0);
            out.value(|bytes| match channel {
                Some(channel) => channel.channel.write_write(value, bytes),
                None => Err("it is typed, but its channel is only known by name".to_owned()),
            })
            .map_err(bad)
        }
    }
}

/// The context for reading outputs of tasks.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct OutputReader<'a> {
    /// The graph.
    pub plan: &'a Plan,
    /// The mapping from the numbers of the row to those of the graph.
    pub mapped: &'a Mapped,
    /// Resolves values that are not inline; `None` if a value was not read.
    pub elsewhere: &'a dyn Fn(ValueLocation) -> Option<Vec<u8>>,
}

/// Reads the output of a task.
///
/// # Errors
/// [`EngineError::Damaged`]; [`EngineError::BadStored`] for a value that is not JSON.
pub fn read_output(
    read: &mut Reader<'_>,
    with: &OutputReader<'_>,
) -> Result<TaskOutput, EngineError> {
    let mut output = TaskOutput::default();
    for _ in 0..read.count()? {
        let index = read.number()?;
        let channel = with.mapped.channel(with.plan, index, read)?;
        let name = channel.map_or("", |index| with.plan.channel_name(index));
        let write = with.write(read, name)?;
        output.writes.extend(channel.map(|index| (index, write)));
    }
    for _ in 0..read.count()? {
        let name = read.text()?.to_owned();
        let write = with.write(read, &name)?;
        output.named.push((name, write));
    }
    for _ in 0..read.count()? {
        output.goto.push(match read.byte()? {
            tag::NODE => Goto::Node(with.target(read)?),
            tag::SEND => {
                let node = with.target(read)?;
                let json = with.json(read, &node)?;
                Goto::Send { node, arg: Arc::new(Arg { typed: None, json }) }
            }
            tag::END => Goto::End,
            _ => return Err(read.damaged("a node, a send or the end")),
        });
    }
    Ok(output)
}

/// Reads the values that a task wrote, by the numbers of their channels, without overwrites.
pub(super) fn read_writes<'r>(
    read: &mut Reader<'r>,
) -> Result<Vec<(usize, Stored<'r>)>, EngineError> {
    let mut found = Vec::new();
    for _ in 0..read.count()? {
        let index = read.number()?;
        let kind = read.byte()?;
        let value = read.value()?;
        match kind {
            tag::WRITE => found.push((index, value)),
            tag::OVERWRITE => {}
            _ => return Err(read.damaged("a write or an overwrite")),
        }
    }
    Ok(found)
}

impl OutputReader<'_> {
    /// The name of a node that an output leads to.
    fn target(&self, read: &mut Reader<'_>) -> Result<SmolStr, EngineError> {
        let found = self.mapped.target(self.plan, read)?;
        Ok(found.map_or_else(SmolStr::new, |index| self.plan.node_name(index).into()))
    }

    fn write(&self, read: &mut Reader<'_>, name: &str) -> Result<Write, EngineError> {
        match read.byte()? {
            tag::WRITE => self.json(read, name).map(Write::json),
            tag::OVERWRITE => self.json(read, name).map(Write::overwrite),
            _ => Err(read.damaged("a write or an overwrite")),
        }
    }

    /// Reads the JSON of a channel or a node.
    ///
    /// # Errors
    /// As [`read_output`].
    pub fn json(&self, read: &mut Reader<'_>, name: &str) -> Result<Json, EngineError> {
        let bad = |reason: String| EngineError::BadStored { channel: name.to_owned(), reason };
        let apart;
        let bytes = match read.value()? {
            Stored::Inline(bytes) => bytes,
            Stored::Blob(hash) => {
                let missing = || bad(format!("its bytes of hash `{hash}` are missing"));
                apart = (self.elsewhere)(ValueLocation::Blob(hash)).ok_or_else(missing)?;
                apart.as_slice()
            }
            Stored::RowSlice(head, there) => {
                let missing = || bad("the row that has it is missing, or too short".to_owned());
                let part = (self.elsewhere)(ValueLocation::RowSlice(there)).ok_or_else(missing)?;
                apart = [head, &part].concat();
                apart.as_slice()
            }
        };
        serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))
    }
}
