//! Rows of tasks are hostile as rows of checkpoints are. Behind a checksum that fits, they are an
//! error or records that can be written again.

use super::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_engine::codec::{INLINE_MAX, ValueLocation};
use weftwork_engine::plan::PlanBuilder;
use weftwork_engine::task::Arg;
use weftwork_engine::{ChannelIdx, Goto, TaskOutput, Write};
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::CallList;
use weftwork_testkit::fuzz::{self, mutated};
use weftwork_types::Timestamp;
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::tool::Effect;

const ROUNDS: u64 = 10_000;
/// Format and layout of a row.
const HEAD: usize = 17;

fn plan() -> Plan {
    let mut plan = PlanBuilder::default();
    plan.channel("log", Arc::new(Append::<String>::new()));
    plan.channel("s", Arc::new(LastValue::<serde_json::Value>::new()));
    plan.node("a");
    plan.node("b");
    plan.edge("START", "a");
    plan.edge("a", "b");
    plan.build().expect("a sound graph")
}

fn output() -> TaskOutput {
    TaskOutput {
        writes: vec![
            (ChannelIdx(0), Write::json(json!(["line"]))),
            (ChannelIdx(1), Write::overwrite(json!({"large": "x".repeat(INLINE_MAX)}))),
        ]
        .into(),
        named: vec![("s".to_owned(), Write::json(json!(1)))],
        goto: vec![
            Goto::Node("b".into()),
            Goto::Send {
                node: "a".into(),
                arg: Arc::new(Arg { typed: None, json: json!({"i": 1}) }),
            },
            Goto::End,
        ],
    }
}

fn records() -> TaskRecords {
    let node = |node: &str, path| TaskKey::Node { node: node.into(), path };
    let call = |of: TaskKey| TaskKey::Call { name: "task".into(), of: Arc::new(of), index: 3 };
    let details: TaskDetails = serde_json::from_value(json!({
        "returned": null, "handled": true, "went_on": true, "resume": ["yes", 2],
        "error": {"code": "W0101", "message": "it broke"},
    }))
    .expect("what is known of a task");
    let done = |details| TaskRecord {
        writes: TaskWrites::Followed(Arc::new(output())),
        details,
        ..TaskRecord::default()
    };
    let called = TaskRecord { calls: CallList::of(calls(8)), ..done(None) };
    TaskRecords::from_vec(vec![
        (node("a", Path::Pull), called),
        (node("b", Path::Push(7)), done(Some(Box::new(details.clone())))),
        (node("b", Path::Handler(None)), TaskRecord::default()),
        (node("gone", Path::Handler(Some(2))), done(None)),
        (
            call(call(node("a", Path::Outside(0)))),
            TaskRecord { details: Some(Box::new(details)), ..TaskRecord::default() },
        ),
    ])
}

/// A call that ended, one of another node with a text as its result, and one that was begun.
fn calls(text: usize) -> Vec<Arc<CallRecord>> {
    let text = "x".repeat(text);
    let made = [("a", json!({"text": "yes"})), ("within", json!(text)), ("a", json!(null))];
    let calls = made.into_iter().zip(0u8..).map(|((node, value), n)| CallRecord {
        key: CallKey(Hash([n; 32])),
        kind: [CallKind::Model, CallKind::Tool, CallKind::Once][usize::from(n)],
        name: format!("call {n}"),
        node: node.to_owned(),
        step: i64::from(n) - 1,
        effect: [Effect::ReadOnly, Effect::ExternalSideEffect, Effect::StateChange][usize::from(n)],
        state: if n < 2 { CallState::Settled } else { CallState::Intent },
        result: (n < 2).then_some(CallResult { value }),
        made: 1,
        possibly_paid: u32::from(n),
        reused: 300,
        opened_at: Timestamp(1_700_000_000_000),
        settled_at: (n < 2).then_some(Timestamp(1_700_000_000_001 - 2 * i64::from(n))),
    });
    calls.map(Arc::new).collect()
}

#[test]
fn calls_come_back() {
    let plan = plan();
    let mut tasks = records();
    tasks[0].1.calls = CallList::of(calls(INLINE_MAX));
    let (row, blobs) = write_tasks(&plan, &tasks, None).expect("it can be written");
    assert_eq!(row[0], WITH_CALLS);
    let blobs: BTreeMap<_, _> = blobs.into_iter().collect();
    let (_, mut read) = open_as(Kind::Tasks, &row).expect("a row");
    let mapped = plan.layout().mapped(&plan).expect("the same build");
    let known = |place| match place {
        ValueLocation::Blob(hash) => blobs.get(&hash).cloned(),
        ValueLocation::RowSlice(_) => None,
    };
    let reader = RowReader { plan: &plan, mapped: &mapped, elsewhere: &known };
    let found = reader.tasks(&mut read).expect("it can be read");
    assert_eq!(found[0].1.calls, tasks[0].1.calls, "one has its result apart");
    let without: TaskRecords = records().into_iter().skip(1).collect();
    let (row, _) = write_tasks(&plan, &without, None).expect("it can be written");
    assert_eq!(row[0], VERSION, "older programs read what has no calls");
}

fn metadata() -> Metadata {
    Metadata {
        source: Source::Fork,
        step: -1,
        branch: Some(CheckpointId(3)),
        parents: BTreeMap::from([("in:1".to_owned(), CheckpointId(4))]),
        delta: BTreeMap::from([("log".to_owned(), (5, 6))]),
    }
}

/// Reads the bytes as each kind of row that is not a checkpoint.
fn read(plan: &Plan, blobs: &BTreeMap<Hash, Vec<u8>>, kind: Kind, bytes: &[u8]) -> String {
    let way = || -> Result<String, EngineError> {
        if kind == Kind::Checkpoint {
            let (metadata, parent) = read_metadata(bytes)?;
            let again = write_metadata(&metadata, parent);
            assert_eq!(read_metadata(&again)?.1, parent);
            return Ok("how it came about".to_owned());
        }
        let (_, mut row) = open_as(kind, bytes)?;
        let mapped = plan.layout().mapped(plan)?;
        let known = |place| match place {
            ValueLocation::Blob(hash) => blobs.get(&hash).cloned(),
            ValueLocation::RowSlice(_) => None,
        };
        let reader = RowReader { plan, mapped: &mapped, elsewhere: &known };
        if kind == Kind::Outside {
            let outside = reader.outside(&mut row)?;
            write_outside(plan, &outside)?;
            return Ok("outside".to_owned());
        }
        let tasks = reader.tasks(&mut row)?;
        write_tasks(plan, &tasks, None)?;
        Ok(format!("{} tasks", tasks.len()))
    };
    way().unwrap_or_else(|error| format!("{} {error}", error.code()))
}

/// Returns the result without its numbers and values, to count the kinds.
fn brief(way: &str) -> String {
    let way = way.split(" at byte").next().unwrap_or_default();
    if way.contains("stored value") { "W0106 a value".to_owned() } else { way.to_owned() }
}

#[test]
fn rows_of_tasks_never_panic() {
    let plan = plan();
    let (tasks, blobs) = write_tasks(&plan, &records(), None).expect("it can be written");
    let blobs: BTreeMap<_, _> = blobs.into_iter().collect();
    let outside = ExternalInput { output: output(), resume: Some(json!({"answer": [1, null]})) };
    let (outside, _) = write_outside(&plan, &outside).expect("it can be written");
    let metadata = write_metadata(&metadata(), Some(CheckpointId(2)));
    let rows = [
        (Kind::Tasks, tasks, HEAD, "5 tasks"),
        (Kind::Outside, outside, HEAD, "outside"),
        (Kind::Checkpoint, metadata, 0, "how it came about"),
    ];
    for (kind, bytes, _, expected) in &rows {
        assert_eq!(read(&plan, &blobs, *kind, bytes), *expected);
    }
    let all: Vec<&[u8]> = rows.iter().map(|(_, bytes, ..)| bytes.as_slice()).collect();
    let ways = fuzz::rounds(ROUNDS, |random| {
        let (kind, bytes, head, _) = &rows[[0, 0, 0, 1, 2][random.below(5)]];
        let from = if random.below(20) == 0 { 0 } else { *head };
        let bytes = mutated(bytes, &all, from, random);
        let sealed = |mut bytes: Vec<u8>| {
            seal(*kind, "", CheckpointId(1), &mut bytes);
            bytes
        };
        let row = sealed(bytes);
        let row = open(*kind, "", CheckpointId(1), &row).expect("it was sealed");
        format!("{kind:?}: {}", brief(&read(&plan, &blobs, *kind, row)))
    });
    let errors: BTreeSet<_> = ways.keys().filter(|way| way.contains("W01")).collect();
    let few = ways.values().sum::<u64>() < ROUNDS;
    let read = ways.len() - errors.len();
    let refused = errors.len();
    assert!(few || read >= 3 && refused >= 8, "the changes are too tame");
}
