//! Questions and answers of drawn graphs.
//!
//! A seed makes a graph whose nodes, subgraphs and tasks of flows ask, and a list of requests:
//! answers, runs without an answer, changes, branches, with failures and crashes in between. Each
//! answer is made of the text of its question, so that each question knows its own. Whatever
//! happens: no answer reaches another question, each place that lists open questions lists the same
//! ones, none is lost, and none is asked again after its answer.
//!
//! `WEFT_SEED=17 cargo nextest run -p weftwork-runtime --no-capture asking` shows the graph of a
//! seed and all requests. `WEFT_ASKING_GRAPHS` is the number of graphs.
#![expect(clippy::print_stdout, reason = "what a seed did is told to those who look")]

mod build;
mod front;
mod script;
mod spec;

use script::{Flaw, Manner, Play, Profile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;
use weftwork_graph::SystemClock;
use weftwork_postgres::PostgresStore;
use weftwork_sqlite::SqliteStore;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;

/// Graphs of a mode in the fast tier, and in the full one.
const GRAPHS: (u64, u64) = (40, 2_000);
/// The same of the stores of files and of servers, which take longer.
const STORED_GRAPHS: (u64, u64) = (6, 2_000);

/// Graphs that once broke a law beyond the fast tier, and are played in each:
/// - 550: a process dies while a subgraph that asked at the first checkpoint of a branch runs again
///   from there.
/// - 1415: a subgraph that finished at the first checkpoint of a branch, after it had asked, runs
///   again from there.
const KNOWN: [u64; 2] = [550, 1_415];

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The seeds of a mode: those of a range, and those that are always played.
fn seeds(usual: (u64, u64)) -> Vec<u64> {
    if let Some(seed) = number("WEFT_SEED") {
        return vec![seed];
    }
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let count = number("WEFT_ASKING_GRAPHS").unwrap_or(if full { usual.1 } else { usual.0 });
    let known = KNOWN.into_iter().filter(|seed| *seed >= count);
    (0..count).chain(known).collect()
}

fn kind(flaw: &Flaw) -> &'static str {
    match flaw {
        Flaw::Answer(_) => "answers",
        Flaw::Listing(_) => "listing",
        Flaw::Lost(_) => "lost",
        Flaw::Again(_) => "again",
        Flaw::Refusal(_) => "refusals",
        Flaw::End(_) => "ends",
    }
}

/// Plays the graphs of these seeds in one mode.
fn check(name: &str, seeds: &[u64], profile: Profile, store: impl Fn() -> Option<Arc<dyn Store>>) {
    let mut kinds = BTreeMap::<_, u64>::new();
    let mut broken = Vec::new();
    for &seed in seeds {
        let manner = Manner { semantics: profile, store: store() };
        let flaws = Play::new(seed, &manner).play();
        let of_seed: BTreeSet<_> = flaws.iter().map(kind).collect();
        of_seed.into_iter().for_each(|kind| *kinds.entry(kind).or_default() += 1);
        if let Some(first) = flaws.first() {
            broken.push(format!("\nWEFT_SEED={seed} {name}: {first}"));
        }
    }
    let count = seeds.len();
    let flawed = broken.len();
    println!("{name}: {count} seeds, {flawed} with flaws {kinds:?}");
    let shown: String = broken.iter().take(12).map(String::as_str).collect();
    assert!(broken.is_empty(), "{flawed} of {count} seeds have flaws {kinds:?}:{shown}");
}

fn in_memory() -> Option<Arc<dyn Store>> {
    Some(Arc::new(MemoryStore::new()))
}

#[test]
fn in_process() {
    check("in process", &seeds(GRAPHS), Profile::Weft, || None);
}

#[test]
fn in_process_as_langgraph() {
    check("in process, langgraph", &seeds(GRAPHS), Profile::LangGraph, || None);
}

#[test]
fn hosted() {
    check("hosted", &seeds(GRAPHS), Profile::Weft, in_memory);
}

#[test]
fn hosted_as_langgraph() {
    check("hosted, langgraph", &seeds(GRAPHS), Profile::LangGraph, in_memory);
}

/// Plays graphs with both semantics over one store.
fn check_stored(name: &str, store: &Arc<dyn Store>) {
    let seeds = seeds(STORED_GRAPHS);
    check(name, &seeds, Profile::Weft, || Some(Arc::clone(store)));
    let name = format!("{name}, langgraph");
    check(&name, &seeds, Profile::LangGraph, || Some(Arc::clone(store)));
}

#[test]
fn hosted_over_sqlite() {
    let folder = TempDir::new().expect("a folder");
    let options = weftwork_sqlite::Options::default();
    let store = SqliteStore::open(folder.path().join("weft.db"), &options).expect("opens");
    check_stored("hosted over SQLite", &(Arc::new(store) as _));
}

#[test]
fn hosted_over_postgres() {
    let Ok(address) = std::env::var("WEFT_TEST_POSTGRES") else {
        println!("SKIPPED(no WEFT_TEST_POSTGRES): hosted_over_postgres");
        return;
    };
    let options = weftwork_postgres::Options {
        schema: format!("asking_{}", std::process::id()),
        ..weftwork_postgres::Options::new(Arc::new(SystemClock::new()))
    };
    let store = PostgresStore::open(&address, &options).expect("opens");
    check_stored("hosted over Postgres", &(Arc::new(store) as _));
}
