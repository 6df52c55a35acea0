//! Tests of the Postgres store: the conformance suite, comparison with the memory store, and
//! restarts of the database.
#![expect(clippy::expect_used, reason = "a failing test panics with the reason")]

mod bill;
mod cluster;
mod differential;
mod disk;
mod doubt;
mod items;
mod leases;
mod many;
mod open;
mod pooler;
mod races;
mod restart;
mod support;
mod tls;

use std::sync::Arc;
use support::{Schema, block_on};
use weftwork_store::Store;
use weftwork_store_conformance::run_case;

fn conforms(case: &str) {
    let schema = Schema::new(case);
    let store: Arc<dyn Store> = Arc::new(schema.open());
    block_on(run_case(case, || async { store.clone() }));
}

weftwork_store_conformance::conformance_tests!(conforms);
