//! Encoding of a checkpoint as a row.

use super::{
    Chunk, DeltaBase, Encoded, Home, Homes, Input, ListHome, OLDER_MAX, REPEATED_MAX, ROOM,
    TAIL_MAX, control, tag,
};
use crate::binary::{ReferenceRow, Text, VERSION, Writer};
use crate::channel::patch;
use crate::error::EngineError;
use crate::plan::{ChannelIdx, ChannelPlan};
use crate::pregel::{Machine, StartInput};
use crate::value::{CHUNK, Slots, Value, Write};
use std::sync::Arc;
use weftwork_types::CheckpointId;

/// Encodes a checkpoint relative to `since` if that is of the same build. `rest` is stored in the
/// row for the caller.
///
/// # Errors
/// [`EngineError::BadValue`] or [`EngineError::BadSend`] for values that cannot be written as JSON
/// or are nested too deeply to be read.
pub fn encode(
    machine: &Machine,
    id: CheckpointId,
    since: Option<&DeltaBase>,
    rest: &[u8],
) -> Result<Encoded, EngineError> {
    let plan = machine.plan();
    let layout = plan.layout().id();
    let since = since.filter(|delta_base| delta_base.layout == layout);
    let mut out = Writer::with_capacity(ROOM + rest.len());
    out.byte(VERSION);
    out.raw(&layout.0);
    out.bytes(rest);
    let known = since.and_then(|delta_base| {
        let text = delta_base.input.as_ref()?.text.clone()?;
        Some(ReferenceRow { off: id.0.wrapping_sub(delta_base.id.0), text })
    });
    out.refer_to(known);
    let mut row = Row { out, id, same: Same::default(), inputs: Inputs::of(since), since };
    let chunks = plan.channels.chunks(CHUNK).enumerate();
    let homes = chunks.map(|(number, channels)| row.chunk(machine.slots(), number, channels));
    let homes: Homes = homes.collect::<Result<_, _>>()?;
    row.same.end(&mut row.out, id);
    let mut out = row.out;
    out.refer_to(None);
    out.byte(tag::END);
    control::write(&mut out, machine)?;
    let (bytes, blobs) = out.finish();
    let input = machine.control().start.as_ref().map(|start| {
        let writes = match start {
            StartInput::Writes(output) => Some(Arc::clone(output)),
            StartInput::Json(_) => None,
        };
        Input { writes, text: Text::of(&bytes) }
    });
    let delta_base = DeltaBase { id, layout, slots: machine.slots().clone(), homes, input };
    Ok(Encoded { bytes, blobs, delta_base })
}

/// A row that is being written.
struct Row<'a> {
    out: Writer,
    id: CheckpointId,
    same: Same,
    inputs: Inputs<'a>,
    since: Option<&'a DeltaBase>,
}

impl Row<'_> {
    /// Writes the channels whose slots are copied together.
    fn chunk(
        &mut self,
        slots: &Slots,
        number: usize,
        channels: &[ChannelPlan],
    ) -> Result<Arc<Chunk>, EngineError> {
        let first = number * CHUNK;
        let before = self.since.filter(|delta_base| slots.shares(&delta_base.slots, number));
        let before = before.and_then(|delta_base| delta_base.homes.get(number));
        if let Some((chunk, row)) = before.and_then(|chunk| Some((chunk, chunk.row?))) {
            self.same.add(&mut self.out, self.id, SameRun { first, count: channels.len(), row });
            return Ok(Arc::clone(chunk));
        }
        let homes = (first..).zip(channels).map(|(index, channel)| {
            let value = slots.get(index).filter(|_| channel.channel.managed().is_none());
            value.map_or(Ok(Home::Nowhere), |value| self.channel(index, channel, value))
        });
        Ok(Chunk::new(homes.collect::<Result<_, _>>()?))
    }

    fn channel(
        &mut self,
        index: usize,
        channel: &ChannelPlan,
        value: &Value,
    ) -> Result<Home, EngineError> {
        let before = self.since.and_then(|delta_base| delta_base.before(index));
        let one = One { id: self.id, index, channel, value, before };
        if let Some((row, home)) = one.unchanged() {
            self.same.add(&mut self.out, self.id, SameRun { first: index, count: 1, row });
            return Ok(home.clone());
        }
        // Changes of a list refer to a row that has it as a list, which inputs do not.
        if let Some(row) = self.inputs.has(index, value)
            && one.items().is_none()
        {
            self.same.add(&mut self.out, self.id, SameRun { first: index, count: 1, row });
            return Ok(Home::At(row));
        }
        self.same.end(&mut self.out, self.id);
        one.write(&mut self.out)
    }
}

/// Consecutive unchanged channels whose values are in the same row.
#[derive(Default)]
struct Same(Option<SameRun>);

/// Unchanged channels from `first` on, whose values are in `row`.
struct SameRun {
    first: usize,
    count: usize,
    row: CheckpointId,
}

impl Same {
    /// Adds unchanged channels that follow those before.
    fn add(&mut self, out: &mut Writer, id: CheckpointId, next: SameRun) {
        match &mut self.0 {
            Some(run) if run.row == next.row && run.first + run.count == next.first => {
                run.count += next.count;
            }
            _ => {
                self.end(out, id);
                self.0 = Some(next);
            }
        }
    }

    fn end(&mut self, out: &mut Writer, id: CheckpointId) {
        if let Some(SameRun { first, count, row }) = self.0.take() {
            out.count(first + 1);
            out.byte(tag::AT);
            out.number(id.0.wrapping_sub(row.0));
            out.count(count - 1);
        }
    }
}

/// The pending input of the row before, in the order of channels, which typed inputs have.
struct Inputs<'a> {
    row: Option<CheckpointId>,
    writes: &'a [(ChannelIdx, Write)],
}

impl<'a> Inputs<'a> {
    fn of(since: Option<&'a DeltaBase>) -> Self {
        let input = since.and_then(|delta_base| {
            Some((delta_base.id, delta_base.input.as_ref()?.writes.as_ref()?))
        });
        let (row, writes) = match input {
            Some((id, output)) => (Some(id), output.writes.as_slice()),
            None => (None, [].as_slice()),
        };
        Self { row, writes }
    }

    /// The row of the input, if a channel's value is the one that the input wrote.
    fn has(&mut self, index: usize, value: &Value) -> Option<CheckpointId> {
        while let [(written, _), rest @ ..] = self.writes
            && written.0 < index
        {
            self.writes = rest;
        }
        match self.writes {
            [(written, Write::Typed(input)), ..] if written.0 == index && input.is(value) => {
                self.row
            }
            _ => None,
        }
    }
}

/// A channel of a row that is being written.
struct One<'a> {
    id: CheckpointId,
    index: usize,
    channel: &'a ChannelPlan,
    value: &'a Value,
    before: Option<(&'a Value, &'a Home)>,
}

impl<'a> One<'a> {
    /// The location of the value, if it is unchanged.
    fn unchanged(&self) -> Option<(CheckpointId, &'a Home)> {
        let (_, home) = self.before.filter(|(before, _)| before.is(self.value))?;
        Some((home.row()?, home))
    }

    fn write(&self, out: &mut Writer) -> Result<Home, EngineError> {
        out.count(self.index + 1);
        if let Some((before, Home::List(list))) = self.before
            && let Some(list) = self.write_change(out, before, list)?
        {
            return Ok(Home::List(Arc::new(list)));
        }
        out.byte(tag::VALUE);
        let mut len = 0;
        let write = |bytes: &mut Vec<u8>| {
            let written = self.channel.channel.write_value(self.value, bytes);
            len = bytes.len();
            written
        };
        out.value(write).map_err(|reason| self.bad(reason))?;
        Ok(match self.items().is_some() {
            true => Home::List(Arc::new(ListHome::whole((self.id, self.value.clone())))),
            false if len <= REPEATED_MAX => Home::Every,
            false => Home::At(self.id),
        })
    }

    /// Writes the changes of a list; returns `None` if the whole list is to be written.
    fn write_change(
        &self,
        out: &mut Writer,
        before: &Value,
        list: &ListHome,
    ) -> Result<Option<ListHome>, EngineError> {
        // Changes since the base if there are enough of them, otherwise since the row before.
        let from_base = list.tail.len() >= TAIL_MAX;
        if from_base && self.items().is_none_or(|items| list.is_worn(items)) {
            return Ok(None);
        }
        let older = if from_base { &list.base.1 } else { before };
        let mut patch = Vec::new();
        let patched = self.channel.channel.write_patch(older, self.value, &mut patch);
        if !patched.map_err(|reason| self.bad(reason))? {
            return Ok(None);
        }
        out.byte(if from_base { tag::REPEAT } else { tag::PATCH });
        self.row(out, list.base.0);
        let mut last = list.base.0;
        if from_base {
            out.count(list.older.len());
            for row in &*list.older {
                out.number(last.0.wrapping_sub(row.0));
                last = *row;
            }
        } else {
            out.count(list.tail.len());
            for row in &*list.tail {
                out.number(row.0.wrapping_sub(last.0));
                last = *row;
            }
        }
        let split = patch::items_at(&patch);
        out.value_of_parts(&patch, split).map_err(|reason| self.bad(reason))?;
        Ok(Some(if from_base {
            let older = std::iter::once(list.base.0).chain(list.older.iter().copied());
            let older = older.take(OLDER_MAX).collect();
            let repeats = list.repeats + 1;
            ListHome { older, repeats, ..ListHome::whole((self.id, self.value.clone())) }
        } else {
            let mut tail = Arc::clone(&list.tail);
            Arc::make_mut(&mut tail).push(self.id);
            ListHome { tail, ..list.clone() }
        }))
    }

    /// Number of items, if the value is a list.
    fn items(&self) -> Option<usize> {
        self.channel.channel.items(self.value)
    }

    /// Writes the distance to another row, which is usually close.
    fn row(&self, out: &mut Writer, row: CheckpointId) {
        out.number(self.id.0.wrapping_sub(row.0));
    }

    fn bad(&self, reason: String) -> EngineError {
        EngineError::BadValue { channel: self.channel.name.clone(), reason }
    }
}
