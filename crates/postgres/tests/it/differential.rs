//! Tests that the same operations have the same results and final state in memory, in a file, and
//! in Postgres.

#[path = "../../../sqlite/tests/it/differential/items.rs"]
mod items;
#[path = "../../../sqlite/tests/it/differential/keep.rs"]
mod keep;
#[path = "../../../sqlite/tests/it/differential/ops.rs"]
mod ops;

use crate::support::{Schema, block_on};
use ops::{World, apply, op, principal};
use proptest::prelude::*;
use weftwork_sqlite::{Durability, SqliteStore};
use weftwork_store::{MemoryStore, Store};
use weftwork_store_conformance::dump;
use weftwork_types::Timestamp;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_file_and_postgres_agree(ops in prop::collection::vec(op(), 1..80)) {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = Schema::new("differential");
        let options = weftwork_sqlite::Options {
            durability: Durability::Normal,
            ..weftwork_sqlite::Options::default()
        };
        let file = SqliteStore::open(folder.path().join("weft.db"), &options).expect("opens");
        let memory = MemoryStore::new();
        let postgres = schema.open();
        let stores: [&dyn Store; 3] = [&memory, &file, &postgres];
        let mut worlds = [World::default(), World::default(), World::default()];
        for (now, op) in (0..).step_by(10).map(Timestamp).zip(ops) {
            let results: Vec<_> = stores
                .iter()
                .zip(&mut worlds)
                .map(|(store, world)| block_on(apply(*store, op.clone(), now, world)))
                .collect();
            prop_assert_eq!(&results[0], &results[1], "in memory, in the file");
            prop_assert_eq!(&results[0], &results[2], "in memory, in Postgres");
        }
        let principals = [principal(0), principal(1)];
        let left = |store| {
            let dumped = block_on(dump(store, &principals)).expect("reads");
            (dumped, block_on(keep::dump(store, &principals)), block_on(ops::bill(store)))
        };
        let [in_memory, in_file, in_postgres] = stores.map(left);
        prop_assert_eq!(&in_memory, &in_file);
        prop_assert_eq!(&in_memory, &in_postgres);
        schema.script(&format!("DROP SCHEMA {} CASCADE", schema.name));
    }

    #[test]
    fn items_in_memory_file_and_postgres_agree(ops in prop::collection::vec(items::op(), 1..80)) {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = Schema::new("items");
        let options = weftwork_sqlite::Options {
            durability: Durability::Normal,
            ..weftwork_sqlite::Options::default()
        };
        let file = SqliteStore::open(folder.path().join("weft.db"), &options).expect("opens");
        let memory = MemoryStore::new();
        let postgres = schema.open();
        let stores: [&dyn Store; 3] = [&memory, &file, &postgres];
        let mut now = 0;
        for op in ops {
            let mut after = [now; 3];
            let results: Vec<_> = stores
                .iter()
                .zip(&mut after)
                .map(|(store, now)| block_on(items::apply(*store, op.clone(), now)))
                .collect();
            now = after[0];
            prop_assert_eq!(&results[0], &results[1], "in memory, in the file");
            prop_assert_eq!(&results[0], &results[2], "in memory, in Postgres");
        }
        let [in_memory, in_file, in_postgres] = stores.map(|store| block_on(items::dump(store, now)));
        prop_assert_eq!(&in_memory, &in_file);
        prop_assert_eq!(&in_memory, &in_postgres);
        schema.script(&format!("DROP SCHEMA {} CASCADE", schema.name));
    }
}
