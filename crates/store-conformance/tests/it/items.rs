//! The conformance suite on the memory store of items.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use weftwork_store::{ItemStore, MemoryItems};
use weftwork_store_conformance::item_store::run_case;

/// Every future of the memory store is ready at its first poll, so one poll is sufficient.
fn run(case: &str) {
    let future = pin!(run_case(case, |clock| async {
        Arc::new(MemoryItems::new(clock)) as Arc<dyn ItemStore>
    }));
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()));
}

mod memory {
    weftwork_store_conformance::item_conformance_tests!(super::run);
}
