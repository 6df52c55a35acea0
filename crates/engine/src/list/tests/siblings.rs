//! Lists that share leaves and differ in what they pushed.

use super::*;
use std::cell::Cell;
use std::rc::Rc;

#[derive(Debug, Clone)]
enum Act {
    Clone,
    Drop,
    Push(usize),
    Put(u16),
    Set(usize),
    Remove(usize),
}

/// Each act with the number of the list it is done to.
fn act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        4 => Just(Act::Clone),
        2 => Just(Act::Drop),
        8 => (1usize..40).prop_map(Act::Push),
        6 => (0u16..200).prop_map(Act::Put),
        2 => any::<usize>().prop_map(Act::Set),
        1 => any::<usize>().prop_map(Act::Remove),
    ];
    (any::<usize>(), act)
}

fn item(id: u16, text: u32) -> Item {
    Item { id: Alike(id), text }
}

fn same(list: &List<Item>, vec: &[Item]) -> Result<(), TestCaseError> {
    prop_assert_eq!(list.len(), vec.len());
    prop_assert!(list.iter().eq(vec));
    prop_assert!(list.iter().rev().eq(vec.iter().rev()));
    prop_assert!((0..vec.len() + 40).all(|at| list.get(at) == vec.get(at)));
    prop_assert_eq!(list, &List::from(vec.to_vec()));
    prop_assert!(!list.clone().set(vec.len(), item(0, 0)));
    for id in (0..200).step_by(9) {
        let expected = vec.iter().rposition(|known| known.id.0 == id);
        prop_assert_eq!(list.position_of(&Alike(id)), expected, "id {}", id);
    }
    Ok(())
}

proptest! {
    #[test]
    fn siblings_see_only_what_they_pushed(
        start in prop_oneof![0u16..70, 1010u16..1030],
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let first: Vec<Item> = (0..start).map(|id| item(id, 0)).collect();
        let mut all = vec![(List::from(first.clone()), first)];
        // Never twice the same text: an item of another list would be noticed.
        let mut texts = 1..;
        let mut text = || texts.next().expect("endless");
        for (which, act) in acts {
            let count = all.len();
            let which = which % count;
            let (list, vec) = &mut all[which];
            match act {
                Act::Clone => {
                    let clone = (list.clone(), vec.clone());
                    all.push(clone);
                }
                Act::Drop if count > 1 => { all.swap_remove(which); }
                Act::Push(count) => for _ in 0..count {
                    let item = item((vec.len() % 200) as u16, text());
                    list.push(item.clone());
                    vec.push(item);
                }
                Act::Put(id) => {
                    let item = item(id, text());
                    list.put(item.clone());
                    match vec.iter().rposition(|known| known.id == item.id) {
                        Some(at) => vec[at] = item,
                        None => vec.push(item),
                    }
                }
                Act::Set(at) if !vec.is_empty() => {
                    let at = at % vec.len();
                    let item = item(7, text());
                    prop_assert!(list.set(at, item.clone()));
                    vec[at] = item;
                }
                Act::Remove(at) if !vec.is_empty() => {
                    let at = at % vec.len();
                    prop_assert_eq!(list.remove(at), Some(vec.remove(at)));
                }
                Act::Drop | Act::Set(_) | Act::Remove(_) => {}
            }
        }
        for (list, vec) in &all {
            same(list, vec)?;
        }
    }
}

/// Counts how often it is cloned, and how many there are.
#[derive(Debug)]
struct Counted {
    clones: Rc<Cell<usize>>,
    alive: Rc<()>,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.clones.set(self.clones.get() + 1);
        Self { clones: Rc::clone(&self.clones), alive: Rc::clone(&self.alive) }
    }
}

#[test]
fn a_push_onto_a_shared_list_clones_no_item() {
    for alone in [0, 1, 31, 32, 33, 64, 1024] {
        let clones = Rc::new(Cell::new(0));
        let alive = Rc::new(());
        let new = || Counted { clones: Rc::clone(&clones), alive: Rc::clone(&alive) };
        let mut list: List<Counted> = (0..alone).map(|_| new()).collect();
        let mut kept = Vec::new();
        for _ in 0..1100 {
            kept.push(list.clone());
            list.push(new());
        }
        assert_eq!(clones.get(), 0, "after {alone}");
        let lens: Vec<_> = kept.iter().map(|list| list.iter().count()).collect();
        assert!(lens.into_iter().eq(alone..alone + 1100));

        // Only who pushes after an item that has a successor pays, and only for its last leaf.
        let mut branch = kept[40].clone();
        branch.push(new());
        let paid = clones.get();
        assert_eq!(paid, kept[40].len() % WIDTH);
        let held = branch.clone();
        branch.push(new());
        assert_eq!((clones.get(), branch.len(), held.len()), (paid, alone + 42, alone + 41));

        drop((list, kept, branch, held));
        assert_eq!(Rc::strong_count(&alive), 1, "all items are gone");
    }
}

#[test]
fn items_of_lists_that_are_gone_are_not_in_the_way() {
    let clones = Rc::new(Cell::new(0));
    let alive = Rc::new(());
    let new = || Counted { clones: Rc::clone(&clones), alive: Rc::clone(&alive) };
    let mut list: List<Counted> = (0..5).map(|_| new()).collect();
    let mut ahead = list.clone();
    (0..9).for_each(|_| ahead.push(new()));
    drop(ahead);
    list.push(new());
    assert_eq!(Rc::strong_count(&alive), 1 + 6);
    let held = list.clone();
    list.push(new());
    assert_eq!((clones.get(), held.len(), list.len()), (0, 6, 7));
}

#[test]
fn threads_push_onto_clones_of_one_list() {
    for len in 0..70 {
        let list: List<u32> = (0..len).collect();
        let pushed = |thread: u32| {
            let mut list = list.clone();
            (0..70).for_each(|i| list.push(1000 * thread + i));
            list
        };
        let lists = std::thread::scope(|scope| {
            let threads = [1, 2].map(|thread| scope.spawn(move || pushed(thread)));
            threads.map(|thread| thread.join().expect("does not panic"))
        });
        for (thread, list) in (1..).zip(&lists) {
            let expected = (0..len).chain((0..70).map(|i| 1000 * thread + i));
            assert!(list.iter().copied().eq(expected));
        }
        assert!(list.iter().copied().eq(0..len));
    }
}
