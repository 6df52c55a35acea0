//! Generated plans, and generated outputs of their tasks.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_engine::channel::{Append, Ephemeral, LastValue, Reduce, Topic};
use weftwork_engine::codec::encode;
use weftwork_engine::plan::START;
use weftwork_engine::pregel::{Ahead, Done, Machine, Path, StartInput, Task};
use weftwork_engine::task::Arg;
use weftwork_engine::{
    ChannelIdx, EngineError, Goto, NodeIdx, Plan, PlanBuilder, TaskOutput, Unknown, Write,
};
use weftwork_types::CheckpointId;

/// Names of nodes that edges, routes and joins lead to. Their order is not the one in which they
/// are added.
const NAMES: [&str; 5] = ["d", "b", "e", "a", "c"];
/// Names of nodes that only a join leads to, one each.
const WAITING: [&str; 2] = ["bb", "aa"];
const CHANNELS: [&str; 5] = ["log", "sum", "any", "topic", "last"];

/// A generated graph. Numbers of nodes count those of [`NAMES`] first.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    entry: Vec<usize>,
    edges: Vec<Edge>,
    joins: Vec<Join>,
    /// The sources of the join of each waiting node.
    pub(crate) waits: Vec<BTreeSet<usize>>,
    pub(crate) deferred: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
struct Edge {
    from: usize,
    to: usize,
}

#[derive(Debug, Clone)]
struct Join {
    sources: BTreeSet<usize>,
    to: usize,
}

/// The build of a generated graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Plain,
    /// With a further node and channel, which are added before the others.
    Extended,
    NoChannels,
}

impl Drawn {
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + use<> {
        NAMES.len()..NAMES.len() + WAITING.len()
    }

    pub(crate) fn plan(&self, build: Build) -> Arc<Plan> {
        let mut builder = PlanBuilder::default();
        builder.unknown(Unknown::Ignore);
        if build == Build::Extended {
            builder.channel("added", Arc::new(Append::<u64>::new()));
            builder.node("added");
        }
        if build != Build::NoChannels {
            let mixed = Reduce::<u64>::new(|| 0, |all, n| all.wrapping_mul(31).wrapping_add(n));
            builder.channel("log", Arc::new(Append::<u64>::new()));
            builder.channel("sum", Arc::new(mixed));
            builder.channel("any", Arc::new(Ephemeral::<u64>::any()));
            builder.channel("topic", Arc::new(Topic::<u64>::new()));
            builder.channel("last", Arc::new(LastValue::<u64>::new()));
        }
        for number in 0..NAMES.len() + WAITING.len() {
            builder.node(name(number));
        }
        self.deferred.iter().for_each(|node| builder.defer(name(*node)));
        self.entry.iter().for_each(|node| builder.edge(START, name(*node)));
        self.edges.iter().for_each(|edge| builder.edge(name(edge.from), name(edge.to)));
        let names = |sources: &BTreeSet<usize>| sources.iter().map(|node| name(*node)).collect();
        for join in &self.joins {
            builder.join(names(&join.sources), name(join.to));
        }
        for (sources, node) in self.waits.iter().zip(self.waiting()) {
            builder.join(names(sources), name(node));
        }
        Arc::new(builder.build().expect("sound"))
    }
}

fn name(number: usize) -> String {
    let mut names = NAMES.iter().chain(&WAITING);
    (*names.nth(number).expect("a node")).to_owned()
}

/// The output of a task.
#[derive(Debug, Clone)]
struct Output {
    writes: Vec<(usize, u8)>,
    leads: Vec<Lead>,
    edges: bool,
}

#[derive(Debug, Clone)]
enum Lead {
    Node(usize),
    Send(usize, u8),
    End,
}

/// A thread of a generated graph.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) graph: Drawn,
    outputs: Vec<Output>,
    /// For each superstep, `true` if new input comes before it, even if nodes are due.
    pub(crate) inputs: Vec<bool>,
}

/// A finished task.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) task: Task,
    pub(crate) output: TaskOutput,
    pub(crate) edges: bool,
}

impl Scenario {
    /// Gives the machine new input if it is time for it, or if nothing is due; returns `true` if it
    /// did.
    pub(crate) fn take_input(&self, machine: &mut Machine, step: usize) -> bool {
        let takes = self.inputs[step] || machine.is_done().expect("sound");
        if takes {
            let writes_log = machine.plan().channel_idx("log").is_some();
            let input = if writes_log { json!({"log": [step], "sum": 2}) } else { json!({}) };
            machine.take_input(StartInput::Json(Arc::new(input))).expect("sound");
        }
        takes
    }

    /// The tasks that are due, with their outputs.
    pub(crate) fn ended(&self, machine: &Machine, step: usize) -> Vec<Ended> {
        let due = machine.due().expect("sound");
        due.into_iter().map(|task| self.end(machine, step, task)).collect()
    }

    fn end(&self, machine: &Machine, step: usize, task: Task) -> Ended {
        if task.node == NodeIdx::START {
            let output = machine.start_output().expect("it fits").as_ref().clone();
            return Ended { task, output, edges: true };
        }
        let position = match task.path {
            Path::Push(index) => 1 + index as usize,
            _ => 0,
        };
        let at = step * 31 + task.node.0 * 7 + position;
        let drawn = &self.outputs[at % self.outputs.len()];
        let mut output = TaskOutput::default();
        for (channel, n) in &drawn.writes {
            let name = CHANNELS[*channel];
            let json = if matches!(name, "log" | "topic") { json!([n]) } else { json!(n) };
            let index = machine.plan().channel_idx(name);
            index.into_iter().for_each(|index| output.write(index, Write::json(json.clone())));
        }
        output.goto = drawn.leads.iter().map(goto).collect();
        Ended { task, output, edges: drawn.edges }
    }
}

fn goto(lead: &Lead) -> Goto {
    match lead {
        Lead::Node(node) => Goto::Node(name(*node).into()),
        Lead::Send(node, n) => {
            let arg = Arg { typed: None, json: json!(n) };
            Goto::Send { node: name(*node).into(), arg: arg.into() }
        }
        Lead::End => Goto::End,
    }
}

/// Closes a superstep; returns the written channels, or the error.
pub(crate) fn close(
    machine: &mut Machine,
    ended: &[Ended],
    ahead: Option<Ahead>,
) -> Result<Vec<ChannelIdx>, EngineError> {
    let done = ended.iter().map(|Ended { task, output, edges }| {
        let edges = *edges;
        Done { task, output, edges }
    });
    let mut written = Vec::new();
    machine.apply_ahead(&mut done.collect::<Vec<_>>(), ahead, &mut written)?;
    Ok(written)
}

/// A checkpoint as one whole row.
pub(crate) fn row(machine: &Machine) -> Vec<u8> {
    encode(machine, CheckpointId(1), None, b"").expect("it can be written").bytes
}

/// The state of a machine and its next superstep.
pub(crate) fn shown(machine: &Machine) -> String {
    let plan = machine.plan();
    let values: Vec<Option<Json>> =
        CHANNELS.iter().map(|name| plan.channel_json(machine.slots(), name)).collect();
    format!("{values:?}, next {:?}, last {:?}", next(machine), machine.last_node())
}

/// The tasks of the next superstep, in order.
pub(crate) fn next(machine: &Machine) -> Vec<String> {
    names(machine, machine.due().expect("sound"))
}

pub(crate) fn names(machine: &Machine, tasks: Vec<Task>) -> Vec<String> {
    let shown = tasks.into_iter().map(|task| {
        let arg = task.arg.map(|arg| arg.json.to_string()).unwrap_or_default();
        format!("{} {} {arg}", machine.plan().node_name(task.node), task.path)
    });
    shown.collect()
}

fn nodes(most: usize) -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..NAMES.len() + WAITING.len(), 1..=most)
}

fn graph() -> impl Strategy<Value = Drawn> {
    let any = 0..NAMES.len() + WAITING.len();
    let edge = (any, 0..NAMES.len()).prop_map(|(from, to)| Edge { from, to });
    let join = (nodes(3), 0..NAMES.len()).prop_map(|(sources, to)| Join { sources, to });
    let parts = (
        prop::collection::vec(0..NAMES.len(), 1..4),
        prop::collection::vec(edge, 0..8),
        prop::collection::vec(join, 0..3),
        prop::collection::vec(nodes(3), WAITING.len()),
        prop::collection::btree_set(0..NAMES.len() + WAITING.len(), 0..3),
    );
    parts.prop_map(|(entry, edges, joins, waits, deferred)| Drawn {
        entry,
        edges,
        joins,
        waits,
        deferred,
    })
}

fn output() -> impl Strategy<Value = Output> {
    let lead = prop_oneof![
        4 => (0..NAMES.len()).prop_map(Lead::Node),
        3 => (0..NAMES.len() + WAITING.len(), any::<u8>()).prop_map(|(node, n)| Lead::Send(node, n)),
        1 => Just(Lead::End),
    ];
    // Two writes to the last channel in one superstep are an error.
    let channel = prop_oneof![12 => 0..CHANNELS.len() - 1, 1 => Just(CHANNELS.len() - 1)];
    let writes = prop::collection::vec((channel, any::<u8>()), 0..4);
    let edges = prop::bool::weighted(0.8);
    let parts = (writes, prop::collection::vec(lead, 0..3), edges);
    parts.prop_map(|(writes, leads, edges)| Output { writes, leads, edges })
}

pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    let inputs = prop::collection::vec(prop::bool::weighted(0.1), 1..16);
    let parts = (graph(), prop::collection::vec(output(), 1..12), inputs);
    parts.prop_map(|(graph, outputs, inputs)| Scenario { graph, outputs, inputs })
}
