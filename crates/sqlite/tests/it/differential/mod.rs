//! Tests that the same operations have the same results and final state in memory and in a file.

pub(crate) mod items;
mod keep;
mod ops;

use crate::support::{block_on, open};
use ops::{World, apply, op, principal};
use proptest::prelude::*;
use weftwork_sqlite::{Durability, Options};
use weftwork_store::MemoryStore;
use weftwork_store_conformance::dump;
use weftwork_types::Timestamp;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_file_agree(ops in prop::collection::vec(op(), 1..80)) {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let memory = MemoryStore::new();
        let file = open(&folder, &options);
        let principals = [principal(0), principal(1)];
        let mut ours = World::default();
        let mut theirs = World::default();
        for (now, op) in (0..).step_by(10).map(Timestamp).zip(ops) {
            let in_memory = block_on(apply(&memory, op.clone(), now, &mut ours));
            let in_file = block_on(apply(&file, op, now, &mut theirs));
            prop_assert_eq!(in_memory, in_file);
        }
        let in_memory = block_on(dump(&memory, &principals)).expect("reads");
        let in_file = block_on(dump(&file, &principals)).expect("reads");
        prop_assert_eq!(&in_memory, &in_file);
        let kept = block_on(keep::dump(&memory, &principals));
        prop_assert_eq!(&kept, &block_on(keep::dump(&file, &principals)));
        let bill = block_on(ops::bill(&memory));
        prop_assert_eq!(&bill, &block_on(ops::bill(&file)));
        // The state is read again after reopening the file.
        drop(file);
        let again = open(&folder, &options);
        prop_assert_eq!(&in_memory, &block_on(dump(&again, &principals)).expect("reads"));
        prop_assert_eq!(&kept, &block_on(keep::dump(&again, &principals)));
    }
}
