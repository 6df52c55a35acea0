//! Recorded scenarios over each store, straight on and rebuilt after each superstep: every one in
//! the full tier, some of them in each run of the fast one.

use crate::dose::dose;
use crate::odd_checkpointer::{Manner, Odd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Profile, Setting, Spec, answer};
use weftwork_graph::run_loop::{Checkpointer, InMemoryCheckpointer};
use weftwork_graph::{Durability, SystemClock};
use weftwork_postgres::PostgresStore;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{MemoryStore, Store};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    let read = |part: &str| Scenario::read_folder(&kit.join(part)).unwrap();
    let mut all = read("scenarios");
    all.extend(read("fuzz"));
    assert_eq!(all.len(), 288);
    all
}

/// A store, and what it is kept in.
pub(crate) struct MadeOf {
    pub(crate) store: Arc<dyn Store>,
    _folder: Option<TempDir>,
}

impl MadeOf {
    pub(crate) fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::new()), _folder: None }
    }

    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { durability: weftwork_sqlite::Durability::Normal, ..Options::default() };
        let store = Arc::new(SqliteStore::open(folder.path().join("kit.db"), &options).unwrap());
        Self { store, _folder: Some(folder) }
    }

    /// In a schema that no other test has.
    pub(crate) fn postgres(test: &str) -> Self {
        let address = std::env::var("WEFT_TEST_POSTGRES").expect(
            "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork-conformance",
        );
        let schema = format!("kit_{test}_{}", std::process::id());
        let clock = Arc::new(SystemClock::new());
        let options =
            weftwork_postgres::Options { schema, ..weftwork_postgres::Options::new(clock) };
        let store = Arc::new(PostgresStore::open(&address, &options).unwrap());
        Self { store, _folder: None }
    }
}

pub(crate) fn over(made: &MadeOf) -> Setting {
    Setting::from(Profile::LangGraph).over(Arc::clone(&made.store) as _)
}

pub(crate) fn hosted_over(made: &MadeOf) -> Setting {
    Setting::from(Profile::LangGraph).hosted_over(Arc::clone(&made.store))
}

/// Savers in memory with a manner of their own. Counts the checkpoints that are loaded by their ids.
pub(crate) fn odd(manner: Manner, loads: &Arc<AtomicUsize>) -> Setting {
    let loads = Arc::clone(loads);
    Setting::from(Profile::LangGraph).with_stores(Arc::new(move || {
        let checkpointer = InMemoryCheckpointer::new();
        let loads = Arc::clone(&loads);
        Arc::new(move || -> Arc<dyn Checkpointer> {
            Arc::new(Odd {
                checkpointer: Arc::clone(&checkpointer),
                manner,
                loads: Arc::clone(&loads),
            })
        })
    }))
}

/// The share of the scenarios, as one of so many, that a setting plays in the fast tier.
const SHARE: usize = 8;

/// Plays a dose of the scenarios. The mode has no meaning for `silent` of all of them.
fn check(setting: &Setting, silent: usize) {
    let is_silent = |scenario: &Scenario| {
        let spec = Spec::from_json(&scenario.spec).unwrap();
        setting.not_applicable(&spec).is_some()
    };
    assert_eq!(scenarios().iter().filter(|scenario| is_silent(scenario)).count(), silent);
    let mut failed = Vec::new();
    for scenario in dose(SHARE) {
        let trace = answer(&scenario.spec.to_string(), setting.clone());
        assert_eq!(trace.get("not_applicable").is_some(), is_silent(&scenario));
        let found = (!is_silent(&scenario)).then(|| scenario.difference(&trace)).flatten();
        failed.extend(found.map(|found| format!("{}: {found}", scenario.name)));
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// The scenarios without checkpoints, with untracked state, or with checkpoints at the end only.
pub(crate) const SAID_NOTHING: usize = 63;

#[test]
fn straight_on_over_the_memory_store() {
    check(&over(&MadeOf::memory()), 0);
}

#[test]
fn straight_on_over_sqlite() {
    check(&over(&MadeOf::sqlite()), 0);
}

#[test]
fn straight_on_over_postgres() {
    check(&over(&MadeOf::postgres("straight")), 0);
}

#[test]
fn rebuilt_after_each_superstep_over_the_memory_store() {
    let setting = over(&MadeOf::memory()).with_mode(Mode::RebuildEachStep);
    check(&setting, SAID_NOTHING);
}

#[test]
fn rebuilt_after_each_superstep_over_sqlite() {
    let made = MadeOf::sqlite();
    check(&over(&made).with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

#[test]
fn rebuilt_after_each_superstep_over_postgres() {
    let made = MadeOf::postgres("rebuilt");
    check(&over(&made).with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

/// Rebuilds runs that write their checkpoints while the next superstep runs.
fn check_behind(setting: Setting) {
    let setting = setting.with_durability(Durability::Async);
    check(&setting.with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

#[test]
fn rebuilt_behind_writes_that_take_time() {
    let straight = Arc::default();
    let rebuilt = Arc::default();
    check(&odd(Manner::TakesTime, &straight), 0);
    check_behind(odd(Manner::TakesTime, &rebuilt));
    let [straight, rebuilt] = [straight, rebuilt].map(|loads| loads.load(Ordering::Relaxed));
    assert!(rebuilt > 4 * straight, "{rebuilt} checkpoints were read, {straight} straight on");
}

#[test]
fn rebuilt_behind_writes_over_sqlite() {
    check_behind(over(&MadeOf::sqlite()));
}

#[test]
fn rebuilt_behind_writes_over_postgres() {
    check_behind(over(&MadeOf::postgres("behind")));
}

/// The scenarios that store checkpoints at the end of a run, or answer without checkpoints.
const NOT_HOSTED: usize = 14;

#[test]
fn hosted_runs_in_memory() {
    check(&Setting::from(Profile::LangGraph).hosted(), NOT_HOSTED);
}

#[test]
fn hosted_runs_over_sqlite() {
    check(&hosted_over(&MadeOf::sqlite()), NOT_HOSTED);
}

#[test]
fn hosted_runs_over_postgres() {
    check(&hosted_over(&MadeOf::postgres("hosted")), NOT_HOSTED);
}

#[test]
fn hosted_runs_rebuilt_after_each_superstep() {
    let setting = Setting::from(Profile::LangGraph).hosted();
    check(&setting.with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

#[test]
fn hosted_runs_rebuilt_after_each_superstep_over_sqlite() {
    let made = MadeOf::sqlite();
    check(&hosted_over(&made).with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

#[test]
fn hosted_runs_rebuilt_after_each_superstep_over_postgres() {
    let made = MadeOf::postgres("hosted_rebuilt");
    check(&hosted_over(&made).with_mode(Mode::RebuildEachStep), SAID_NOTHING);
}

/// Two scenarios store the counts of delta channels at the end of a run.
#[test]
fn read_as_they_come() {
    let setting = Setting::from(Profile::LangGraph).with_mode(Mode::Streamed);
    check(&setting, 2);
}
