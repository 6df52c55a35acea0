//! The items at the bottom of the tree, and the last ones.

use super::WIDTH;
use std::sync::{Arc, OnceLock};

/// Up to [`WIDTH`] items one after another. Lists that share a leaf may differ in how many of its
/// items they see: what they see never changes while they share it, what comes after is taken by
/// whoever pushes first. An item lives as long as its leaf.
pub(super) struct Leaf<T> {
    /// Pushed while one list alone held the leaf; whoever shares the leaf sees all of them.
    own: Vec<T>,
    /// Places for all that follows, from the first push on while others held the leaf. Filled from
    /// the front.
    rest: OnceLock<Box<[OnceLock<T>]>>,
}

impl<T> Leaf<T> {
    /// Without items nor room for them.
    pub(super) fn new() -> Self {
        Self { own: Vec::new(), rest: OnceLock::new() }
    }

    /// The leaf after a full one, made for being pushed to in the same way.
    pub(super) fn after(full: &Self) -> Self {
        match full.rest.get() {
            Some(_) => Self { own: Vec::new(), rest: OnceLock::from(places(WIDTH)) },
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

    /// Adds an item after the first `seen`, which are all that the only holder sees.
    pub(super) fn push(&mut self, seen: usize, item: T) {
        let Some(rest) = self.rest.get_mut() else {
            self.own.push(item);
            return;
        };
        let mut free = rest.iter_mut().skip(seen - self.own.len());
        if let Some(place) = free.next() {
            *place = OnceLock::from(item);
        }
        // What lists that are gone had pushed would be in the way of the next push.
        while free.next().is_some_and(|place| place.take().is_some()) {}
    }

    /// Adds an item after the first `seen` while others may hold the leaf; gives it back when one
    /// of them has pushed there.
    pub(super) fn push_shared(&self, seen: usize, item: T) -> Result<(), T> {
        let rest = self.rest.get_or_init(|| places(WIDTH - self.own.len()));
        match rest.get(seen - self.own.len()) {
            Some(place) => place.set(item),
            None => Err(item),
        }
    }
}

impl<T: Clone> Leaf<T> {
    /// The leaf for a change, with the first `seen` items at least: a copy of them if others hold
    /// it.
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

fn places<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}
