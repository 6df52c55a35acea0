//! The conformance suite on the memory stores.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod items;
mod rows;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use weftwork_store::{MemoryStore, Store};
use weftwork_store_conformance::run_case;

/// Every future of the memory store is ready at its first poll, so one poll is sufficient.
fn run(case: &str) {
    let future = pin!(run_case(case, || async { Arc::new(MemoryStore::new()) as Arc<dyn Store> }));
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()));
}

mod memory {
    weftwork_store_conformance::conformance_tests!(super::run);
}
