//! Usage facts that no commit of a run includes.

use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use weftwork_store::{Store, UsageRow};
use weftwork_types::Principal;
use weftwork_types::caller::CallOrigin;
use weftwork_types::port::{Clock, Ledger};
use weftwork_types::usage::UsageFact;

/// Number of times that a fact is offered to a store that accepts nothing now.
const TRIES_MAX: u32 = 6;

/// Writes each usage fact to the store on its own.
#[derive(Debug, Clone)]
pub(crate) struct StoreLedger {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    stored: Arc<Notify>,
}

impl StoreLedger {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, stored: Arc::default() }
    }

    /// Reports that facts were stored, by a commit or on their own.
    pub(crate) fn stored(&self) {
        self.stored.notify_one();
    }

    /// Returns the signal of [`stored`](Self::stored).
    pub(crate) fn signal(&self) -> Arc<Notify> {
        Arc::clone(&self.stored)
    }

    /// Writes a fact. Tries again, with a delay of one second that doubles, as long as waiting may
    /// help; a fact that is lost anyway is logged with all its counts.
    pub(crate) async fn write(&self, principal: &Principal, row: UsageRow) {
        for tried in 1.. {
            let Err(error) = self.store.record_usage(principal, row.clone()).await else {
                return self.stored();
            };
            if !error.is_retriable() || tried == TRIES_MAX {
                tracing::error!(subject = row.subject(), %error, fact = ?row.fact, "not in the ledger");
                return;
            }
            self.clock.sleep(Duration::from_secs(1) * 2_u32.pow(tried - 1)).await;
        }
    }

    /// Writes a fact in the background.
    pub(crate) fn record(&self, principal: &Principal, row: UsageRow) {
        let ledger = self.clone();
        let principal = principal.clone();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { ledger.write(&principal, row).await })),
            // The program ends, and takes its connections to stores with it.
            Err(_) => {
                tracing::error!(subject = row.subject(), fact = ?row.fact, "not in the ledger")
            }
        }
    }
}

/// Ledger of a program outside of runs: each fact is written at once, on its own.
#[derive(Debug)]
pub(crate) struct ProgramLedger {
    pub(crate) ledger: StoreLedger,
    pub(crate) principal: Principal,
    pub(crate) origin: CallOrigin,
}

impl Ledger for ProgramLedger {
    fn record(&self, fact: &UsageFact) {
        let row = UsageRow { caller: self.origin.clone(), fact: fact.clone() };
        self.ledger.record(&self.principal, row);
    }
}
