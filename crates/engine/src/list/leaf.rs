//! The leaves of the tree, and the last leaf of a list.

use super::WIDTH;
use std::sync::{Arc, OnceLock};

/// Up to [`WIDTH`] consecutive items. Lists that share a leaf may use different numbers of its
/// items: these items do not change while the leaf is shared, and the next place is taken by the
/// list that pushes first. Items are dropped with their leaf.
pub(super) struct Leaf<T> {
    /// Items pushed while the leaf had a single owner; all owners use all of them.
    own: Vec<T>,
    /// Places for the items after these, allocated by the first push into a shared leaf. Filled
    /// from the front.
    rest: OnceLock<Box<[OnceLock<T>]>>,
}

impl<T> Leaf<T> {
    /// A leaf without items or capacity.
    pub(super) fn new() -> Self {
        Self { own: Vec::new(), rest: OnceLock::new() }
    }

    /// The leaf after a full one, prepared for the same kind of pushes.
    pub(super) fn after(full: &Self) -> Self {
        match full.rest.get() {
            Some(_) => Self { own: Vec::new(), rest: OnceLock::from(empty_cells(WIDTH)) },
            None => Self { own: Vec::with_capacity(WIDTH), rest: OnceLock::new() },
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        match self.own.get(at) {
            None => self.rest.get()?.get(at - self.own.len())?.get(),
            item => item,
        }
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let own = self.own.len();
        match self.own.get_mut(at) {
            None => self.rest.get_mut()?.get_mut(at - own)?.get_mut(),
            item => item,
        }
    }

    /// Adds an item after the first `seen` items, which are all items of the only owner.
    pub(super) fn push(&mut self, seen: usize, item: T) {
        let Some(rest) = self.rest.get_mut() else {
            self.own.push(item);
            return;
        };
        let mut free = rest.iter_mut().skip(seen - self.own.len());
        if let Some(place) = free.next() {
            *place = OnceLock::from(item);
        }
        // Items pushed by dropped lists would block the next push.
        while free.next().is_some_and(|place| place.take().is_some()) {}
    }

    /// Adds an item after the first `seen` items of a leaf that may be shared; returns the item if
    /// another owner has taken the place.
    pub(super) fn push_shared(&self, seen: usize, item: T) -> Result<(), T> {
        let rest = self.rest.get_or_init(|| empty_cells(WIDTH - self.own.len()));
        match rest.get(seen - self.own.len()) {
            Some(place) => place.set(item),
            None => Err(item),
        }
    }
}

impl<T: Clone> Leaf<T> {
    /// The leaf for a change, with at least the first `seen` items; a copy of them if the leaf is
    /// shared.
    pub(super) fn unshared(leaf: &mut Arc<Self>, seen: usize) -> &mut Self {
        if Arc::get_mut(leaf).is_none() {
            *leaf = Arc::new(leaf.first(seen));
        }
        Arc::make_mut(leaf)
    }

    /// A copy of the first items.
    pub(super) fn first(&self, seen: usize) -> Self {
        let own = (0..seen).map_while(|at| self.get(at).cloned()).collect();
        Self { own, rest: OnceLock::new() }
    }
}

impl<T: Clone> Clone for Leaf<T> {
    fn clone(&self) -> Self {
        self.first(WIDTH)
    }
}

fn empty_cells<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}
