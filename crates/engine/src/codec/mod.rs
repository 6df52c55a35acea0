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
mod encode;
mod load;
mod output;
#[cfg(test)]
mod tests;

pub use crate::binary::{
    ExternalRefs, INLINE_MAX, REPEATS_MAX, Reader, ReferenceRow, RowSlice, Stored, Text, VERSION,
    ValueLocation, Writer,
};
pub use crate::plan::{Layout, LayoutId, Mapped};
pub use encode::encode;
pub use load::{Loaded, Loader, Wants};
pub use output::{OutputReader, read_output, write_output};

use crate::channel::Messages;
use crate::error::EngineError;
use crate::list::List;
use crate::pregel::Machine;
use crate::task::TaskOutput;
use crate::value::{CHUNK, Slots, Value};
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
