//! Values that nodes and tools take by type.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Values by type, at most one of each: clients, databases, configuration. Nodes and tools take
/// them with their extractors `Deps<T>`. Clones share the values.
///
/// ```
/// use weftwork_types::port::Dependencies;
///
/// #[derive(Debug, PartialEq)]
/// struct Region(&'static str);
///
/// let values = Dependencies::new().with(Region("north")).with(Region("south"));
/// assert_eq!(values.get::<Region>().as_deref(), Some(&Region("south")));
/// assert_eq!(values.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Dependencies(Arc<BTreeMap<TypeId, Slot>>);

/// A type, and its value unless each run has one of its own.
#[derive(Clone)]
struct Slot {
    type_name: &'static str,
    value: Option<Arc<dyn Any + Send + Sync>>,
}

impl Dependencies {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value, replacing an earlier one of the same type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared(Arc::new(value))
    }

    /// Adds a value that the caller shares.
    #[must_use]
    pub fn with_shared<T: Send + Sync + 'static>(self, value: Arc<T>) -> Self {
        self.insert::<T>(Some(value))
    }

    /// Adds the values and declarations of another collection. Its value replaces one of the same
    /// type.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let slots = Arc::make_mut(&mut self.0);
        for (id, slot) in other.0.iter() {
            if slot.value.is_some() || !slots.contains_key(id) {
                slots.insert(*id, slot.clone());
            }
        }
        self
    }

    /// Declares that each run has a value of this type. A value that was added before remains, for
    /// runs that have none.
    #[must_use]
    pub fn with_run_scoped<T: Send + Sync + 'static>(self) -> Self {
        if self.declares(TypeId::of::<T>()) { self } else { self.insert::<T>(None) }
    }

    fn insert<T: 'static>(mut self, value: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        let slot = Slot { type_name: type_name::<T>(), value };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), slot);
        self
    }

    /// Returns the value of a type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.0.get(&TypeId::of::<T>())?.value.clone()?;
        value.downcast().ok()
    }

    /// Returns `true` if there is a value of this type, or a declaration that each run has one.
    #[must_use]
    pub fn declares(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }

    /// Returns the name of a declared type that neither this collection nor a run has.
    #[must_use]
    pub fn missing_in(&self, run: &Self) -> Option<&'static str> {
        let has = |id| run.0.get(id).is_some_and(|slot| slot.value.is_some());
        let missing = self.0.iter().find(|(id, slot)| slot.value.is_none() && !has(*id));
        missing.map(|(_, slot)| slot.type_name)
    }

    /// Returns `true` if there are no values and no declarations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value of the run, or else of the graph (`Graph::with`) or of the tools (`ToolBox::provide`), as a
/// parameter of nodes and tools. It dereferences to the value.
///
/// ```
/// use weftwork_types::port::Deps;
///
/// struct Database {
///     name: String,
/// }
///
/// async fn pay(order: String, database: Deps<Database>) -> String {
///     format!("{order} is paid, says {}", database.name)
/// }
/// ```
#[derive(Debug)]
pub struct Deps<T>(pub Arc<T>);

impl<T> Clone for Deps<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Deps<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values().map(|slot| slot.type_name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_type_is_missing_unless_the_run_or_the_graph_has_a_value() {
        let graph = Dependencies::new().with(1_u8).with_run_scoped::<u8>().with_run_scoped::<u16>();
        assert_eq!(graph.missing_in(&Dependencies::new()), Some("u16"));
        assert_eq!(graph.missing_in(&Dependencies::new().with(1_u16)), None);
        assert_eq!(graph.missing_in(&graph), Some("u16"), "a declaration is no value");
        assert_eq!(graph.clone().with(2_u16).missing_in(&Dependencies::new()), None);
        assert_eq!((graph.get::<u8>().as_deref(), graph.get::<u16>()), (Some(&1), None));
        assert_eq!(format!("{graph:?}").matches('u').count(), 2);
    }
}
