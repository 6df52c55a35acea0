//! Threads on other servers that belong to the thread of a run.
//!
//! Their ids are drawn at random, so that no other thread of this or another store has them, and are
//! recorded with the thread. The record is in the same commit as the first intent to use it or before,
//! so that a process that repeats the call finds it.

use super::claimed::ClaimedRun;
use super::log::CallLog;
use crate::patience::Patience;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use weftwork_store::remote::{record_of, recorded};
use weftwork_store::{Store, StoreError};
use weftwork_types::Principal;
use weftwork_types::canonical::Hash;
use weftwork_types::port::{Clock, RemoteThreadRecord, RemoteUse};
use weftwork_types::run::RunRef;

/// Ids of remote threads that the run uses.
#[derive(Debug)]
pub(crate) struct RemoteThreadIds {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    who: Principal,
    at: RunRef,
    log: Arc<CallLog>,
    known: Mutex<BTreeMap<Hash, String>>,
}

impl RemoteThreadIds {
    pub(super) fn new(run: &ClaimedRun, log: Arc<CallLog>) -> Self {
        Self {
            store: Arc::clone(&run.context.store),
            clock: Arc::clone(&run.context.clock),
            who: run.who.clone(),
            at: run.claim.at.clone(),
            log,
            known: Mutex::default(),
        }
    }

    /// Returns the id for a use, and draws it if it is new.
    pub(super) async fn id_of(&self, of: RemoteUse) -> Result<String, StoreError> {
        if let Some(known) = self.find_known(of.name) {
            return Ok(known);
        }
        let stored = self.read_record(of.name).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task of the superstep may have drawn it meanwhile.
        if let Some(known) = known.get(&of.name) {
            return Ok(known.clone());
        }
        let id = match stored {
            Some(stored) => stored.thread,
            None => {
                let thread = Uuid::from_u128(self.clock.unique()).to_string();
                let record = RemoteThreadRecord { server: of.server, thread: thread.clone() };
                // In the log before the call that uses the id: the commit of its intent includes
                // this record.
                self.log.write([record_of(&self.at.thread, of.name, &record)?]);
                thread
            }
        };
        known.insert(of.name, id.clone());
        Ok(id)
    }

    fn find_known(&self, name: Hash) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// Reads a record; a temporarily unreachable store pauses the call.
    async fn read_record(&self, name: Hash) -> Result<Option<RemoteThreadRecord>, StoreError> {
        let mut patience = Patience::new();
        loop {
            match recorded(self.store.as_ref(), &self.who, &self.at.thread, name).await {
                Err(error) => {
                    patience.after(error, self.clock.as_ref(), &self.at, None).await?;
                }
                Ok(found) => return Ok(found),
            }
        }
    }
}
