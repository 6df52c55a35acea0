//! A machine that is rebuilt from its records goes on exactly like the one that wrote them.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use weftwork_engine::channel::{Append, Fleeting, LastValue, Reduce, Topic};
use weftwork_engine::plan::START;
use weftwork_engine::task::Arg;
use weftwork_engine::{
    ChannelIdx, Closed, Goto, Machine, Plan, PlanBuilder, StepRecord, Task, TaskOutput, Write,
    record,
};
use weftwork_types::CheckpointId;

const NODES: usize = 5;
const CHANNELS: [&str; 5] = ["last", "sum", "log", "one", "topic"];

/// A random graph: edges, joins and deferrals among five nodes.
#[derive(Debug, Clone)]
struct Shape {
    edges: Vec<(usize, usize)>,
    joins: Vec<(Vec<usize>, usize)>,
    deferred: Vec<usize>,
}

/// What a task does, chosen by numbers.
#[derive(Debug, Clone)]
struct Act {
    writes: Vec<(usize, u8)>,
    goto: Option<usize>,
    send: Option<(usize, u8)>,
}

fn node(index: usize) -> String {
    format!("n{}", index % NODES)
}

fn shape() -> impl Strategy<Value = Shape> {
    let index = 0..NODES;
    (
        prop::collection::vec((index.clone(), index.clone()), 1..8),
        prop::collection::vec((prop::collection::vec(index.clone(), 1..4), index.clone()), 0..3),
        prop::collection::vec(index, 0..2),
    )
        .prop_map(|(edges, joins, deferred)| Shape { edges, joins, deferred })
}

fn act() -> impl Strategy<Value = Act> {
    (
        prop::collection::vec((0..CHANNELS.len(), any::<u8>()), 0..3),
        prop::option::weighted(0.3, 0..NODES),
        prop::option::weighted(0.3, (0..NODES, any::<u8>())),
    )
        .prop_map(|(writes, goto, send)| Act { writes, goto, send })
}

fn plan(shape: &Shape) -> Arc<Plan> {
    let mut builder = PlanBuilder::default();
    builder.channel("last", Arc::new(Fleeting::<u64>::any()));
    builder.channel("sum", Arc::new(Reduce::<u64>::new(|| 0, u64::wrapping_add)));
    builder.channel("log", Arc::new(Append::<u64>::new()));
    builder.channel("one", Arc::new(LastValue::<u64>::starting_with(|| 1)));
    builder.channel("topic", Arc::new(Topic::<u64>::new()));
    (0..NODES).for_each(|i| {
        builder.node(node(i));
    });
    builder.edge(START, node(0));
    shape.edges.iter().for_each(|(a, b)| builder.edge(node(*a), node(*b)));
    for (from, to) in &shape.joins {
        builder.join(from.iter().map(|i| node(*i)).collect(), node(*to));
    }
    shape.deferred.iter().for_each(|i| builder.defer(node(*i)));
    // Commands may lead anywhere, so no node is unreachable.
    builder.route(node(0), Vec::new());
    Arc::new(builder.build().expect("sound"))
}

fn output(act: &Act, taken: &mut Vec<usize>) -> TaskOutput {
    let mut output = TaskOutput::default();
    for (channel, n) in &act.writes {
        // `one` takes a single write in each superstep.
        if CHANNELS[*channel] == "one" && taken.contains(channel) {
            continue;
        }
        taken.push(*channel);
        let json =
            if matches!(CHANNELS[*channel], "log" | "topic") { json!([n]) } else { json!(n) };
        output.writes.push((ChannelIdx(*channel), Write::Json(json)));
    }
    output.goto.extend(act.goto.map(|i| Goto::Node(node(i))));
    output.goto.extend(
        act.send
            .map(|(i, n)| Goto::Send { node: node(i), arg: Arg { typed: None, json: json!(n) } }),
    );
    output
}

/// Everything that shows: the state, and the tasks that are due with what they were sent.
fn shown(machine: &Machine) -> (Json, Vec<(String, Option<Json>)>, i64) {
    let state = machine.plan().to_json(machine.slots()).expect("JSON");
    let tasks = machine.tasks().into_iter().map(|task| {
        let name = format!("{} {} {}", task.id, machine.plan().node_name(task.node), task.path);
        (name, task.arg.map(|arg| arg.json))
    });
    (state, tasks.collect(), machine.step())
}

/// Stores a step as a store would, and applies it to a machine that was not there.
fn replay(onto: &mut Machine, closed: &Closed, id: CheckpointId) {
    let stored = onto.plan().record(closed).expect("it can be stored");
    let bytes = record::write(closed.step, &stored).expect("JSON");
    let read: StepRecord = record::read(closed.step, &bytes).expect("it reads back");
    assert_eq!(read, stored);
    onto.restore(id, closed.step, read).expect("it fits the graph");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_rebuilt_machine_is_the_same_after_every_step(
        shape in shape(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let plan = plan(&shape);
        let mut live = Machine::new(Arc::clone(&plan));
        let mut rebuilt = Machine::new(plan);
        let mut acts = acts.iter().cycle().take(60);
        let mut id = 0;
        for turn in 0..3 {
            let writes = vec![(ChannelIdx(2), Write::Json(json!([turn])))];
            let closed = live.input(writes, Vec::new()).expect("input fits");
            id += 1;
            live.set_head(CheckpointId(id));
            replay(&mut rebuilt, &closed, CheckpointId(id));
            prop_assert_eq!(shown(&live), shown(&rebuilt));
            for _ in 0..8 {
                let (mut taken, tasks) = (Vec::new(), live.tasks());
                if tasks.is_empty() || tasks.len() > 12 {
                    break;
                }
                let idle = Act { writes: Vec::new(), goto: None, send: None };
                let done: Vec<(Task, TaskOutput)> = tasks
                    .into_iter()
                    .map(|task| (task, output(acts.next().unwrap_or(&idle), &mut taken)))
                    .collect();
                let closed = live.close(done).expect("the writes fit");
                id += 1;
                live.set_head(CheckpointId(id));
                replay(&mut rebuilt, &closed, CheckpointId(id));
                prop_assert_eq!(shown(&live), shown(&rebuilt));
            }
        }
    }

    /// Arbitrary bytes are an error or a record, never a panic.
    #[test]
    fn hostile_records_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(step) = record::read::<StepRecord>(1, &bytes) {
            let shape = Shape { edges: vec![(0, 1)], joins: Vec::new(), deferred: Vec::new() };
            let mut machine = Machine::new(plan(&shape));
            machine.restore(CheckpointId(1), 1, step).unwrap_or_default();
        }
    }
}

#[test]
fn records_that_do_not_fit_are_refused_by_name() {
    let shape = Shape { edges: vec![(0, 1)], joins: Vec::new(), deferred: Vec::new() };
    let cases = [
        (json!({"v": 0, "tasks": [], "due": {}, "extra": 1}), "unknown field `extra`"),
        (json!({"v": 0, "tasks": []}), "missing field `due`"),
        (
            json!({"v": 0, "tasks": [{"left": {"writes": [["gone", {"put": 1}]]}}], "due": {}}),
            "a stored record names channel `gone`",
        ),
        (
            json!({"v": 0, "tasks": [{"left": {"writes": [["sum", {"put": "x"}]]}}], "due": {},
                "set": {"sum": "x"}}),
            "channel `sum`",
        ),
        (
            json!({"v": 0, "tasks": [], "due": {"triggers": {"branch:to:gone": {}}}}),
            "waits at node `gone`",
        ),
        (
            json!({"v": 0, "tasks": [], "due": {"sends": [{"node": "gone", "arg": 1}]}}),
            "waits at node `gone`",
        ),
    ];
    for (stored, text) in cases {
        let bytes = serde_json::to_vec(&stored).expect("JSON");
        let restored = record::read::<StepRecord>(1, &bytes)
            .and_then(|step| Machine::new(plan(&shape)).restore(CheckpointId(1), 0, step));
        let error = restored.expect_err("refused").to_string();
        assert!(error.contains(text), "{stored}: {error}");
    }
}
