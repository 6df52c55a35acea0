//! Every recorded scenario over each store, straight on and rebuilt after each superstep.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Mode, Profile, Setting, answer};
use weftwork_graph::StoreSaver;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{CheckpointStore, MemoryStore};
use weftwork_types::{OrgId, Principal};

fn scenarios() -> Vec<Scenario> {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    let read = |part: &str| Scenario::read_folder(&kit.join(part)).unwrap();
    let mut all = read("scenarios");
    all.extend(read("fuzz"));
    assert_eq!(all.len(), 288);
    all
}

/// One store for all scenarios, each of which is an organisation of its own there.
fn over(store: Arc<dyn CheckpointStore>) -> Setting {
    let count = AtomicU64::new(0);
    Setting::from(Profile::LangGraph).with_savers(Arc::new(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let mut who = Principal::local();
        who.org = OrgId::new(format!("spec-{number}")).unwrap();
        StoreSaver::new(Arc::clone(&store), who)
    }))
}

/// Plays all scenarios; returns about how many the mode says nothing.
fn check(setting: &Setting) -> usize {
    let (mut failed, mut passed_over) = (Vec::new(), 0);
    for scenario in scenarios() {
        let trace = answer(&scenario.spec.to_string(), setting.clone());
        if trace.get("not_applicable").is_some() {
            passed_over += 1;
        } else if let Some(found) = scenario.difference(&trace) {
            failed.push(format!("{}: {found}", scenario.name));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    passed_over
}

fn sqlite(folder: &Path) -> Arc<dyn CheckpointStore> {
    let options = Options { durability: Durability::Normal, ..Options::default() };
    Arc::new(SqliteStore::open(folder.join("kit.db"), &options).unwrap())
}

/// The scenarios without checkpoints, with untracked state, or with checkpoints at the end only.
const SAID_NOTHING: usize = 63;

#[test]
fn straight_on_over_the_memory_store() {
    assert_eq!(check(&over(Arc::new(MemoryStore::new()))), 0);
}

#[test]
fn straight_on_over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(check(&over(sqlite(folder.path()))), 0);
}

#[test]
fn rebuilt_after_each_superstep_over_the_memory_store() {
    let setting = over(Arc::new(MemoryStore::new())).with_mode(Mode::RebuildEachStep);
    assert_eq!(check(&setting), SAID_NOTHING);
}

#[test]
fn rebuilt_after_each_superstep_over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let setting = over(sqlite(folder.path())).with_mode(Mode::RebuildEachStep);
    assert_eq!(check(&setting), SAID_NOTHING);
}
