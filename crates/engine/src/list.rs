//! A persistent list: cloning increments a counter, pushing copies at most one path.
//!
//! Source: the persistent vector of Bagwell and Hickey, a tree with 32 children a node and a
//! separate last leaf. The index of ids is a hash trie as of Bagwell.

mod index;
mod leaf;
mod since;
#[cfg(test)]
mod tests;

use index::{Index, hash_id};
use leaf::Leaf;
use std::fmt;
use std::sync::Arc;

const BITS: usize = 5;
const WIDTH: usize = 1 << BITS;

/// Number of items up to which a linear search is as fast as an index.
const SEARCHED_MAX: usize = 32;

/// An item with an id, by which a [`List`] finds it.
pub trait Keyed {
    /// The id's type.
    type Id: std::hash::Hash + Eq + ?Sized;

    /// The item's id.
    fn id(&self) -> &Self::Id;
}

enum Node<T> {
    Branch(Arc<Vec<Node<T>>>),
    Leaf(Arc<Leaf<T>>),
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(children) => Self::Branch(Arc::clone(children)),
            Self::Leaf(leaf) => Self::Leaf(Arc::clone(leaf)),
        }
    }
}

/// A persistent list. Clones share their items; a change of one clone does not affect the others.
///
/// `len` and `clone` take constant time; `get`, `push` and `set` logarithmic time with base 32. A
/// push clones no items, except up to 31 if another clone has pushed after the same item; a set
/// clones up to 32 items while others share them. `remove` and `retain` take linear time. For items
/// with an id, `put` and `position_of` take logarithmic time with base 32 with an index, which is
/// built by the first `put` into a list that is not small, and rebuilt by the next `put` after a
/// `set` or a removal.
///
/// ```
/// use weftwork_engine::List;
///
/// let mut log: List<&str> = ["asked"].into_iter().collect();
/// let before = log.clone();
/// log.push("answered");
/// assert_eq!(log.iter().copied().collect::<Vec<_>>(), ["asked", "answered"]);
/// assert_eq!(before.len(), 1);
/// ```
pub struct List<T> {
    len: usize,
    /// Height of the tree above its leaves.
    shift: usize,
    /// All items except those of the last leaf.
    root: Option<Node<T>>,
    /// The last leaf. Clones may use fewer of its items or may have added more.
    tail: Arc<Leaf<T>>,
    /// Index of the ids of the leading items.
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
        Self { len: 0, shift: 0, root: None, tail: Arc::new(Leaf::new()), ids: None }
    }
}

impl<T> List<T> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `true` if the list has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        self.leaf(index)?.get(index & (WIDTH - 1))
    }

    /// The leaf with the item at an index.
    fn leaf(&self, index: usize) -> Option<&Leaf<T>> {
        self.leaf_arc(index).map(|leaf| &**leaf)
    }

    fn leaf_arc(&self, index: usize) -> Option<&Arc<Leaf<T>>> {
        if index >= self.in_tree() {
            return Some(&self.tail);
        }
        let mut node = self.root.as_ref()?;
        let mut shift = self.shift;
        loop {
            match node {
                Node::Branch(children) => {
                    node = children.get((index >> (shift * BITS)) & (WIDTH - 1))?;
                    shift = shift.saturating_sub(1);
                }
                Node::Leaf(leaf) => return Some(leaf),
            }
        }
    }

    /// The last item.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.len.checked_sub(1).and_then(|i| self.get(i))
    }

    /// The items in order, as a double-ended iterator.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { list: self, from: 0, to: self.len, leaf: None }
    }

    /// Number of items outside the last leaf, which is empty only if the list is.
    fn in_tree(&self) -> usize {
        self.len.saturating_sub(1) & !(WIDTH - 1)
    }
}

impl<T: Clone> List<T> {
    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        let mut seen = self.len - self.in_tree();
        if seen == WIDTH {
            let next = Arc::new(Leaf::after(&self.tail));
            let full = std::mem::replace(&mut self.tail, next);
            self.push_leaf(Node::Leaf(full));
            seen = 0;
        }
        if let Some(tail) = Arc::get_mut(&mut self.tail) {
            tail.push(seen, item);
        } else if let Err(item) = self.tail.push_shared(seen, item) {
            let mut tail = self.tail.first(seen);
            tail.push(seen, item);
            self.tail = Arc::new(tail);
        }
        self.len += 1;
    }

    /// Replaces the item at an index; `false` when there is none.
    pub fn set(&mut self, index: usize, item: T) -> bool {
        // The new item may have a different id.
        self.ids = self.ids.take().filter(|ids| index >= ids.covered());
        self.replace(index, item)
    }

    fn replace(&mut self, index: usize, item: T) -> bool {
        if index >= self.len {
            return false;
        }
        let Some((leaf, seen)) = self.leaf_mut(index) else { return false };
        match Leaf::unshared(leaf, seen).get_mut(index & (WIDTH - 1)) {
            Some(place) => *place = item,
            None => return false,
        }
        true
    }

    /// The leaf with the item at an index, and the number of its items that belong to the list.
    fn leaf_mut(&mut self, index: usize) -> Option<(&mut Arc<Leaf<T>>, usize)> {
        let in_tree = self.in_tree();
        if index >= in_tree {
            return Some((&mut self.tail, self.len - in_tree));
        }
        let mut shift = self.shift;
        let mut node = self.root.as_mut()?;
        loop {
            match node {
                Node::Branch(children) => {
                    let slot = (index >> (shift * BITS)) & (WIDTH - 1);
                    node = Arc::make_mut(children).get_mut(slot)?;
                    shift = shift.saturating_sub(1);
                }
                Node::Leaf(leaf) => return Some((leaf, WIDTH)),
            }
        }
    }

    /// Keeps the first `len` items. Linear in their number.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            *self = self.iter().take(len).cloned().collect();
        }
    }

    /// Removes the item at an index and returns it. Linear in the length of the list.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let removed = self.get(index)?.clone();
        let mut at = 0..;
        self.retain(|_| at.next() != Some(index));
        Some(removed)
    }

    /// Retains the items for which `keep` returns `true`; it is called in order. Linear in the
    /// length of the list.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        *self = self.iter().filter(|item| keep(item)).cloned().collect();
    }

    fn push_leaf(&mut self, leaf: Node<T>) {
        // Called with `len` items of which the leaf's are the last: the tree held `len - WIDTH`.
        let before = self.len - WIDTH;
        let Some(root) = &mut self.root else {
            self.root = Some(leaf);
            return;
        };
        if before == WIDTH << (self.shift * BITS) {
            let path = path_to(self.shift, leaf);
            self.shift += 1;
            *root = Node::Branch(Arc::new(vec![root.clone(), path]));
            return;
        }
        insert_leaf(root, self.shift, before, leaf);
    }
}

impl<T: Keyed> List<T> {
    /// Position of the last item with this id.
    #[must_use]
    pub fn position_of(&self, id: &T::Id) -> Option<usize> {
        let is_it = |at: usize| self.get(at).is_some_and(|item| item.id() == id);
        let later = (self.covered()..self.len).rev().find(|at| is_it(*at));
        later.or_else(|| self.ids.as_ref()?.last(hash_id(id), is_it))
    }

    /// Number of leading items that the index covers.
    fn covered(&self) -> usize {
        self.ids.as_ref().map_or(0, Index::covered)
    }

    /// Updates the index, so that `position_of` does not search the list.
    pub(crate) fn index_ids(&mut self) {
        if self.len <= SEARCHED_MAX || self.covered() == self.len {
            return;
        }
        let mut ids = self.ids.take().unwrap_or_default();
        for at in ids.covered()..self.len {
            if let Some(item) = self.get(at) {
                ids.push(hash_id(item.id()));
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
                    ids.push(hash_id(item.id()));
                }
                self.push(item);
            }
        }
    }
}

fn path_to<T>(height: usize, leaf: Node<T>) -> Node<T> {
    (0..height).fold(leaf, |node, _| Node::Branch(Arc::new(vec![node])))
}

fn insert_leaf<T>(node: &mut Node<T>, shift: usize, at: usize, leaf: Node<T>) {
    if let Node::Branch(children) = node {
        let children = Arc::make_mut(children);
        let slot = (at >> (shift * BITS)) & (WIDTH - 1);
        match children.get_mut(slot) {
            Some(child) => insert_leaf(child, shift - 1, at, leaf),
            None => children.push(path_to(shift.saturating_sub(1), leaf)),
        }
    }
}

/// An iterator over a [`List`].
pub struct Iter<'a, T> {
    list: &'a List<T>,
    from: usize,
    to: usize,
    /// The leaf with the item before `from`, after the first one.
    leaf: Option<&'a Leaf<T>>,
}

impl<T: fmt::Debug> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = (self.from..self.to).filter_map(|at| self.list.get(at));
        f.debug_list().entries(left).finish()
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.from == self.to {
            return None;
        }
        let at = self.from & (WIDTH - 1);
        if at == 0 {
            self.leaf = self.list.leaf(self.from);
        }
        self.from += 1;
        self.leaf?.get(at)
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
        let mut items = items.into_iter();
        loop {
            // Checks once whether the last leaf is shared, not for each of its items.
            let mut seen = self.len - self.in_tree();
            if let (1.., Some(tail)) = (WIDTH - seen, Arc::get_mut(&mut self.tail)) {
                for item in items.by_ref().take(WIDTH - seen) {
                    tail.push(seen, item);
                    seen += 1;
                    self.len += 1;
                }
                if seen < WIDTH {
                    return;
                }
            }
            let Some(item) = items.next() else { return };
            self.push(item);
        }
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
