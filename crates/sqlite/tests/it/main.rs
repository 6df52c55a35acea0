//! Tests of the SQLite store: the conformance suite, comparison with the memory store, kills, and
//! errors of unusable files.
#![expect(clippy::expect_used, reason = "a failing test panics with the reason")]

mod batch;
mod bill;
mod claim_cache;
mod differential;
mod files;
mod format;
mod items;
mod kill;
mod locks;
mod power;
mod restore;
mod support;
mod upkeep;

use std::sync::Arc;
use support::{block_on, open};
use weftwork_sqlite::{Durability, Options};
use weftwork_store::Store;
use weftwork_store_conformance::run_case;

fn run(case: &str, durability: Durability) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { durability, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(open(&folder, &options));
    block_on(run_case(case, || async { store.clone() }));
}

fn full(case: &str) {
    run(case, Durability::Full);
}

fn normal(case: &str) {
    run(case, Durability::Normal);
}

mod at_full {
    weftwork_store_conformance::conformance_tests!(super::full);
}

mod at_normal {
    weftwork_store_conformance::conformance_tests!(super::normal);
}
