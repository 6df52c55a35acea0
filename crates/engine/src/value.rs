//! Values as the machine sees them: shared, typed by whoever made them, opaque here.

use std::any::Any;
use std::sync::Arc;

/// A channel's value. Cloning shares it; nothing changes it once it is made.
#[derive(Clone)]
pub struct Value(Arc<dyn Any + Send + Sync>);

impl Value {
    /// Wraps a value.
    #[must_use]
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The value, when it is of that type.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The value itself when nobody else shares it, else a clone of it.
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

/// One write of a task to one channel.
#[derive(Debug, Clone)]
pub enum Write {
    /// A value of the type the channel's reducer takes.
    Typed(Value),
    /// The same as JSON: from outside, or read back from a store.
    Json(serde_json::Value),
    /// Replaces the channel's value whatever its reducer; the other writes of the step are
    /// dropped. The inner value has the channel's own type.
    Overwrite(serde_json::Value),
}

impl Write {
    /// Wraps a typed value.
    #[must_use]
    pub fn typed<T: Send + Sync + 'static>(value: T) -> Self {
        Self::Typed(Value::new(value))
    }
}

/// A state: one slot per channel, in the plan's order. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Slots(Arc<Vec<Option<Value>>>);

impl Slots {
    /// A state from its slots.
    #[must_use]
    pub fn new(slots: Vec<Option<Value>>) -> Self {
        Self(Arc::new(slots))
    }

    /// The value in a slot.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Value> {
        self.0.get(index).and_then(Option::as_ref)
    }

    /// How many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn set(&mut self, index: usize, value: Option<Value>) {
        if let Some(slot) = Arc::make_mut(&mut self.0).get_mut(index) {
            *slot = value;
        }
    }

    pub(crate) fn take(&mut self, index: usize) -> Option<Value> {
        Arc::make_mut(&mut self.0).get_mut(index).and_then(Option::take)
    }
}
