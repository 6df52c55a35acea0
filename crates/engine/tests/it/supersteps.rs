//! The laws of the superstep machine, over generated plans and outputs.

use crate::drawn::{Build, Drawn, Ended, close, names, next, row, scenario, shown};
use crate::rows::Rows;
use proptest::prelude::*;
use std::collections::BTreeSet;
use weftwork_engine::NodeIdx;
use weftwork_engine::codec::open_row;
use weftwork_engine::pregel::{Machine, Path, Task};

/// The names of tasks, without their order.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// The nodes of tasks to which an edge, a route or a join led.
fn pulled(tasks: &[Task]) -> BTreeSet<usize> {
    let pulled = tasks.iter().filter(|task| task.path == Path::Pull && task.node != NodeIdx::START);
    pulled.map(|task| task.node.0).collect()
}

/// The finished sources of the joins of waiting nodes, counted anew after each superstep in which
/// such a node ran.
struct Joins<'a> {
    graph: &'a Drawn,
    arrived: Vec<BTreeSet<usize>>,
}

impl<'a> Joins<'a> {
    fn new(graph: &'a Drawn) -> Self {
        Self { graph, arrived: vec![BTreeSet::new(); graph.waits.len()] }
    }

    /// Empties the sets of nodes that ran or were dropped.
    fn empty(&mut self, ran: &BTreeSet<usize>) {
        let waiting = self.graph.waiting().zip(&mut self.arrived);
        waiting.filter(|(node, _)| ran.contains(node)).for_each(|(_, arrived)| arrived.clear());
    }

    fn arrive(&mut self, ended: &[Ended]) {
        for ended in ended.iter().filter(|ended| ended.edges) {
            let node = ended.task.node.0;
            let joins = self.graph.waits.iter().zip(&mut self.arrived);
            for (_, arrived) in joins.filter(|(sources, _)| sources.contains(&node)) {
                arrived.insert(node);
            }
        }
    }

    /// The waiting nodes all of whose sources are finished.
    fn full(&self) -> BTreeSet<usize> {
        let joins = self.graph.waiting().zip(self.graph.waits.iter().zip(&self.arrived));
        joins.filter(|(_, (sources, arrived))| sources == arrived).map(|(node, _)| node).collect()
    }
}

/// The counts of changes in a checkpoint of a plan without channels: those of the state, and of
/// each trigger the last change and the last read.
fn counts(machine: &Machine) -> Vec<u32> {
    let row = row(machine);
    let mut reader = open_row(&row).expect("a row").1;
    assert_eq!(reader.bytes().expect("a row"), b"", "nothing of the caller");
    assert_eq!(reader.byte().expect("a row"), 0, "no channels");
    let mut number = || reader.number::<u32>().expect("a number");
    let mut counts = vec![number(), number(), number(), number()];
    let changed = number();
    // More than the nodes and joins of a generated graph.
    counts.resize(4 + 2 * 20, 0);
    for _ in 0..changed {
        let at = 4 + 2 * number() as usize;
        counts[at] = number();
        counts[at + 1] = number();
        number();
    }
    counts
}

proptest! {
    #[test]
    fn the_order_in_which_tasks_end_changes_nothing(
        scenario in scenario(),
        order in prop::collection::vec(any::<u8>(), 5..9),
    ) {
        let mut machine = Machine::new(scenario.graph.plan(Build::Plain));
        for step in 0..scenario.inputs.len() {
            scenario.take_input(&mut machine, step);
            let ended = scenario.ended(&machine, step);
            let mut keys = order.iter().cycle();
            let mut later = ended.clone();
            later.sort_by_cached_key(|_| keys.next());
            let mut other = machine.clone();
            let written = close(&mut machine, &ended, None);
            prop_assert_eq!(&close(&mut other, &later, None), &written);
            if written.is_err() {
                break;
            }
            prop_assert_eq!(shown(&other), shown(&machine));
            prop_assert_eq!(row(&other), row(&machine));
        }
    }

    #[test]
    fn a_thread_that_is_stored_and_loaded_after_each_superstep_comes_to_the_same(
        scenario in scenario(),
    ) {
        let plan = scenario.graph.plan(Build::Plain);
        let mut rows = Rows::default();
        let mut machine = Machine::new(plan.clone());
        let mut loaded = machine.clone();
        for step in 0..scenario.inputs.len() {
            for machine in [&mut machine, &mut loaded] {
                scenario.take_input(machine, step);
            }
            let ended = scenario.ended(&machine, step);
            let written = close(&mut machine, &ended, None);
            let again = scenario.ended(&loaded, step);
            prop_assert_eq!(&close(&mut loaded, &again, None), &written);
            if written.is_err() {
                break;
            }
            rows.put(&loaded);
            loaded = rows.newest(&plan, &plan);
            prop_assert_eq!(shown(&loaded), shown(&machine));
            prop_assert_eq!(row(&loaded), row(&machine));
        }
    }

    #[test]
    fn a_join_is_due_once_each_time_all_its_sources_have_ended(scenario in scenario()) {
        let graph = &scenario.graph;
        let mut machine = Machine::new(graph.plan(Build::Plain));
        let mut joins = Joins::new(graph);
        for step in 0..scenario.inputs.len() {
            let due = pulled(&machine.due().expect("sound"));
            if scenario.take_input(&mut machine, step) {
                joins.empty(&due);
            }
            let ended = scenario.ended(&machine, step);
            joins.empty(&pulled(&machine.due().expect("sound")));
            joins.arrive(&ended);
            if close(&mut machine, &ended, None).is_err() {
                break;
            }
            let full = joins.full();
            let mut due = pulled(&machine.due().expect("sound"));
            due.retain(|node| graph.waiting().any(|waiting| waiting == *node));
            prop_assert!(due.is_subset(&full), "{due:?} of {full:?}");
            let held: Vec<_> = full.difference(&due).collect();
            prop_assert!(held.iter().all(|node| graph.deferred.contains(node)), "{held:?}");
            prop_assert!(held.is_empty() || !machine.is_done().expect("sound"), "{held:?}");
        }
    }

    #[test]
    fn counts_of_changes_never_go_down(scenario in scenario(), passes in any::<u16>()) {
        let mut machine = Machine::new(scenario.graph.plan(Build::NoChannels));
        let mut before = counts(&machine);
        for step in 0..scenario.inputs.len() {
            scenario.take_input(&mut machine, step);
            if passes >> step & 1 == 1 {
                machine.pass();
            }
            let ended = scenario.ended(&machine, step);
            close(&mut machine, &ended, None).expect("no writes");
            let after = counts(&machine);
            let less = before.iter().zip(&after).position(|(before, after)| before > after);
            prop_assert_eq!(less, None, "{:?}, then {:?}", before, after);
            let most = after.iter().max();
            prop_assert_eq!(most, after.first(), "the state counts all changes");
            before = after;
        }
    }

    #[test]
    fn the_next_superstep_is_the_one_planned_from_the_stored_checkpoint(scenario in scenario()) {
        let plan = scenario.graph.plan(Build::Plain);
        let extended = scenario.graph.plan(Build::Extended);
        let mut rows = Rows::default();
        let mut machine = Machine::new(plan.clone());
        for step in 0..scenario.inputs.len() {
            scenario.take_input(&mut machine, step);
            let ended = scenario.ended(&machine, step);
            if close(&mut machine, &ended, None).is_err() {
                break;
            }
            rows.put(&machine);
            let due = next(&machine);
            prop_assert_eq!(&next(&rows.newest(&plan, &plan)), &due);
            let due = sorted(due);
            prop_assert_eq!(&sorted(next(&rows.newest(&extended, &plan))), &due);
            let all = names(&machine, machine.due_in_order().expect("sound"));
            prop_assert_eq!(&sorted(all), &due, "all nodes are checked");
        }
    }

    #[test]
    fn writes_that_were_applied_ahead_close_the_superstep_as_all_others(scenario in scenario()) {
        let plan = scenario.graph.plan(Build::Plain);
        let mut machine = Machine::new(plan.clone());
        for step in 0..scenario.inputs.len() {
            scenario.take_input(&mut machine, step);
            let ended = scenario.ended(&machine, step);
            let ahead = match ended.as_slice() {
                [only] => plan.ahead(machine.slots(), only.task.node, &only.output).ok(),
                _ => None,
            };
            let mut other = machine.clone();
            let written = close(&mut machine, &ended, None);
            prop_assert_eq!(&close(&mut other, &ended, ahead), &written);
            if written.is_err() {
                break;
            }
            prop_assert_eq!(shown(&other), shown(&machine));
            prop_assert_eq!(row(&other), row(&machine));
        }
    }
}

#[test]
fn a_record_of_a_newer_version_is_w0106() {
    let error = open_row(&[99]).expect_err("newer");
    assert_eq!(error.code().0, "W0106");
    assert_eq!(
        error.to_string(),
        "the stored checkpoint has format 99, this program knows up to 1; use a newer program"
    );
}
