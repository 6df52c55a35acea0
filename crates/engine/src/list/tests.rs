mod siblings;

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Push(u32),
    Extend(Vec<u32>),
    Set(usize, u32),
    Remove(usize),
    Keep,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<u32>().prop_map(Op::Push),
        2 => prop::collection::vec(any::<u32>(), 0..80).prop_map(Op::Extend),
        2 => (any::<usize>(), any::<u32>()).prop_map(|(i, v)| Op::Set(i, v)),
        1 => any::<usize>().prop_map(Op::Remove),
        1 => Just(Op::Keep),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_vec_and_leaves_clones_alone(
        start in 0usize..2200,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let mut vec: Vec<u32> = (0..u32::try_from(start).expect("small")).collect();
        let mut list: List<u32> = vec.clone().into();
        let mut kept = vec![(vec.clone(), list.clone())];
        for op in ops {
            match op {
                Op::Push(v) => { vec.push(v); list.push(v); }
                Op::Extend(more) => { vec.extend(more.clone()); list.extend(more); }
                Op::Set(i, v) if !vec.is_empty() => {
                    let i = i % vec.len();
                    vec[i] = v;
                    prop_assert!(list.set(i, v));
                }
                Op::Remove(i) if !vec.is_empty() => {
                    let i = i % vec.len();
                    prop_assert_eq!(Some(vec.remove(i)), list.remove(i));
                }
                Op::Keep => kept.push((vec.clone(), list.clone())),
                Op::Set(..) | Op::Remove(_) => {}
            }
        }
        kept.push((vec, list));
        for (vec, list) in kept {
            prop_assert_eq!(list.len(), vec.len());
            prop_assert!(list.iter().eq(vec.iter()));
            prop_assert!(list.iter().rev().eq(vec.iter().rev()));
            prop_assert_eq!(list.get(vec.len()), None);
        }
    }
}

#[test]
fn deep_trees_keep_their_order() {
    let list: List<usize> = (0..40_000).collect();
    assert!(list.iter().copied().eq(0..40_000));
}

/// An item whose ids have few different hashes.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    id: Alike,
    text: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Alike(u16);

impl std::hash::Hash for Alike {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.0 % 7).hash(state);
    }
}

impl Keyed for Item {
    type Id = Alike;

    fn id(&self) -> &Alike {
        &self.id
    }
}

#[derive(Debug, Clone)]
enum Change {
    Put(u16, u32),
    Push(u16, u32),
    Set(usize, u16, u32),
    Remove(usize),
    Retain(u32),
    Keep,
}

fn change() -> impl Strategy<Value = Change> {
    let id = 0u16..120;
    prop_oneof![
        40 => (id.clone(), any::<u32>()).prop_map(|(id, text)| Change::Put(id, text)),
        4 => (id.clone(), any::<u32>()).prop_map(|(id, text)| Change::Push(id, text)),
        2 => (any::<usize>(), id, any::<u32>()).prop_map(|(at, id, text)| Change::Set(at, id, text)),
        1 => any::<usize>().prop_map(Change::Remove),
        1 => (3u32..9).prop_map(Change::Retain),
        2 => Just(Change::Keep),
    ]
}

proptest! {
    #[test]
    fn finds_by_id_what_a_search_from_the_end_finds(
        start in 0u16..400,
        changes in prop::collection::vec(change(), 0..300),
    ) {
        let item = |id, text| Item { id: Alike(id), text };
        let mut vec: Vec<Item> = (0..start).map(|id| item(id, 0)).collect();
        let mut list: List<Item> = vec.clone().into();
        let mut kept = Vec::new();
        for change in changes {
            match change {
                Change::Put(id, text) => {
                    match vec.iter().rposition(|known| known.id.0 == id) {
                        Some(at) => vec[at] = item(id, text),
                        None => vec.push(item(id, text)),
                    }
                    list.put(item(id, text));
                }
                Change::Push(id, text) => { vec.push(item(id, text)); list.push(item(id, text)); }
                Change::Set(at, id, text) if !vec.is_empty() => {
                    let at = at % vec.len();
                    vec[at] = item(id, text);
                    prop_assert!(list.set(at, item(id, text)));
                }
                Change::Remove(at) if !vec.is_empty() => {
                    let at = at % vec.len();
                    prop_assert_eq!(Some(vec.remove(at)), list.remove(at));
                }
                Change::Retain(n) => {
                    vec.retain(|item| item.text % n != 1);
                    list.retain(|item| item.text % n != 1);
                }
                Change::Keep => kept.push((vec.clone(), list.clone())),
                Change::Set(..) | Change::Remove(_) => {}
            }
        }
        kept.push((vec, list));
        for (vec, list) in kept {
            prop_assert!(list.iter().eq(vec.iter()));
            for id in 0..start.max(120) + 1 {
                let expected = vec.iter().rposition(|known| known.id.0 == id);
                prop_assert_eq!(list.position_of(&Alike(id)), expected, "id {}", id);
            }
        }
    }
}

#[test]
fn an_index_is_made_once_there_is_something_to_search() {
    let mut list = List::new();
    for id in 0..=u16::try_from(SEARCHED_MAX).expect("small") {
        list.put(Item { id: Alike(id), text: 0 });
    }
    assert_eq!(list.covered(), 0);
    list.put(Item { id: Alike(1000), text: 0 });
    assert_eq!(list.covered(), list.len());
    let before = list.clone();
    list.push(Item { id: Alike(1001), text: 0 });
    assert_eq!(list.covered(), list.len() - 1, "a push leaves the index to the next put");
    list.set(0, Item { id: Alike(1002), text: 0 });
    assert_eq!(list.covered(), 0, "an id has changed");
    assert_eq!((before.covered(), before.position_of(&Alike(0))), (before.len(), Some(0)));
}

#[test]
fn what_nobody_shares_is_changed_in_place() {
    let mut list: List<usize> = (0..100).collect();
    let place = |list: &List<usize>, at| std::ptr::from_ref(list.get(at).expect("is there"));
    let places = [place(&list, 0), place(&list, 99)];
    list.push(100);
    assert_eq!([place(&list, 0), place(&list, 99)], places);
    let held = list.clone();
    list.push(101);
    assert_eq!(
        [place(&list, 0), place(&list, 99)],
        places,
        "a push leaves the items where they are"
    );
    assert_eq!(place(&held, 99), places[1]);
    list.set(101, 102);
    assert_ne!(place(&list, 99), place(&held, 99));
    assert_eq!((place(&list, 0), place(&held, 99)), (places[0], places[1]));
    assert_eq!((held.len(), list.len()), (101, 102));
}
