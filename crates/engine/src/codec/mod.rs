//! The format of checkpoints: rows of bytes, each relative to the row before it.
//!
//! A row has the control state, which decides the next superstep, and for each channel its value or
//! a reference: to the row that has the value if it did not change, and for a list to the row of
//! its last change, which has only the change. So the size of a row does not grow with the thread.
//! After [`TAIL_MAX`] changes of a list, a row repeats the changes since the last such row as one
//! patch, and later rows refer to it; reading a list takes one in [`TAIL_MAX`] of the rows that
//! changed it, and the last few. A list that changed more often than it has items is written as a
//! whole again, so that the cost of reading does not grow if the list does not. Rows are immutable:
//! a branch of a thread refers to the rows that it shares.
//!
//! Values that the input writes are not written again: a channel with such a value refers to the
//! row of the input, and a change with the same bytes as a part of that row refers to this part.
//!
//! Values are JSON text. Names are in the [`Layout`], whose id is in the row.

mod control;
mod load;
mod output;
#[cfg(test)]
mod tests;

pub use crate::binary::{
    ExternalRefs, INLINE_MAX, REPEATS_MAX, Reader, ReferenceRow, RowSlice, Stored, Text, VERSION,
    ValueLocation, Writer,
};
pub use crate::plan::{Layout, LayoutId, Mapped};
pub use load::{Loaded, Loader, Wants};
pub use output::{OutputReader, read_output, write_output};

use crate::channel::{Messages, patch};
use crate::error::EngineError;
use crate::list::List;
use crate::plan::{ChannelIdx, ChannelPlan};
use crate::pregel::{Machine, StartInput};
use crate::task::TaskOutput;
use crate::value::{CHUNK, Slots, Value, Write};
use smallvec::SmallVec;
use std::sync::Arc;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::Hash;
use weftwork_types::message::Message;

/// Maximum number of changes of a list between two rows that repeat changes.
pub const TAIL_MAX: usize = 16;

/// Maximum number of earlier rows with repeated changes that such a row names, so that they can be
/// read together.
const OLDER_MAX: usize = 64;

/// Initial capacity of a row in bytes; most rows are shorter.
const ROOM: usize = 256;

/// Maximum length in bytes of values that are written again instead of referenced.
const REPEATED_MAX: usize = 24;

/// Tags for the form of a channel's value. Channels are written in order, each as its number plus
/// one.
mod tag {
    /// The end of the channels.
    pub(super) const END: u8 = 0;
    pub(super) const VALUE: u8 = 0;
    /// This channel and a number of following channels are in one earlier row.
    pub(super) const AT: u8 = 1;
    pub(super) const PATCH: u8 = 2;
    pub(super) const REPEAT: u8 = 3;
}

/// Base for the delta encoding of the next checkpoint.
#[derive(Debug, Clone)]
pub struct DeltaBase {
    id: CheckpointId,
    layout: LayoutId,
    slots: Slots,
    homes: Homes,
    /// The pending input of the checkpoint.
    input: Option<Input>,
}

/// A pending input of a checkpoint. Values that are unchanged from it are not written again.
#[derive(Debug, Clone)]
struct Input {
    writes: Option<Arc<TaskOutput>>,
    /// The row of the input, if values are searched in it.
    text: Option<Text>,
}

/// The location of a channel's value.
#[derive(Debug, Clone, Default)]
enum Home {
    /// The channel has no value.
    #[default]
    Nowhere,
    /// Written again in each row.
    Every,
    /// In the row with this id.
    At(CheckpointId),
    /// A list that is the result of changes.
    List(Arc<ListHome>),
}

/// The locations of the values of channels, in chunks like the slots.
type Homes = SmallVec<[Arc<Chunk>; 1]>;

#[derive(Debug)]
struct Chunk {
    homes: [Home; CHUNK],
    /// The row that all of them refer to.
    row: Option<CheckpointId>,
}

impl Chunk {
    /// Creates a chunk; at the end of a state it may have fewer channels.
    fn new(homes: SmallVec<[Home; CHUNK]>) -> Arc<Self> {
        let row = homes.first().and_then(Home::row);
        let row = row.filter(|row| homes.iter().all(|home| home.row() == Some(*row)));
        let mut homes = homes.into_iter();
        Arc::new(Self { homes: std::array::from_fn(|_| homes.next().unwrap_or_default()), row })
    }
}

/// The location of a list.
#[derive(Debug, Clone)]
struct ListHome {
    /// The row that repeats earlier changes or has the whole list, and the list at that row.
    base: (CheckpointId, Value),
    /// The earlier rows of this kind that it names, the newest first.
    older: Arc<[CheckpointId]>,
    /// Number of rows that repeat changes, from the one with the whole list to the base.
    repeats: usize,
    /// The rows with the changes since the base.
    tail: Arc<Vec<CheckpointId>>,
}

impl ListHome {
    /// Creates the location of a list without changes since its base.
    fn whole(base: (CheckpointId, Value)) -> Self {
        Self { base, older: Arc::new([]), repeats: 0, tail: Arc::default() }
    }

    /// Returns `true` if most changes since the whole list concern removed items: a list that only
    /// grows has at least one item for each change.
    fn is_worn(&self, items: usize) -> bool {
        self.repeats * TAIL_MAX > items + TAIL_MAX
    }
}

impl Home {
    /// The row to read first.
    fn row(&self) -> Option<CheckpointId> {
        match self {
            Self::Nowhere | Self::Every => None,
            Self::At(id) => Some(*id),
            Self::List(list) => Some(list.tail.last().copied().unwrap_or(list.base.0)),
        }
    }
}

/// An encoded checkpoint.
#[derive(Debug)]
pub struct Encoded {
    /// The row.
    pub bytes: Vec<u8>,
    /// The blobs of the row, by the hash of their bytes.
    pub blobs: Vec<(Hash, Vec<u8>)>,
    /// The base for the next checkpoint.
    pub delta_base: DeltaBase,
}

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

/// Reads the layout id of a row, and returns a reader of the bytes after it.
///
/// # Errors
/// [`EngineError::Damaged`], [`EngineError::NewerRecord`].
pub fn open_row(bytes: &[u8]) -> Result<(LayoutId, Reader<'_>), EngineError> {
    open_row_upto(VERSION, bytes)
}

/// Reads the layout id of a row with a format up to `known`.
///
/// # Errors
/// As [`open_row`].
pub fn open_row_upto(known: u8, bytes: &[u8]) -> Result<(LayoutId, Reader<'_>), EngineError> {
    let mut read = Reader::new(bytes);
    let found = read.byte()?;
    if found > known {
        return Err(EngineError::NewerRecord { found, known });
    }
    if found == 0 {
        return Err(EngineError::Damaged { at: 0, expected: "the format, from 1" });
    }
    let layout = LayoutId::read(&mut read)?;
    Ok((layout, read))
}

impl Machine {
    /// The messages of conversations that are new or changed since a checkpoint. Takes time
    /// proportional to the changes.
    #[must_use]
    pub fn messages_since(&self, delta_base: Option<&DeltaBase>) -> Vec<Message> {
        let mut found = Vec::new();
        for (index, channel) in self.plan().channels.iter().enumerate() {
            if channel.channel.kind() != Messages::KIND {
                continue;
            }
            let of = |value: &Value| value.get::<List<Message>>().cloned();
            let Some(list) = self.slots().get(index).and_then(of) else { continue };
            let older = delta_base.and_then(|delta_base| delta_base.slots.get(index)).and_then(of);
            let older = older.unwrap_or_default();
            for message in list.ranges_since(&older).into_iter().flatten().map(|at| list.get(at)) {
                let Some(message) = message else { continue };
                let known = older.position_of(&message.id).and_then(|at| older.get(at));
                found.extend(known.is_none_or(|known| known != message).then(|| message.clone()));
            }
        }
        found
    }
}

impl DeltaBase {
    /// The id of the checkpoint.
    #[must_use]
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// A channel's value and its location.
    fn before(&self, index: usize) -> Option<(&Value, &Home)> {
        let chunk = self.homes.get(index / CHUNK)?;
        self.slots.get(index).zip(chunk.homes.get(index % CHUNK))
    }
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
