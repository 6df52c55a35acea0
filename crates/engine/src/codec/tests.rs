use super::*;
use crate::channel::{Append, LastValue};
use crate::list::List;
use crate::plan::{ChannelIdx, Plan, PlanBuilder};
use crate::pregel::StartInput;
use crate::value::Write;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Items = List<String>;

fn plan(extra: Option<&str>) -> Arc<Plan> {
    let mut plan = PlanBuilder::default();
    plan.channel("small", Arc::new(LastValue::<u32>::new()));
    plan.channel("text", Arc::new(LastValue::<String>::new()));
    plan.channel("log", Arc::new(Append::<String>::new()));
    if let Some(extra) = extra {
        plan.channel(extra, Arc::new(Append::<String>::new()));
    }
    plan.node("a");
    plan.edge("START", "a");
    Arc::new(plan.build().expect("a sound graph"))
}

/// Rows and blobs, as a store keeps them.
#[derive(Default)]
struct Rows {
    rows: BTreeMap<CheckpointId, Vec<u8>>,
    blobs: BTreeMap<Hash, Vec<u8>>,
    layouts: BTreeMap<LayoutId, Layout>,
}

impl Rows {
    fn put(&mut self, id: u128, machine: &Machine, since: Option<&DeltaBase>) -> DeltaBase {
        let encoded = encode(machine, CheckpointId(id), since, b"rest").expect("it can be written");
        self.rows.insert(CheckpointId(id), encoded.bytes);
        self.blobs.extend(encoded.blobs);
        let layout = machine.plan().layout();
        self.layouts.insert(layout.id(), layout.clone());
        encoded.delta_base
    }

    fn layout(&self, row: &[u8]) -> &Layout {
        &self.layouts[&open_row(row).expect("a row").0]
    }

    /// The checkpoint, and how many rows it took.
    fn get(&self, plan: &Arc<Plan>, id: u128) -> Result<(Loaded, usize), EngineError> {
        let row = self.rows[&CheckpointId(id)].clone();
        let layout = self.layout(&row).clone();
        let mut loader = Loader::new(plan, CheckpointId(id), row, &layout)?;
        let mut read = 1;
        loop {
            let wants = loader.wants();
            if wants.is_empty() {
                return Ok((loader.finish()?, read));
            }
            for id in wants.rows {
                read += 1;
                let row = &self.rows[&id];
                loader.row(id, row, self.layout(row))?;
            }
            for hash in wants.blobs {
                loader.blob(hash, self.blobs[&hash].clone());
            }
        }
    }
}

fn with(machine: &Machine, index: usize, value: Value) -> Machine {
    let mut slots = machine.slots().clone();
    slots.set(index, Some(value));
    Machine::from_parts(Arc::clone(machine.plan()), slots, machine.control().clone())
}

fn log(machine: &Machine) -> Items {
    let list = machine.slots().get(2).and_then(|value| value.get::<Items>());
    list.expect("a list").clone()
}

fn pushed(machine: &Machine, items: &[String]) -> Machine {
    let mut list = log(machine);
    list.extend(items.iter().cloned());
    with(machine, 2, Value::new(list))
}

fn json(machine: &Machine) -> serde_json::Value {
    let plan = machine.plan();
    let value = |name: &str| Some((name.to_owned(), plan.channel_json(machine.slots(), name)?));
    plan.channel_names().filter_map(value).collect()
}

#[derive(Debug, Clone)]
enum Change {
    Push(Vec<String>),
    Set(usize, String),
    Remove(usize),
    Clear,
    Text(String),
    Small(u32),
    Nothing,
    /// Goes on from an older checkpoint.
    Fork(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let text = "[a-z]{0,40}";
    prop_oneof![
        8 => prop::collection::vec(text, 0..4).prop_map(Change::Push),
        2 => (any::<usize>(), text).prop_map(|(at, item)| Change::Set(at, item)),
        1 => any::<usize>().prop_map(Change::Remove),
        1 => Just(Change::Clear),
        2 => text.prop_map(Change::Text),
        2 => any::<u32>().prop_map(Change::Small),
        2 => Just(Change::Nothing),
        2 => any::<usize>().prop_map(Change::Fork),
    ]
}

fn changed(machine: &Machine, change: &Change) -> Machine {
    let mut list = log(machine);
    let len = list.len().max(1);
    match change {
        Change::Push(items) => return pushed(machine, items),
        Change::Set(at, item) => drop(list.set(at % len, item.clone())),
        Change::Remove(at) => drop(list.remove(at % len)),
        Change::Clear => list = List::new(),
        Change::Text(text) => return with(machine, 1, Value::new(text.clone())),
        Change::Small(number) => return with(machine, 0, Value::new(*number)),
        Change::Nothing | Change::Fork(_) => return machine.clone(),
    }
    with(machine, 2, Value::new(list))
}

proptest! {
    #[test]
    fn each_checkpoint_of_each_branch_comes_back(
        changes in prop::collection::vec(change(), 1..160),
        reload in prop::collection::vec(any::<bool>(), 160),
    ) {
        let plan = plan(None);
        let mut rows = Rows::default();
        let mut known: Vec<(Machine, DeltaBase)> = Vec::new();
        let mut now = Machine::new(Arc::clone(&plan));
        let mut delta_base = rows.put(1, &now, None);
        known.push((now.clone(), delta_base.clone()));
        for (id, (change, reload)) in (2..).zip(changes.iter().zip(reload)) {
            if let Change::Fork(at) = change {
                (now, delta_base) = known[at % known.len()].clone();
            }
            if reload {
                let loaded = rows.get(&plan, delta_base.id().0).expect("it is there").0;
                (now, delta_base) = (loaded.machine, loaded.delta_base);
            }
            now = changed(&now, change);
            delta_base = rows.put(id, &now, Some(&delta_base));
            known.push((now.clone(), delta_base.clone()));
        }
        for (machine, delta_base) in &known {
            let loaded = rows.get(&plan, delta_base.id().0).expect("it is there").0;
            prop_assert_eq!(json(&loaded.machine), json(machine));
        }
    }

    #[test]
    fn damaged_rows_are_refused_or_read_but_never_panic(
        at in any::<usize>(),
        bit in 0..8u8,
        cut in any::<usize>(),
    ) {
        let plan = plan(None);
        let mut rows = Rows::default();
        let machine = pushed(&Machine::new(Arc::clone(&plan)), &["one".to_owned()]);
        let delta_base = rows.put(1, &machine, None);
        rows.put(2, &pushed(&machine, &["two".to_owned()]), Some(&delta_base));
        let row = rows.rows[&CheckpointId(2)].clone();
        let mut flipped = row.clone();
        let at = at % row.len();
        flipped[at] ^= 1 << bit;
        let layout = plan.layout();
        for bytes in [flipped, row[..cut % row.len()].to_vec()] {
            if let Ok(mut loader) = Loader::new(&plan, CheckpointId(2), bytes, layout) {
                for id in loader.wants().rows {
                    if let Some(row) = rows.rows.get(&id) {
                        drop(loader.row(id, row, layout));
                    }
                }
                drop(loader.finish());
            }
        }
    }
}

#[test]
fn a_row_does_not_grow_with_the_thread_and_reading_takes_few_rows() {
    let plan = plan(None);
    let mut rows = Rows::default();
    let mut now = Machine::new(Arc::clone(&plan));
    let mut delta_base = rows.put(1, &now, None);
    let mut sizes = Vec::new();
    for id in 2..=4_000u128 {
        now = pushed(&now, &[format!("item {id}")]);
        delta_base = rows.put(id, &now, Some(&delta_base));
        sizes.push(rows.rows[&CheckpointId(id)].len());
    }
    let sum = |sizes: &[usize]| sizes.iter().sum::<usize>();
    let early = sum(&sizes[65..130]);
    let late = sum(&sizes[3_900..3_965]);
    assert!(late * 10 < early * 12, "65 rows took {early} bytes, then {late}");
    let (loaded, read) = rows.get(&plan, 4_000).expect("it is there");
    assert_eq!(log(&loaded.machine).len(), 3_999);
    assert!(read <= 4_000 / TAIL_MAX + TAIL_MAX + 2, "it took {read} rows");
}

#[test]
fn reading_a_list_that_does_not_grow_takes_few_rows_however_often_it_changes() {
    let plan = plan(None);
    let replaced = |_: &Items, id: u128| (0..10).map(|i| format!("{id} {i}")).collect();
    let set = |list: &Items, id: u128| {
        let mut list = list.clone();
        assert!(list.set(id as usize % 10, format!("item {id}")));
        list
    };
    let window = |list: &Items, id: u128| {
        let mut list = list.clone();
        drop(list.remove(0));
        list.push(format!("item {id}"));
        list
    };
    let in_turn = |list: &Items, id: u128| match list.len() {
        0..20 => list.iter().cloned().chain([format!("item {id}")]).collect(),
        _ => List::new(),
    };
    let changes: [fn(&Items, u128) -> Items; 4] = [replaced, set, window, in_turn];
    for (which, change) in changes.into_iter().enumerate() {
        let mut rows = Rows::default();
        let items: Vec<_> = (0..10).map(|i| format!("item {i}")).collect();
        let mut now = pushed(&Machine::new(Arc::clone(&plan)), &items);
        let mut delta_base = rows.put(1, &now, None);
        for id in 2..=2_000u128 {
            now = with(&now, 2, Value::new(change(&log(&now), id)));
            delta_base = rows.put(id, &now, Some(&delta_base));
            if id % 97 == 0 {
                let (loaded, read) = rows.get(&plan, id).expect("it is there");
                assert!(read <= 2 * TAIL_MAX, "change {which}: checkpoint {id} took {read} rows");
                // Goes on as after a restart.
                (now, delta_base) = (loaded.machine, loaded.delta_base);
            }
        }
    }
}

#[test]
fn large_values_are_apart_and_due_input_comes_back() {
    let plan = plan(None);
    let mut rows = Rows::default();
    let large = "x".repeat(INLINE_MAX + 1);
    let mut machine = with(&Machine::new(Arc::clone(&plan)), 1, Value::new(large.clone()));
    let input = serde_json::json!({"small": 1, "text": large});
    machine.take_input(StartInput::Json(Arc::new(input.clone()))).expect("sound");
    let delta_base = rows.put(1, &machine, None);
    assert!(rows.rows[&CheckpointId(1)].len() < 500);
    assert_eq!(rows.blobs.len(), 2, "the value and the input");
    rows.put(2, &machine, Some(&delta_base));
    for id in [1, 2] {
        let loaded = rows.get(&plan, id).expect("it is there").0;
        assert_eq!(json(&loaded.machine), json(&machine));
        assert!(matches!(loaded.machine.start_input(),
            Some(StartInput::Json(json)) if **json == input));
    }
}

#[test]
fn what_the_input_writes_stays_with_the_input() {
    let plan = plan(None);
    let mut rows = Rows::default();
    for (text, apart) in [("long ".repeat(20), false), ("x".repeat(INLINE_MAX + 1), true)] {
        let small = Value::new(7u32);
        let text = Value::new(text);
        let writes = [(0, small.clone()), (1, text.clone())];
        let writes = writes.map(|(index, value)| (ChannelIdx(index), Write::Typed(value)));
        let output = TaskOutput { writes: writes.into_iter().collect(), ..TaskOutput::default() };
        let empty = pushed(&Machine::new(Arc::clone(&plan)), &["before".to_owned()]);
        let mut machine = empty.clone();
        machine.take_input(StartInput::Writes(Arc::new(output))).expect("sound");
        let delta_base = rows.put(1, &machine, None);
        let applied = with(&with(&empty, 0, small), 1, text);
        let delta_base = rows.put(2, &applied, Some(&delta_base));
        let later = with(&applied, 0, Value::new(8u32));
        rows.put(3, &later, Some(&delta_base));
        assert!(rows.rows[&CheckpointId(2)].len() < 80, "the values are not written again");
        assert_eq!(rows.blobs.len(), usize::from(apart));
        for (id, machine) in [(1, &machine), (2, &applied), (3, &later)] {
            let (loaded, read) = rows.get(&plan, id).expect("it is there");
            assert_eq!(json(&loaded.machine), json(machine));
            assert_eq!(read, if id == 1 { 1 } else { 2 });
        }
        // Another build finds them by name; a row after that leads to the input as well.
        let new = self::plan(Some("a_new_one"));
        let (loaded, _) = rows.get(&new, 2).expect("it is compatible");
        rows.put(4, &loaded.machine, Some(&loaded.delta_base));
        assert_eq!(json(&rows.get(&new, 4).expect("it is there").0.machine)["small"], 7);
    }
}

#[test]
fn what_the_input_says_is_named_in_the_change_of_a_list() {
    let plan = plan(None);
    let mut rows = Rows::default();
    let mut machine = pushed(&Machine::new(Arc::clone(&plan)), &["before".to_owned()]);
    let empty = rows.put(1, &machine, None);
    let said = "a text that is longer than what is worth the while to be named".repeat(2);
    let before = machine.clone();
    machine
        .take_input(StartInput::Json(Arc::new(serde_json::json!({"log": [said]}))))
        .expect("sound");
    let delta_base = rows.put(2, &machine, Some(&empty));
    let taken = pushed(&before, std::slice::from_ref(&said));
    let delta_base = rows.put(3, &taken, Some(&delta_base));
    assert!(rows.rows[&CheckpointId(3)].len() < 80, "the text is not written again");
    let later = pushed(&taken, &["after".to_owned()]);
    rows.put(4, &later, Some(&delta_base));
    for (id, machine) in [(3, &taken), (4, &later)] {
        let (loaded, read) = rows.get(&plan, id).expect("it is there");
        assert_eq!(json(&loaded.machine), json(machine));
        assert_eq!(read as u128, id, "the row, those before it, and the input's");
    }
    rows.rows.get_mut(&CheckpointId(2)).expect("a row").truncate(30);
    assert!(rows.get(&plan, 3).is_err(), "the text is gone");
}

#[test]
fn another_build_finds_its_channels_by_name() {
    let old = plan(None);
    let mut rows = Rows::default();
    let machine = pushed(&Machine::new(Arc::clone(&old)), &["kept".to_owned()]);
    let machine = with(&machine, 0, Value::new(7u32));
    rows.put(1, &machine, None);
    let new = plan(Some("a_new_one"));
    let loaded = rows.get(&new, 1).expect("it is compatible").0;
    let expected = serde_json::json!({"small": 7, "log": ["kept"], "a_new_one": []});
    assert_eq!(json(&loaded.machine), expected);

    let mut other = PlanBuilder::default();
    other.channel("small", Arc::new(Append::<u32>::new()));
    other.node("a");
    other.edge("START", "a");
    let other = Arc::new(other.build().expect("a sound graph"));
    let refused = rows.get(&other, 1).expect_err("a channel of another kind");
    assert!(refused.to_string().contains("channel `small` was `last_value`"), "{refused}");
}
