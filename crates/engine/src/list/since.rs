//! The parts of a list that it does not share with an older one.

use super::{BITS, List, Node, WIDTH};
use std::ops::Range;
use std::sync::Arc;

impl<T> List<T> {
    /// The ranges of items that this list does not share with an older one, in order. Compares
    /// allocations: equal items in different allocations count as not shared. Logarithmic in the
    /// number of leaves for each changed leaf.
    pub(crate) fn ranges_since(&self, older: &Self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let in_tree = self.in_tree();
        if let Some(root) = &self.root {
            let at_same_height = older.root.as_ref().map(|old| (old, older.shift));
            self.walk(older, root, self.shift, at_same_height, 0, &mut ranges);
        }
        if in_tree < self.len {
            let shared = older.shares(in_tree, |leaf| Arc::ptr_eq(leaf, &self.tail));
            add_range(&mut ranges, shared.max(in_tree)..self.len);
        }
        ranges
    }

    fn walk(
        &self,
        older: &Self,
        node: &Node<T>,
        shift: usize,
        old: Option<(&Node<T>, usize)>,
        from: usize,
        ranges: &mut Vec<Range<usize>>,
    ) {
        // The older tree may be higher: the corresponding nodes are below its first child.
        let mut old = old;
        while let Some((Node::Branch(children), height)) = old
            && height > shift
        {
            old = children.first().map(|child| (child, height - 1));
        }
        match node {
            Node::Leaf(leaf) => {
                let shared = older.shares(from, |known| Arc::ptr_eq(known, leaf));
                add_range(ranges, shared.max(from)..from + WIDTH);
            }
            Node::Branch(children) => {
                let old_children = match old {
                    Some((Node::Branch(old), height)) if height == shift => {
                        if Arc::ptr_eq(old, children) {
                            return;
                        }
                        old.as_slice()
                    }
                    _ => &[],
                };
                let width = WIDTH << ((shift - 1) * BITS);
                for (slot, child) in children.iter().enumerate() {
                    let below = match old {
                        // The older tree is lower: it corresponds to the first child.
                        Some((_, height)) if height < shift => old.filter(|_| slot == 0),
                        _ => old_children.get(slot).map(|child| (child, shift - 1)),
                    };
                    self.walk(older, child, shift - 1, below, from + slot * width, ranges);
                }
            }
        }
    }

    /// The end of the shared items of the leaf that begins at `from` if `is_it`, otherwise zero.
    fn shares(&self, from: usize, is_it: impl Fn(&Arc<super::Leaf<T>>) -> bool) -> usize {
        let shared = from < self.len && self.leaf_arc(from).is_some_and(is_it);
        if shared { self.len.min(from + WIDTH) } else { 0 }
    }
}

fn add_range(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
