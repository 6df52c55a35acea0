//! Bytes of a store are hostile: whatever they are, reading them is an error or a checkpoint, and
//! one that does not fit its graph is an error too. Nothing panics, and what was read can go on.
//!
//! `WEFT_FUZZ_SEED` and `WEFT_FUZZ_ROUNDS` choose another run; each failure names its seed.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::channel::{Append, Ephemeral, LastValue, Messages, Reduce, Topic};
use weftwork_engine::codec::{
    DeltaBase, INLINE_MAX, Layout, LayoutId, Loader, OutputReader, Reader, ReferenceRow, Text,
    ValueLocation, Writer, encode, open_row, read_output, write_output,
};
use weftwork_engine::plan::START;
use weftwork_engine::pregel::{Done, Machine, StartInput};
use weftwork_engine::task::Arg;
use weftwork_engine::{EngineError, Goto, Plan, PlanBuilder, TaskOutput, Write};
use weftwork_testkit::fuzz::{self, Random, mutated};
use weftwork_types::CheckpointId;
use weftwork_types::canonical::{Hash, hash_bytes};

const ROUNDS: u64 = 12_000;
const SUPERSTEPS: u128 = 90;
/// A text that is worth the while to name where it is.
const LONG: &str = "say what was said before, and then say that it was said before, and again";
/// Format and layout of a row.
const HEAD: usize = 17;

fn plan(extra: bool) -> Arc<Plan> {
    let mut builder = PlanBuilder::default();
    if extra {
        builder.channel("new", Arc::new(Append::<u64>::new()));
        builder.node("new");
        builder.edge(START, "new");
    }
    builder.channel("s", Arc::new(LastValue::<Json>::new()));
    builder.channel("log", Arc::new(Append::<String>::new()));
    builder.channel("sum", Arc::new(Reduce::<u64>::new(|| 0, u64::wrapping_add)));
    builder.channel("topic", Arc::new(Topic::<u64>::new()));
    builder.channel("brief", Arc::new(Ephemeral::<u64>::any()));
    builder.channel("messages", Arc::new(Messages));
    for name in ["a", "b", "c"] {
        builder.node(name);
    }
    builder.defer("c");
    builder.edge(START, "a");
    builder.edge("a", "b");
    builder.join(vec!["a".into(), "b".into()], "c");
    Arc::new(builder.build().expect("sound"))
}

/// The output of a task of this superstep.
fn output(plan: &Plan, step: u128) -> TaskOutput {
    let message = json!([{"id": format!("m{}", step % 7), "role": "user",
        "parts": [{"type": "text", "text": format!("say {step}")}]}]);
    let mut writes = vec![
        ("log", json!([format!("line {step}")])),
        ("messages", message),
        ("sum", json!(1)),
        ("topic", json!([step % 9])),
    ];
    writes.truncate(4 - usize::try_from(step % 3).unwrap_or_default());
    let write = |(name, json)| Some((plan.channel_idx(name)?, Write::json(json)));
    let mut output = TaskOutput {
        writes: writes.into_iter().filter_map(write).collect(),
        ..TaskOutput::default()
    };
    if step.is_multiple_of(5) {
        let large = "x".repeat(INLINE_MAX);
        let index = plan.channel_idx("s").expect("a channel");
        output.writes.push((index, Write::overwrite(json!({"large": large, "step": step as u64}))));
    }
    if step.is_multiple_of(4) {
        let arg = Arg { typed: None, json: json!(LONG) };
        output.goto.push(Goto::Send { node: "a".into(), arg: arg.into() });
    }
    output.goto.push(if step.is_multiple_of(2) { Goto::Node("b".into()) } else { Goto::End });
    output
}

/// The stored records of a thread.
struct Corpus {
    plan: Arc<Plan>,
    /// The same graph with one more node and channel.
    newer: Arc<Plan>,
    rows: Vec<Vec<u8>>,
    blobs: BTreeMap<Hash, Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    /// A row of which outputs name parts.
    text: Vec<u8>,
}

impl Corpus {
    fn new() -> Self {
        let plan = plan(false);
        let mut corpus = Self {
            newer: self::plan(true),
            rows: Vec::new(),
            blobs: BTreeMap::new(),
            outputs: Vec::new(),
            text: serde_json::to_vec(&[LONG]).expect("JSON"),
            plan: Arc::clone(&plan),
        };
        let mut machine = Machine::new(Arc::clone(&plan));
        let mut delta_base: Option<DeltaBase> = None;
        for step in 0..SUPERSTEPS {
            if machine.is_done().expect("sound") {
                machine
                    .take_input(StartInput::Json(Arc::new(json!({"log": [LONG], "sum": 2}))))
                    .expect("sound");
            }
            delta_base = Some(corpus.put(&machine, delta_base.as_ref()));
            let due = machine.due().expect("sound");
            let outputs: Vec<_> = due
                .iter()
                .map(|task| match plan.node_name(task.node) {
                    "__start__" => machine.start_output().expect("it fits").as_ref().clone(),
                    _ => output(&plan, step),
                })
                .collect();
            // One task in each superstep writes what takes one write only.
            let mut done: Vec<_> = due
                .iter()
                .zip(&outputs)
                .map(|(task, output)| Done { task, output, edges: step % 11 != 3 })
                .take(if step.is_multiple_of(5) { 1 } else { 9 })
                .collect();
            machine.apply(&mut done, &mut Vec::new()).expect("the writes fit");
            let mut out = Writer::default();
            out.refer_to(Text::of(&corpus.text).map(|text| ReferenceRow { off: 1, text }));
            write_output(&mut out, &plan, &output(&plan, step)).expect("it can be written");
            let (bytes, blobs) = out.finish();
            corpus.outputs.push(bytes);
            corpus.blobs.extend(blobs);
        }
        corpus
    }

    fn put(&mut self, machine: &Machine, since: Option<&DeltaBase>) -> DeltaBase {
        let id = CheckpointId(1 + self.rows.len() as u128);
        let encoded = encode(machine, id, since, b"rest").expect("it can be written");
        self.blobs.extend(encoded.blobs);
        self.rows.push(encoded.bytes);
        encoded.delta_base
    }

    /// Reads a checkpoint by a build of the graph, with one row other than it was.
    fn load(&self, plan: &Arc<Plan>, id: usize, other: (usize, &[u8]), layout: &Layout) -> Way {
        let of = |id: CheckpointId| -> Option<&[u8]> {
            let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
            let row = self.rows.get(index).map(Vec::as_slice)?;
            Some(if index == other.0 { other.1 } else { row })
        };
        let at = CheckpointId(id as u128 + 1);
        let row = of(at).ok_or(EngineError::Damaged { at: 0, expected: "a row" })?;
        let mut loader = Loader::new(plan, at, row.to_vec(), layout)?;
        let mut asked = 0;
        loop {
            let wants = loader.wants();
            if wants.is_empty() {
                break;
            }
            for id in wants.rows {
                asked += 1;
                assert!(asked <= self.rows.len() * 8, "it leads round in circles");
                let Some(row) = of(id) else { return Ok("misses a row".to_owned()) };
                open_row(row)?;
                loader.row(id, row, layout)?;
            }
            for hash in wants.blobs {
                let Some(blob) = self.blobs.get(&hash) else {
                    return Ok("misses a blob".to_owned());
                };
                loader.blob(hash, blob.clone());
            }
        }
        let loaded = loader.finish()?;
        Ok(goes_on(loaded.machine, &loaded.delta_base))
    }

    fn read_output(&self, bytes: &[u8]) -> Way {
        let known = |place| match place {
            ValueLocation::Blob(hash) => self.blobs.get(&hash).cloned(),
            ValueLocation::RowSlice(there) => there.of(&self.text).map(<[u8]>::to_vec),
        };
        let mapped = self.plan.layout().mapped(&self.plan)?;
        let with = OutputReader { plan: &self.plan, mapped: &mapped, elsewhere: &known };
        let read = read_output(&mut Reader::new(bytes), &with)?;
        Ok(format!("{} writes", read.writes.len().min(4)))
    }

    /// The names of a build with changes, under the hash that they then have, and a row of it.
    fn other_layout(&self, random: &mut Random) -> Way {
        let names = self.plan.layout().bytes();
        let bytes = mutated(names, &[self.newer.layout().bytes()], 1, random);
        let mut id = LayoutId([0; 16]);
        id.0.copy_from_slice(&hash_bytes(&bytes).0[..16]);
        let layout = Layout::read(id, &bytes)?;
        layout.mapped(&self.plan)?;
        self.load(&self.plan, random.below(self.rows.len()), (usize::MAX, &[]), &layout)
    }
}

/// The outcome of one input, in a word.
type Way = Result<String, EngineError>;

/// A checkpoint that was read is one: it is looked at, written again, and goes on.
fn goes_on(mut machine: Machine, delta_base: &DeltaBase) -> String {
    let plan = Arc::clone(machine.plan());
    let due = machine.due().expect("sound").len();
    machine.start_output().map(drop).unwrap_or_default();
    encode(&machine, CheckpointId(u128::MAX), Some(delta_base), b"").map(drop).unwrap_or_default();
    let mut outputs = vec![TaskOutput::default(); due];
    for output in &mut outputs {
        output.goto.push(Goto::Node("b".into()));
    }
    let tasks = machine.due().expect("sound");
    let mut done: Vec<_> = tasks
        .iter()
        .zip(&outputs)
        .map(|(task, output)| Done { task, output, edges: true })
        .collect();
    let applied = machine.apply(&mut done, &mut Vec::new());
    machine.take_input(StartInput::Json(Arc::new(json!({})))).expect("sound");
    let values = plan.channel_names().filter(|n| plan.channel_json(machine.slots(), n).is_some());
    let values = values.count();
    let went = if applied.is_ok() { "goes on" } else { "stops" };
    format!("read, {} due, {values} values, {went}", due.min(5))
}

fn describe(way: Way) -> String {
    way.unwrap_or_else(|error| {
        let name = format!("{error:?}");
        let expected = match &error {
            EngineError::Damaged { expected, .. } => expected,
            _ => "",
        };
        format!("{} {} {expected}", error.code(), name.split([' ', '{']).next().unwrap_or_default())
    })
}

#[test]
fn stored_bytes_never_panic() {
    let corpus = Corpus::new();
    let none = (usize::MAX, [].as_slice());
    for id in 0..corpus.rows.len() {
        for plan in [&corpus.plan, &corpus.newer] {
            let came = describe(corpus.load(plan, id, none, corpus.plan.layout()));
            assert!(came.starts_with("read") && came.ends_with("goes on"), "row {id}: {came}");
        }
        assert!(describe(corpus.read_output(&corpus.outputs[id])).ends_with("writes"));
    }
    let all: Vec<&[u8]> = corpus.rows.iter().chain(&corpus.outputs).map(Vec::as_slice).collect();
    let ways = fuzz::rounds(ROUNDS, |random| {
        let at = random.below(corpus.rows.len());
        match random.below(8) {
            0 => format!("names: {}", describe(corpus.other_layout(random))),
            1 => {
                let bytes = mutated(&corpus.outputs[at], &all, 0, random);
                format!("output: {}", describe(corpus.read_output(&bytes)))
            }
            way => {
                // One time in many the head, which only names what it must be.
                let from = if random.below(20) == 0 { 0 } else { HEAD };
                let bytes = mutated(&corpus.rows[at], &all, from, random);
                let id = (at + random.below(3)).min(corpus.rows.len() - 1);
                let plan = if way == 2 { &corpus.newer } else { &corpus.plan };
                let layout = corpus.plan.layout();
                format!("row: {}", describe(corpus.load(plan, id, (at, &bytes), layout)))
            }
        }
    });
    let few = ways.values().sum::<u64>() < ROUNDS;
    let count = |word: &str| ways.keys().filter(|way| way.contains(word)).count();
    assert!(few || count("row: read") >= 6 && count("Damaged") >= 10, "the changes are too tame");
}
