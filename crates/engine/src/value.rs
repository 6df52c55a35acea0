//! Values of channels: shared, typed by their creators, opaque to the machine.

use std::any::Any;
use std::sync::Arc;

/// A channel's value. Clones share it; it is immutable.
#[derive(Clone)]
pub struct Value(Arc<dyn Any + Send + Sync>);

impl Value {
    /// Wraps a value.
    #[must_use]
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The value, if it has that type.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// `true` if both are the same allocation; equal values are not enough.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The value itself if it is not shared, otherwise a clone.
    #[must_use]
    pub fn take<T: Clone + Send + Sync + 'static>(self) -> Option<T> {
        self.0.downcast::<T>().ok().map(Arc::unwrap_or_clone)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(..)")
    }
}

/// A single write of a task to one channel.
#[derive(Debug, Clone)]
pub enum Write {
    /// A value of the type that the channel's reducer accepts.
    Typed(Value),
    /// A value as JSON: from outside, or read from a store.
    Json(Box<serde_json::Value>),
    /// Replaces the channel's value without its reducer; the other writes of the superstep are
    /// dropped. The inner value has the channel's own type.
    Overwrite(Box<serde_json::Value>),
}

impl Write {
    /// Wraps a typed value.
    #[must_use]
    pub fn typed<T: Send + Sync + 'static>(value: T) -> Self {
        Self::Typed(Value::new(value))
    }

    /// Wraps JSON.
    #[must_use]
    pub fn json(json: serde_json::Value) -> Self {
        Self::Json(Box::new(json))
    }

    /// Wraps JSON that replaces the channel's value.
    #[must_use]
    pub fn overwrite(json: serde_json::Value) -> Self {
        Self::Overwrite(Box::new(json))
    }
}

/// Number of slots that are copied when one of them changes.
pub(crate) const CHUNK: usize = 8;

/// A state: one slot per channel, in the order of the plan. Clones share it; a change of a shared
/// state copies the chunk with the slot.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Most states have a single chunk.
    first: Chunk,
    rest: Option<Arc<Vec<Chunk>>>,
    len: usize,
}

type Chunk = Arc<[Option<Value>; CHUNK]>;

impl Default for Slots {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Slots {
    /// A state from its slots.
    #[must_use]
    pub fn new(slots: Vec<Option<Value>>) -> Self {
        let len = slots.len();
        let mut slots = slots.into_iter();
        let mut chunk = || Arc::new(std::array::from_fn(|_| slots.next().flatten()));
        let first = chunk();
        let rest: Vec<_> = (1..len.div_ceil(CHUNK)).map(|_| chunk()).collect();
        let rest = (!rest.is_empty()).then(|| Arc::new(rest));
        Self { first, rest, len }
    }

    /// The value in a slot.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Value> {
        let chunk = match index / CHUNK {
            0 => &self.first,
            n => self.rest.as_ref()?.get(n - 1)?,
        };
        chunk.get(index % CHUNK)?.as_ref()
    }

    /// `true` if the chunk of this number is shared with the other state.
    pub(crate) fn shares(&self, other: &Self, number: usize) -> bool {
        let chunk = |slots: &'_ Self| -> Option<*const [Option<Value>; CHUNK]> {
            match number {
                0 => Some(Arc::as_ptr(&slots.first)),
                n => slots.rest.as_ref()?.get(n - 1).map(Arc::as_ptr),
            }
        };
        chunk(self).is_some() && chunk(self) == chunk(other)
    }

    /// `true` if both states share the same allocations; equal values are not enough.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let rest = match (&self.rest, &other.rest) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        rest && Arc::ptr_eq(&self.first, &other.first)
    }

    /// Number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `true` if there are no slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots that are copied together, for changes, and the first one's index.
    pub(crate) fn chunk_with(&mut self, index: usize) -> (usize, &mut [Option<Value>]) {
        let number = index / CHUNK;
        let chunk = match number {
            0 => Some(&mut self.first),
            n => self.rest.as_mut().and_then(|rest| Arc::make_mut(rest).get_mut(n - 1)),
        };
        (number * CHUNK, chunk.map_or(&mut [], |chunk| Arc::make_mut(chunk).as_mut_slice()))
    }

    pub(crate) fn set(&mut self, index: usize, value: Option<Value>) {
        let (first, slots) = self.chunk_with(index);
        if let Some(slot) = slots.get_mut(index - first) {
            *slot = value;
        }
    }
}
