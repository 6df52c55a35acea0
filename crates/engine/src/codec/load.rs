//! Decoding of checkpoints, which requests the other rows and blobs that it needs.

use super::output::OutputReader;
use super::{
    Chunk, DeltaBase, Home, ListHome, OLDER_MAX, REPEATED_MAX, TAIL_MAX, control, open_row, output,
    tag,
};
use crate::binary::{ExternalRefs, Reader, RowSlice, Stored, ValueLocation};
use crate::error::EngineError;
use crate::plan::{ChannelPlan, Layout, Mapped, Plan};
use crate::pregel::Machine;
use crate::value::{CHUNK, Slots, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::Hash;

/// A checkpoint that is being decoded. The caller supplies what it [`wants`](Self::wants) until
/// that is empty.
#[derive(Debug)]
pub struct Loader {
    plan: Arc<Plan>,
    id: CheckpointId,
    row: Vec<u8>,
    mapped: Mapped,
    parts: BTreeMap<usize, Part>,
    blobs: BTreeMap<Hash, Vec<u8>>,
    wanted: BTreeSet<Hash>,
    /// Rows with slices that are values.
    texts: BTreeMap<CheckpointId, Vec<u8>>,
    wanted_texts: BTreeSet<CheckpointId>,
    /// The blobs that the control state references.
    named: ExternalRefs,
}

/// The rows and values that a load needs to continue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wants {
    /// Rows of the same graph.
    pub rows: Vec<CheckpointId>,
    /// Blobs.
    pub blobs: Vec<Hash>,
}

impl Wants {
    /// `true` if nothing is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.blobs.is_empty()
    }
}

/// A decoded checkpoint.
#[derive(Debug)]
pub struct Loaded {
    /// The state, and the nodes that are due.
    pub machine: Machine,
    /// The base for the next checkpoint.
    pub delta_base: DeltaBase,
}

#[derive(Debug, Clone)]
enum Bytes {
    Inline(Vec<u8>),
    Blob(Hash),
    /// These bytes, followed by a slice of the row with this id.
    RowSlice(Vec<u8>, CheckpointId, RowSlice),
}

/// The form in which a row gives a channel's value.
#[derive(Debug)]
enum Given {
    Whole(Bytes),
    At(CheckpointId),
    Patch {
        base: CheckpointId,
        tail: Vec<CheckpointId>,
        patch: Bytes,
    },
    /// The repeated changes of a row, and the earlier rows of this kind that it names.
    Repeat {
        base: CheckpointId,
        older: Vec<CheckpointId>,
        patch: Bytes,
    },
}

/// The handling of rows that are named only for reading ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    Read,
    /// Enough such rows are known.
    Skip,
}

/// The rows and changes read so far for one channel.
#[derive(Debug, Default)]
struct Part {
    /// The row to be read next.
    next: Option<CheckpointId>,
    /// Rows of which only the change is needed.
    tail: BTreeSet<CheckpointId>,
    /// Changes by their rows.
    changes: BTreeMap<CheckpointId, Bytes>,
    /// The value that the changes apply to, and its row.
    whole: Option<(CheckpointId, Bytes)>,
    /// The base of the resulting list, and the rows after it.
    home: Option<(CheckpointId, Vec<CheckpointId>)>,
    /// The rows that the base names.
    older: Vec<CheckpointId>,
    /// The rows that will be needed, the newest first.
    soon: Vec<CheckpointId>,
}

impl Part {
    fn wants(&self) -> impl Iterator<Item = CheckpointId> {
        self.next.iter().chain(&self.tail).copied()
    }

    /// Adds the channel's part of a row. Rows refer to older rows only, so this terminates.
    fn take(&mut self, id: CheckpointId, given: Given) -> Result<(), EngineError> {
        let astray = EngineError::Damaged { at: 0, expected: "an older row that has the value" };
        let in_tail = self.tail.remove(&id);
        match given {
            Given::Patch { patch, .. } if in_tail => {
                self.changes.insert(id, patch);
            }
            Given::Whole(bytes) if !in_tail => {
                self.home.get_or_insert_with(|| (id, Vec::new()));
                self.whole = Some((id, bytes));
                self.next = None;
            }
            Given::At(row) if self.changes.is_empty() && row < id => self.next = Some(row),
            Given::Patch { base, tail, patch } if !in_tail && base < id => {
                if self.home.is_some() || tail.iter().any(|row| *row <= base || *row >= id) {
                    return Err(astray);
                }
                self.home = Some((base, tail.iter().copied().chain([id]).collect()));
                self.tail.extend(tail);
                self.changes.insert(id, patch);
                self.next = Some(base);
            }
            Given::Repeat { base, older, patch } if !in_tail && base < id => {
                let (home, _) = self.home.get_or_insert_with(|| (id, Vec::new()));
                if *home == id {
                    self.older = std::iter::once(base).chain(older.iter().copied()).collect();
                    self.older.truncate(OLDER_MAX);
                }
                if !self.looks_beyond(id) {
                    self.soon = older;
                }
                self.changes.insert(id, patch);
                self.next = Some(base);
            }
            _ => return Err(astray),
        }
        Ok(())
    }

    /// The bytes from the row with an id.
    fn bytes(&self, of: CheckpointId) -> impl Iterator<Item = &Bytes> {
        let whole = self.whole.as_ref().filter(|(id, _)| *id == of).map(|(_, bytes)| bytes);
        self.changes.get(&of).into_iter().chain(whole)
    }

    /// `true` if older rows are known that will be needed after this one.
    fn looks_beyond(&self, id: CheckpointId) -> bool {
        self.soon.last().is_some_and(|oldest| *oldest < id)
    }
}

impl Loader {
    /// Creates a loader from the checkpoint's own row and the layout that the row names.
    ///
    /// # Errors
    /// [`EngineError::Damaged`], [`EngineError::NewerRecord`]; [`EngineError::OtherBuild`] for a
    /// channel of another kind.
    pub fn new(
        plan: &Arc<Plan>,
        id: CheckpointId,
        row: Vec<u8>,
        layout: &Layout,
    ) -> Result<Self, EngineError> {
        let mapped = layout.mapped(plan)?;
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        let (_, mut read) = open_row(&row)?;
        read.bytes()?;
        for (index, given) in read_channels(&mut read, plan, &mapped, id, Older::Read)? {
            parts.entry(index).or_default().take(id, given)?;
        }
        // A trial read without the blobs collects their hashes.
        let named = RefCell::new(ExternalRefs::default());
        let note = |place| match place {
            ValueLocation::Blob(hash) => {
                named.borrow_mut().note(hash);
                Some(b"null".to_vec())
            }
            ValueLocation::RowSlice(_) => None,
        };
        control::read(&mut read, plan, &OutputReader { plan, mapped: &mapped, elsewhere: &note })?;
        if !read.is_empty() {
            return Err(read.damaged("the end"));
        }
        let named = named.into_inner();
        let wanted = named.hashes().collect();
        let plan = Arc::clone(plan);
        let blobs = BTreeMap::new();
        let texts = BTreeMap::new();
        let wanted_texts = BTreeSet::new();
        let mut loader =
            Self { plan, id, row, mapped, parts, blobs, wanted, texts, wanted_texts, named };
        loader.want_others(id);
        Ok(loader)
    }

    /// The rows and values needed to continue; empty when [`finish`](Self::finish) may be called.
    #[must_use]
    pub fn wants(&self) -> Wants {
        let rows = self.parts.values().flat_map(Part::wants);
        let rows: BTreeSet<_> = rows.chain(self.wanted_texts.iter().copied()).collect();
        let rows = rows.into_iter().collect();
        let blobs = self.wanted.iter().copied().collect();
        Wants { rows, blobs }
    }

    /// The known rows that it will request after those it [`wants`](Self::wants), and which are
    /// best read together with them. Some may be among those.
    pub fn soon(&self) -> impl Iterator<Item = CheckpointId> {
        self.parts.values().flat_map(|part| {
            let is_left = |row: &CheckpointId| part.next.is_some_and(|next| *row < next);
            part.soon.iter().copied().filter(is_left)
        })
    }

    /// Adds a requested row, and the layout that the row names.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn row(
        &mut self,
        id: CheckpointId,
        row: &[u8],
        layout: &Layout,
    ) -> Result<(), EngineError> {
        if self.wanted_texts.remove(&id) {
            self.texts.insert(id, row.to_vec());
        }
        let (_, mut read) = open_row(row)?;
        read.bytes()?;
        let mapped = layout.mapped(&self.plan)?;
        let mut wanting = self.parts.values().filter(|part| part.wants().any(|row| row == id));
        let is_known = wanting.all(|part| part.looks_beyond(id));
        let older = if is_known { Older::Skip } else { Older::Read };
        let given = read_channels(&mut read, &self.plan, &mapped, id, older)?;
        let mut given: BTreeMap<_, _> = given.into_iter().collect();
        let mut inputs = None;
        for (index, part) in &mut self.parts {
            if part.wants().all(|wanted| wanted != id) {
                continue;
            }
            let found = match given.remove(index) {
                Some(given) => Some(given),
                None => {
                    if inputs.is_none() {
                        inputs = Some(inputs_of(&mut read, &self.plan, &mapped, id)?);
                    }
                    inputs.as_mut().and_then(|inputs| inputs.remove(index))
                }
            };
            let missing = || read.damaged("the channel that the row is named for");
            part.take(id, found.ok_or_else(missing)?)?;
        }
        self.want_others(id);
        Ok(())
    }

    /// Adds a requested blob. The caller checks its hash.
    pub fn blob(&mut self, hash: Hash, bytes: Vec<u8>) {
        self.wanted.remove(&hash);
        self.blobs.insert(hash, bytes);
    }

    /// Requests the values that a row references: blobs, and slices of other rows.
    fn want_others(&mut self, of: CheckpointId) {
        for bytes in self.parts.values().flat_map(|part| part.bytes(of)) {
            match bytes {
                Bytes::Blob(hash) if !self.blobs.contains_key(hash) => {
                    self.wanted.insert(*hash);
                }
                Bytes::RowSlice(_, row, _) if !self.texts.contains_key(row) => {
                    self.wanted_texts.insert(*row);
                }
                _ => {}
            }
        }
    }

    /// Returns the checkpoint, after everything requested was added.
    ///
    /// # Errors
    /// [`EngineError::BadStored`] for a value that the channel does not accept,
    /// [`EngineError::LostNode`] if a due node does not exist any more.
    pub fn finish(self) -> Result<Loaded, EngineError> {
        let plan = Arc::clone(&self.plan);
        self.named.check(|hash| self.blobs.get(&hash).map_or(0, Vec::len))?;
        let known = |place| match place {
            ValueLocation::Blob(hash) => self.blobs.get(&hash).cloned(),
            ValueLocation::RowSlice(_) => None,
        };
        let with = OutputReader { plan: &plan, mapped: &self.mapped, elsewhere: &known };
        let (_, mut read) = open_row(&self.row)?;
        read.bytes()?;
        read_channels(&mut read, &plan, &self.mapped, self.id, Older::Skip)?;
        let control = control::read(&mut read, &plan, &with)?;
        let mut slots = vec![None; plan.channels.len()];
        let mut homes = vec![Home::Nowhere; plan.channels.len()];
        for (index, channel) in plan.channels.iter().enumerate() {
            let (value, home) = match self.parts.get(&index) {
                Some(part) => self.value(part, channel)?,
                None if self.mapped.knows(&channel.name) => (None, Home::Nowhere),
                None => (channel.channel.initial(), Home::Nowhere),
            };
            if let (Some(slot), Some(place)) = (slots.get_mut(index), homes.get_mut(index)) {
                (*slot, *place) = (value, home);
            }
        }
        let slots = Slots::new(slots);
        let layout = plan.layout().id();
        let homes = homes.chunks(CHUNK).map(|homes| Chunk::new(homes.iter().cloned().collect()));
        let slots_there = slots.clone();
        let homes = homes.collect();
        // A pending input was read from JSON, so no value shares its allocation.
        let delta_base = DeltaBase { id: self.id, layout, slots: slots_there, homes, input: None };
        Ok(Loaded { machine: Machine::from_parts(plan, slots, control), delta_base })
    }

    fn bytes<'a>(&'a self, bytes: &'a Bytes) -> Result<Cow<'a, [u8]>, String> {
        match bytes {
            Bytes::Inline(bytes) => Ok(Cow::Borrowed(bytes)),
            Bytes::Blob(hash) => {
                let missing = || format!("its bytes of hash `{hash}` are missing");
                Ok(Cow::Borrowed(self.blobs.get(hash).ok_or_else(missing)?))
            }
            Bytes::RowSlice(head, row, there) => {
                let found = self.texts.get(row).and_then(|row| there.of(row));
                let missing = || format!("row `{row}`, which has it, is too short");
                Ok(Cow::Owned([head, found.ok_or_else(missing)?].concat()))
            }
        }
    }

    fn value(
        &self,
        part: &Part,
        channel: &ChannelPlan,
    ) -> Result<(Option<Value>, Home), EngineError> {
        let bad = |reason| EngineError::BadStored { channel: channel.name.clone(), reason };
        let (Some((row, whole)), Some((base, tail))) = (&part.whole, &part.home) else {
            return Err(bad("its rows are missing".to_owned()));
        };
        let whole = self.bytes(whole).map_err(bad)?;
        let mut value = channel.channel.read_value(&whole).map_err(bad)?;
        if channel.channel.items(&value).is_none() {
            let every = *row == self.id && whole.len() <= REPEATED_MAX;
            return Ok((Some(value), if every { Home::Every } else { Home::At(*row) }));
        }
        let mut at_base = (base == row).then(|| value.clone());
        for (row, patch) in &part.changes {
            value = self
                .bytes(patch)
                .and_then(|patch| channel.channel.patched(value, &patch))
                .map_err(bad)?;
            if row == base {
                at_base = Some(value.clone());
            }
        }
        let at_base = at_base.ok_or_else(|| bad("its rows are missing".to_owned()))?;
        let repeats = part.changes.range(..=base).count();
        let older = part.older.clone().into();
        let tail = Arc::new(tail.clone());
        let list = ListHome { base: (*base, at_base), older, repeats, tail };
        Ok((Some(value), Home::List(Arc::new(list))))
    }
}

/// Reads the channels of a row that this build has.
fn read_channels(
    read: &mut Reader<'_>,
    plan: &Plan,
    mapped: &Mapped,
    id: CheckpointId,
    rows: Older,
) -> Result<Vec<(usize, Given)>, EngineError> {
    let mut all = Vec::new();
    let mut next = 0usize;
    loop {
        let number: usize = read.number()?;
        if number == usize::from(tag::END) {
            return Ok(all);
        }
        let index = number - 1;
        // At most as many parts are read as there are channels.
        if index < next {
            return Err(read.damaged("channels in order"));
        }
        next = number;
        let channel = mapped.channel(plan, index, read)?;
        let given = match read.byte()? {
            tag::VALUE => Given::Whole(read_value(read, id)?),
            tag::AT => {
                let row = read_row_id(read, id)?;
                all.extend(channel.map(|channel| (channel.0, Given::At(row))));
                let more: usize = read.number()?;
                for index in (next..).take(more) {
                    let channel = mapped.channel(plan, index, read)?;
                    all.extend(channel.map(|channel| (channel.0, Given::At(row))));
                }
                next = next.saturating_add(more);
                continue;
            }
            tag::PATCH => {
                let base = read_row_id(read, id)?;
                let mut last = base;
                let count = read.count()?;
                let mut tail = Vec::with_capacity(count.min(TAIL_MAX));
                for _ in 0..count {
                    last = CheckpointId(last.0.wrapping_add(read.wide()?));
                    tail.push(last);
                }
                Given::Patch { base, tail, patch: read_value(read, id)? }
            }
            tag::REPEAT => {
                let base = read_row_id(read, id)?;
                let older = read_older_rows(read, base, rows)?;
                Given::Repeat { base, older, patch: read_value(read, id)? }
            }
            _ => return Err(read.damaged("how a channel is given")),
        };
        all.extend(channel.map(|index| (index.0, given)));
    }
}

/// Reads the rows that a row with repeated changes names in addition to its base.
fn read_older_rows(
    read: &mut Reader<'_>,
    base: CheckpointId,
    rows: Older,
) -> Result<Vec<CheckpointId>, EngineError> {
    let count = read.count()?;
    let named = if rows == Older::Read { count.min(OLDER_MAX) } else { 0 };
    let mut older = Vec::with_capacity(named);
    let mut last = base;
    for _ in 0..named {
        last = CheckpointId(last.0.wrapping_sub(read.wide()?));
        older.push(last);
    }
    read.skip_numbers(count - named)?;
    Ok(older)
}

/// Reads the values that the input of a row writes to the channels of this build.
fn inputs_of(
    read: &mut Reader<'_>,
    plan: &Plan,
    mapped: &Mapped,
    id: CheckpointId,
) -> Result<BTreeMap<usize, Given>, EngineError> {
    let mut found = BTreeMap::new();
    if control::find_writes(read)? {
        for (number, stored) in output::read_writes(read)? {
            let channel = mapped.channel(plan, number, read)?;
            found.extend(channel.map(|channel| (channel.0, Given::Whole(value_bytes(stored, id)))));
        }
    }
    Ok(found)
}

fn read_row_id(read: &mut Reader<'_>, id: CheckpointId) -> Result<CheckpointId, EngineError> {
    Ok(CheckpointId(id.0.wrapping_sub(read.wide()?)))
}

fn read_value(read: &mut Reader<'_>, id: CheckpointId) -> Result<Bytes, EngineError> {
    read.value().map(|stored| value_bytes(stored, id))
}

/// Reads a value of the row with an id.
fn value_bytes(stored: Stored<'_>, id: CheckpointId) -> Bytes {
    match stored {
        Stored::Inline(bytes) => Bytes::Inline(bytes.to_vec()),
        Stored::Blob(hash) => Bytes::Blob(hash),
        Stored::RowSlice(head, there) => {
            Bytes::RowSlice(head.to_vec(), CheckpointId(id.0.wrapping_sub(there.off)), there)
        }
    }
}
