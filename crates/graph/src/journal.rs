//! The journal of one task over the store.

use crate::error::RuntimeError;
use crate::hosted::Patience;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_store::{Claim, NewCall, OpenedCall, Store, StoreError};
use weftwork_types::canonical::{can_be_read_back, hash};
use weftwork_types::code::Fault;
use weftwork_types::port::{
    Attempts, CallKey, CallResult, Clock, Intent, Journal, JournalError, Opened,
};
use weftwork_types::{BoxFuture, CheckpointId, Principal};

/// Finds and records the calls of one task.
///
/// The key of a call is made of where the task stands in the run's history (scope, node, path,
/// step) and of what is called with what; never of ids that a rebuilt run would make anew.
#[derive(Debug)]
pub(crate) struct TaskJournal {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) place: Place,
    pub(crate) seen: Mutex<BTreeMap<String, u32>>,
}

/// Where a task stands in its thread's history.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The branch of the thread: the checkpoint it began with; none on the first.
    pub(crate) branch: Option<CheckpointId>,
    /// The tasks from the outermost graph on: nodes, how they came to run, and supersteps.
    pub(crate) path: Vec<(String, String, i64)>,
    pub(crate) node: String,
    pub(crate) step: i64,
    pub(crate) attempt: u32,
}

impl TaskJournal {
    fn key(&self, intent: &Intent) -> CallKey {
        let what = format!("{:?}/{}/{}", intent.kind, intent.name, intent.input);
        let occurrence = match &intent.call_id {
            Some(id) => serde_json::json!({"id": id}),
            None => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let count = seen.entry(what).or_default();
                *count += 1;
                serde_json::json!({"nth": *count})
            }
        };
        let attempt = match intent.attempts {
            Attempts::Each => self.place.attempt,
            Attempts::Shared => 0,
        };
        let place = &self.place;
        CallKey(hash(&serde_json::json!({
            "v": 1,
            "branch": place.branch,
            "path": place.path,
            "kind": intent.kind,
            "name": intent.name,
            "input": intent.input,
            "occurrence": occurrence,
            "attempt": attempt,
        })))
    }
}

impl TaskJournal {
    /// A store that is full or out of reach for now pauses the call.
    async fn wait(&self, patience: &mut Patience, error: StoreError) -> Result<(), StoreError> {
        patience.after(error, self.clock.as_ref(), &self.claim.at).await
    }
}

fn refused(name: &str, error: StoreError) -> JournalError {
    let source: Fault = error.fault();
    JournalError { name: name.to_owned(), source }
}

impl Journal for TaskJournal {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let key = self.key(&intent);
        Box::pin(async move {
            let call = NewCall {
                key,
                kind: intent.kind,
                name: intent.name.clone(),
                node: self.place.node.clone(),
                step: self.place.step,
                effect: intent.effect,
                at: self.clock.now(),
            };
            let mut patience = Patience::new();
            let opened = loop {
                let opened = self.store.open_call(&self.who, &self.claim, call.clone()).await;
                let Err(error) = opened else { break opened };
                if let Err(error) = self.wait(&mut patience, error).await {
                    break Err(error);
                }
            };
            match opened.map_err(|e| refused(&intent.name, e))? {
                OpenedCall::New | OpenedCall::Again => Ok(Opened::New { key }),
                OpenedCall::Unknown(_) => Ok(Opened::Unknown { key }),
                OpenedCall::Settled(record) => match record.result {
                    Some(result) => Ok(Opened::Settled { key, result }),
                    None => Ok(Opened::Unknown { key }),
                },
            }
        })
    }

    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if !can_be_read_back(&result.value) {
                let what = "the result of a call";
                let source = RuntimeError::TooDeep { what }.fault();
                return Err(JournalError { name: key.0.to_string(), source });
            }
            let now = self.clock.now();
            let mut patience = Patience::new();
            let (who, claim) = (&self.who, &self.claim);
            while let Err(error) =
                self.store.settle_call(who, claim, key, result.clone(), now).await
            {
                let waited = self.wait(&mut patience, error).await;
                waited.map_err(|e| refused(&key.0.to_string(), e))?;
            }
            Ok(())
        })
    }
}
