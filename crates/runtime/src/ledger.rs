//! Usage facts that no commit of a run includes.

use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use weftwork_store::{Store, UsageRow};
use weftwork_types::Principal;
use weftwork_types::port::Clock;

/// Number of times that a fact is offered to a store that accepts nothing now.
const TRIES_MAX: u32 = 6;

/// Writes each usage fact to the store on its own.
#[derive(Debug, Clone)]
pub(crate) struct StoreLedger {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl StoreLedger {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Writes a fact. Tries again, with a delay of one second that doubles, as long as waiting may
    /// help; a fact that is lost anyway is logged with all its counts.
    pub(crate) async fn write(&self, principal: &Principal, row: UsageRow) {
        for tried in 1.. {
            let Err(error) = self.store.record_usage(principal, row.clone()).await else { return };
            if !error.is_retriable() || tried == TRIES_MAX {
                tracing::error!(run = %row.caller.run, %error, fact = ?row.fact, "not in the ledger");
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
            Err(_) => tracing::error!(run = %row.caller.run, fact = ?row.fact, "not in the ledger"),
        }
    }
}
