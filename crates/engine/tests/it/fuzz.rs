//! Bytes of a store are hostile: whatever they are, reading them is an error or a record, and a
//! record that does not fit its graph is an error too. Nothing panics.
//!
//! `WEFT_FUZZ_SEED` and `WEFT_FUZZ_ROUNDS` choose another run; each failure names its seed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use weftwork_engine::channel::{Append, LastValue, Messages, Reduce, Topic};
use weftwork_engine::plan::START;
use weftwork_engine::record::{self, TaskRecord};
use weftwork_engine::{Machine, Plan, PlanBuilder, StepRecord};
use weftwork_types::CheckpointId;

const ROUNDS: u64 = 60_000;
const SEED: u64 = 20_261_122;

/// Valid records, in the forms that a store holds.
const CORPUS: [&str; 7] = [
    r#"{"v":0,"tasks":[],"due":{}}"#,
    r#"{"v":0,"tasks":[{"left":{"writes":[["s",{"put":{"a":[1,2.5,null,true]}}]]}}],"due":{"triggers":{"branch:to:a":{"updated":true}}}}"#,
    r#"{"v":0,"tasks":[{"node":"a","path":"pull","left":{"writes":[["log",{"put":["x","y"]}],["sum",{"put":3}]],"goto":[{"node":"b"},"end"]}}],"set":{"sum":7},"due":{"triggers":{"join:a+b:c":{"sources":["a"]}},"last":["a"]}}"#,
    r#"{"v":0,"tasks":[{"node":"b","path":"push:0","left":{"writes":[["topic",{"put":[1]}],["s",{"overwrite":"z"}]],"goto":[{"send":{"node":"a","arg":{"i":1}}}]}}],"due":{"sends":[{"node":"a","arg":{"i":1}}],"last":["b"]}}"#,
    r#"{"v":0,"tasks":[],"due":{"triggers":{"branch:to:c":{"finished":true,"updated":true}}},"branch":true}"#,
    r#"{"v":0,"tasks":[{"node":"a","path":"pull","left":{"writes":[["messages",{"put":[{"id":"m1","role":"user","parts":[{"type":"text","text":"hi"}]}]}]]}}],"due":{}}"#,
    r#"{"v":0,"handled":true,"left":{"writes":[["log",{"put":["e"]}]],"goto":[{"node":"c"}]}}"#,
];

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A small generator of its own, so that a seed means the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or_default()
    }
}

fn plan() -> Arc<Plan> {
    let mut builder = PlanBuilder::default();
    builder.channel("s", Arc::new(LastValue::<serde_json::Value>::new()));
    builder.channel("log", Arc::new(Append::<String>::new()));
    builder.channel("sum", Arc::new(Reduce::<u64>::new(|| 0, u64::wrapping_add)));
    builder.channel("topic", Arc::new(Topic::<u64>::new()));
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

/// One to four changes: of a byte, by what another record holds, by a repeated or lost piece.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut bytes = CORPUS[random.below(CORPUS.len())].as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap_or_default(),
            1 => bytes[at] = b"{}[]\",:0-9eE.tfn"[random.below(16)],
            2 => bytes.truncate(at.max(1)),
            3 => {
                let to = (at + random.below(24)).min(bytes.len());
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let to = (at + random.below(24)).min(bytes.len());
                bytes.drain(at..to);
            }
            _ => {
                let other = CORPUS[random.below(CORPUS.len())].as_bytes();
                let from = random.below(other.len());
                let to = (from + random.below(40)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'0');
        }
    }
    bytes
}

/// What came of one input, in a word.
fn read(plan: &Arc<Plan>, bytes: &[u8]) -> String {
    let task: Result<TaskRecord, _> = record::read(1, bytes);
    if let Ok(task) = task {
        return match plan.task_output(task.left) {
            Ok(_) => "task".to_owned(),
            Err(error) => format!("task {}", error.code()),
        };
    }
    match record::read::<StepRecord>(0, bytes) {
        Err(error) => format!("unread {}", error.code()),
        Ok(step) => {
            let mut machine = Machine::new(Arc::clone(plan));
            match machine.restore(CheckpointId(1), 0, step) {
                Ok(()) => format!("restored, {} due", machine.tasks().len()),
                Err(error) => format!("refused {}", error.code()),
            }
        }
    }
}

#[test]
fn stored_bytes_never_panic() {
    let seed = variable("WEFT_FUZZ_SEED").unwrap_or(SEED);
    let rounds = variable("WEFT_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    println!("WEFT_FUZZ_SEED={seed} WEFT_FUZZ_ROUNDS={rounds}");
    let plan = plan();
    let mut reached = BTreeSet::new();
    for valid in CORPUS {
        let came = read(&plan, valid.as_bytes());
        assert!(came.starts_with("restored") || came == "task", "{came}: {valid}");
    }
    for round in 0..rounds {
        let mut random = Random(seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        let bytes = mutated(&mut random);
        let came = catch_unwind(AssertUnwindSafe(|| read(&plan, &bytes)));
        let came = came.unwrap_or_else(|_| {
            panic!("seed {seed}, round {round}: {}", String::from_utf8_lossy(&bytes))
        });
        reached.insert(came);
    }
    println!("ways a record went: {reached:?}");
    assert!(reached.len() >= 6, "the mutations are too tame: {reached:?}");
}
