//! Tests of items: the conformance suite on a file, and comparison with the memory store.

use crate::differential::items::{ItemOp, apply, dump, op};
use crate::support::{block_on, open};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use weftwork_sqlite::{Durability, Options};
use weftwork_store::{ItemStore, MemoryStore, PutOptions, StoreItems, Ttl};
use weftwork_store_conformance::item_store::run_case;

fn run(case: &str, durability: Durability) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { durability, ..Options::default() };
    let store = Arc::new(open(&folder, &options));
    block_on(run_case(case, |clock| {
        let items: Arc<dyn ItemStore> = Arc::new(StoreItems::of(Arc::clone(&store), clock));
        async { items }
    }));
    assert_eq!(store.verify().expect("reads"), []);
}

fn full(case: &str) {
    run(case, Durability::Full);
}

fn normal(case: &str) {
    run(case, Durability::Normal);
}

mod at_full {
    weftwork_store_conformance::item_conformance_tests!(super::full);
}

mod at_normal {
    weftwork_store_conformance::item_conformance_tests!(super::normal);
}

/// Applies the operations in memory and in a file, and compares the results.
fn agree(ops: Vec<ItemOp>) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let memory = MemoryStore::new();
    let mut file = open(&folder, &options);
    let mut now = 0;
    for op in ops {
        if matches!(op, ItemOp::Reopen) {
            drop(file);
            file = open(&folder, &options);
        }
        let in_memory = block_on(apply(&memory, op.clone(), &mut now.clone()));
        let in_file = block_on(apply(&file, op, &mut now));
        prop_assert_eq!(in_memory, in_file);
    }
    prop_assert_eq!(block_on(dump(&memory, now)), block_on(dump(&file, now)));
    prop_assert_eq!(file.verify().expect("reads"), []);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn items_in_memory_and_file_agree(ops in prop::collection::vec(op(), 1..80)) {
        agree(ops)?;
    }
}

#[test]
fn another_process_finds_what_was_put() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = open(&folder, &Options::default());
    let theirs = open(&folder, &Options::default());
    let mut now = 0;
    for n in 0..3 {
        let value = json!({ "n": 7 });
        let options = PutOptions::default();
        let put = ItemOp::Put { org: 0, at: (0, n), value, options };
        let get = ItemOp::Get { org: 0, at: (0, n), ttl: Ttl::Keep };
        block_on(apply(&ours, put, &mut now));
        let found = block_on(apply(&theirs, get.clone(), &mut now));
        assert_eq!(found, block_on(apply(&ours, get, &mut now)));
        assert!(found.contains("Number(7)"), "{found}");
    }
}
