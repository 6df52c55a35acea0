//! A list that many can hold at once: cloning is one counter, pushing touches one path.
//!
//! Source: the persistent vector of Bagwell and Hickey, a tree with 32 children a node and a
//! separate last leaf. The index of ids is a hash trie as of Bagwell.

mod index;
#[cfg(test)]
mod tests;

use index::{Index, hash};
use std::fmt;
use std::sync::Arc;

const BITS: usize = 5;
const WIDTH: usize = 1 << BITS;

/// Up to this many items a search through all of them is as fast as an index.
const SEARCHED_MAX: usize = 32;

/// An item with an id of its own, by which a [`List`] finds it.
pub trait Keyed {
    /// The id's type.
    type Id: std::hash::Hash + Eq + ?Sized;

    /// The item's id.
    fn id(&self) -> &Self::Id;
}

#[derive(Debug)]
enum Node<T> {
    Branch(Vec<Arc<Node<T>>>),
    Leaf(Vec<T>),
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(children) => Self::Branch(children.clone()),
            Self::Leaf(items) => Self::Leaf(items.clone()),
        }
    }
}

/// A persistent list. Cloning shares it; a change to one clone is not seen by the others.
///
/// `len`, `clone`: constant. `get`, `push`, `set`: logarithmic with base 32, constant while nobody
/// shares the last leaf. `remove`, `retain`: linear. Of items with an id, `put` and `position_of`:
/// logarithmic with base 32, by an index that comes into being with the first `put` into a list
/// that is not small; after a `set` or a removal the next `put` makes it anew.
pub struct List<T> {
    len: usize,
    /// Height of the tree above its leaves; the tree holds `len - tail.len()` items.
    shift: usize,
    root: Option<Arc<Node<T>>>,
    tail: Arc<Vec<T>>,
    /// Where the ids of the first items are.
    ids: Option<Index>,
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self {
            len: self.len,
            shift: self.shift,
            root: self.root.clone(),
            tail: Arc::clone(&self.tail),
            ids: self.ids.clone(),
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { len: 0, shift: 0, root: None, tail: Arc::new(Vec::new()), ids: None }
    }
}

impl<T> List<T> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        let in_tree = self.len - self.tail.len();
        if index >= in_tree {
            return self.tail.get(index - in_tree);
        }
        let mut node = self.root.as_deref()?;
        let mut shift = self.shift;
        loop {
            match node {
                Node::Branch(children) => {
                    node = children.get((index >> (shift * BITS)) & (WIDTH - 1))?;
                    shift = shift.saturating_sub(1);
                }
                Node::Leaf(items) => return items.get(index & (WIDTH - 1)),
            }
        }
    }

    /// The last item.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.len.checked_sub(1).and_then(|i| self.get(i))
    }

    /// The items in order; can be walked from both ends.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { list: self, from: 0, to: self.len }
    }
}

impl<T: Clone> List<T> {
    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        if self.tail.len() == WIDTH {
            let full = std::mem::replace(&mut self.tail, Arc::new(Vec::with_capacity(WIDTH)));
            self.push_leaf(Arc::new(Node::Leaf(Arc::unwrap_or_clone(full))));
        }
        Arc::make_mut(&mut self.tail).push(item);
        self.len += 1;
    }

    /// Replaces the item at an index; `false` when there is none.
    pub fn set(&mut self, index: usize, item: T) -> bool {
        // The new item may have another id.
        self.ids = self.ids.take().filter(|ids| index >= ids.covered());
        self.replace(index, item)
    }

    fn replace(&mut self, index: usize, item: T) -> bool {
        if index >= self.len {
            return false;
        }
        let in_tree = self.len - self.tail.len();
        if index >= in_tree {
            if let Some(slot) = Arc::make_mut(&mut self.tail).get_mut(index - in_tree) {
                *slot = item;
            }
            return true;
        }
        let mut shift = self.shift;
        let Some(mut node) = self.root.as_mut() else { return false };
        loop {
            match Arc::make_mut(node) {
                Node::Branch(children) => {
                    let Some(child) = children.get_mut((index >> (shift * BITS)) & (WIDTH - 1))
                    else {
                        return false;
                    };
                    node = child;
                    shift = shift.saturating_sub(1);
                }
                Node::Leaf(items) => {
                    if let Some(slot) = items.get_mut(index & (WIDTH - 1)) {
                        *slot = item;
                    }
                    return true;
                }
            }
        }
    }

    /// Removes the item at an index and returns it. Linear in the length of the list.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let removed = self.get(index)?.clone();
        let mut at = 0..;
        self.retain(|_| at.next() != Some(index));
        Some(removed)
    }

    /// Keeps the items that `keep` wants, which sees them in order. Linear in the length of the
    /// list.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        *self = self.iter().filter(|item| keep(item)).cloned().collect();
    }

    fn push_leaf(&mut self, leaf: Arc<Node<T>>) {
        // Called with `len` items of which the leaf's are the last: the tree held `len - WIDTH`.
        let before = self.len - WIDTH;
        let Some(root) = self.root.take() else {
            self.root = Some(leaf);
            return;
        };
        let capacity = WIDTH << (self.shift * BITS);
        if before == capacity {
            self.shift += 1;
            let path = path_to(self.shift - 1, leaf);
            self.root = Some(Arc::new(Node::Branch(vec![root, path])));
            return;
        }
        let mut root = root;
        insert_leaf(&mut root, self.shift, before, leaf);
        self.root = Some(root);
    }
}

impl<T: Keyed> List<T> {
    /// Where the last item with this id is.
    #[must_use]
    pub fn position_of(&self, id: &T::Id) -> Option<usize> {
        let is_it = |at: usize| self.get(at).is_some_and(|item| item.id() == id);
        let later = (self.covered()..self.len).rev().find(|at| is_it(*at));
        later.or_else(|| self.ids.as_ref()?.last(hash(id), is_it))
    }

    /// How many of the first items the index knows.
    fn covered(&self) -> usize {
        self.ids.as_ref().map_or(0, Index::covered)
    }

    /// Brings the index up to date, so that `position_of` need not search through the list.
    pub(crate) fn index_ids(&mut self) {
        if self.len <= SEARCHED_MAX || self.covered() == self.len {
            return;
        }
        let mut ids = self.ids.take().unwrap_or_default();
        for at in ids.covered()..self.len {
            if let Some(item) = self.get(at) {
                ids.push(hash(item.id()));
            }
        }
        self.ids = Some(ids);
    }
}

impl<T: Keyed + Clone> List<T> {
    /// Replaces the last item with the same id in its place; adds the item at the end when there
    /// is none.
    pub fn put(&mut self, item: T) {
        self.index_ids();
        match self.position_of(item.id()) {
            Some(at) => {
                self.replace(at, item);
            }
            None => {
                if let Some(ids) = self.ids.as_mut().filter(|ids| ids.covered() == self.len) {
                    ids.push(hash(item.id()));
                }
                self.push(item);
            }
        }
    }
}

fn path_to<T>(height: usize, leaf: Arc<Node<T>>) -> Arc<Node<T>> {
    (0..height).fold(leaf, |node, _| Arc::new(Node::Branch(vec![node])))
}

fn insert_leaf<T: Clone>(node: &mut Arc<Node<T>>, shift: usize, at: usize, leaf: Arc<Node<T>>) {
    if let Node::Branch(children) = Arc::make_mut(node) {
        let slot = (at >> (shift * BITS)) & (WIDTH - 1);
        match children.get_mut(slot) {
            Some(child) => insert_leaf(child, shift - 1, at, leaf),
            None => children.push(path_to(shift.saturating_sub(1), leaf)),
        }
    }
}

/// Walks a [`List`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    list: &'a List<T>,
    from: usize,
    to: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.from == self.to {
            return None;
        }
        self.from += 1;
        self.list.get(self.from - 1)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.to - self.from, Some(self.to - self.from))
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from == self.to {
            return None;
        }
        self.to -= 1;
        self.list.get(self.to)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: Clone> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().zip(other).all(|(a, b)| a == b)
    }
}

impl<T: Clone> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: serde::Serialize> serde::Serialize for List<T> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self)
    }
}

impl<'de, T: Clone + serde::Deserialize<'de>> serde::Deserialize<'de> for List<T> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Vec::<T>::deserialize(d)?.into())
    }
}
