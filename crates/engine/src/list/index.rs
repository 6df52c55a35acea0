//! Index from the ids of items to their positions in a list.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const BITS: u32 = 5;
const WIDTH: usize = 1 << BITS;
const LEAF_MAX: usize = 12;

/// The hash by which an id is found: the same in every process.
pub(super) fn hash_id<T: Hash + ?Sized>(id: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The positions of the leading items of a list by the hashes of their ids. Persistent: clones
/// share it, and a change copies one path. Callers compare the ids, because hashes may collide.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    covered: usize,
    root: Arc<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Branch(Vec<Option<Arc<Node>>>),
    /// Hashes and positions, in the order of the positions.
    Leaf(Vec<(u64, usize)>),
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

impl Index {
    /// Number of leading items of the list that the index covers.
    pub(super) fn covered(&self) -> usize {
        self.covered
    }

    /// Adds the item after those it covers.
    pub(super) fn push(&mut self, hash: u64) {
        insert_entry(&mut self.root, 0, hash, self.covered);
        self.covered += 1;
    }

    /// The last position with this hash that `is_it`.
    pub(super) fn last(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mut node = self.root.as_ref();
        let mut shift = 0;
        loop {
            match node {
                Node::Branch(children) => {
                    node = children.get(slot_index(hash, shift))?.as_deref()?;
                    shift += BITS;
                }
                Node::Leaf(entries) => {
                    let alike = entries.iter().rev().filter(|(known, _)| *known == hash);
                    return alike.map(|(_, at)| *at).find(|at| is_it(*at));
                }
            }
        }
    }
}

fn slot_index(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize % WIDTH
}

fn insert_entry(node: &mut Arc<Node>, shift: u32, hash: u64, at: usize) {
    let node = Arc::make_mut(node);
    if let Node::Leaf(entries) = node {
        // Equal hashes would never be separated.
        if entries.len() < LEAF_MAX || shift >= u64::BITS {
            entries.push((hash, at));
            return;
        }
        *node = split_leaf(std::mem::take(entries), shift);
    }
    if let Node::Branch(children) = node
        && let Some(child) = children.get_mut(slot_index(hash, shift))
    {
        insert_entry(child.get_or_insert_default(), shift + BITS, hash, at);
    }
}

/// A branch with the entries of a leaf.
fn split_leaf(entries: Vec<(u64, usize)>, shift: u32) -> Node {
    let mut children: Vec<Option<Arc<Node>>> = vec![None; WIDTH];
    for (hash, at) in entries {
        if let Some(child) = children.get_mut(slot_index(hash, shift)) {
            insert_entry(child.get_or_insert_default(), shift + BITS, hash, at);
        }
    }
    Node::Branch(children)
}
