//! Implementation of the ledger port on a store.

use crate::record::UsageRow;
use crate::table::WriteUsage;
use std::sync::Arc;
use weftwork_types::caller::GraphCaller;
use weftwork_types::port::{Ledger, LedgerError};
use weftwork_types::usage::UsageFact;
use weftwork_types::{BoxFuture, Principal};

/// A ledger that writes usage facts to a store.
#[derive(Debug)]
pub struct StoreLedger<S: ?Sized> {
    store: Arc<S>,
}

impl<S: ?Sized> StoreLedger<S> {
    /// Creates a ledger that writes to `store`.
    #[must_use]
    pub fn new(store: Arc<S>) -> Self {
        Self { store }
    }
}

impl<S: WriteUsage + std::fmt::Debug + ?Sized> Ledger for StoreLedger<S> {
    fn record<'a>(
        &'a self,
        principal: &'a Principal,
        caller: &'a GraphCaller,
        fact: &'a UsageFact,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let row = UsageRow { caller: caller.clone(), fact: fact.clone() };
            self.store.record_usage(principal, row).await.map_err(|error| LedgerError {
                invocation: fact.invocation_id.to_string(),
                source: error.fault(),
            })
        })
    }
}
