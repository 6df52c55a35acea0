//! Calls of a run that policies refer to, and values that it stores by reference.
//!
//! The first look reads the records of the run from the store; later ones are made by this process
//! alone, because it has the claim. A run that answers questions continues the records of the run
//! that asked them.

use super::log::CallLog;
use crate::patience::Patience;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_store::artifact::{Artifact, artifact_id};
use weftwork_store::sequence::{Content, PAST_CALLS, Sequence, SequenceQuery, SequenceWrite};
use weftwork_store::{Store, StoreError};
use weftwork_types::port::{Admission, Admitted, CallKey, Clock, NewArtifact, PastCall};
use weftwork_types::run::RunRef;
use weftwork_types::{Principal, canonical};

const FORMAT: u32 = 1;

/// Calls that a run has begun.
#[derive(Debug)]
pub(crate) struct PastCalls {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    who: Principal,
    at: RunRef,
    log: Arc<CallLog>,
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    sequence: Sequence,
    calls: Vec<PastCall>,
}

impl PastCalls {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        who: Principal,
        at: RunRef,
        log: Arc<CallLog>,
    ) -> Self {
        Self { store, clock, who, at, log, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn admit(
        &self,
        key: CallKey,
        call: Admission<'_>,
    ) -> Result<Admitted, StoreError> {
        if self.lock().is_none() {
            let known = self.read_past().await?;
            // Another task may have read them meanwhile, and added to them.
            self.lock().get_or_insert(known);
        }
        let mut past = self.lock();
        let Some(known) = past.as_mut() else { return Ok(Admitted::NoRecords) };
        // The call of an attempt that runs again counts once.
        if known.calls.iter().any(|past| past.key == key) {
            return Ok(Admitted::Yes { key });
        }
        // Decided and recorded under one lock: of two tasks that ask for the last permitted call,
        // one gets it.
        if let Err(reason) = (call.decide)(&known.calls) {
            return Ok(Admitted::No { reason });
        }
        let tool = call.intent.name.clone();
        let args = call.args.clone();
        let begun = PastCall { key, tool, args, succeeded: false };
        let content = Content::json(FORMAT, &begun)?;
        // In the log before the call: the commit of its intent includes this record.
        self.log.write([SequenceWrite::append(known.sequence.clone(), content)]);
        known.calls.push(begun);
        Ok(Admitted::Yes { key })
    }

    pub(super) fn succeeded(&self, key: CallKey) {
        let mut past = self.lock();
        let Some(known) = past.as_mut() else { return };
        let begun = known.calls.iter_mut().find(|past| past.key == key && !past.succeeded);
        let Some(call) = begun else { return };
        call.succeeded = true;
        if let Ok(content) = Content::json(FORMAT, call) {
            self.log.write([SequenceWrite::append(known.sequence.clone(), content)]);
        }
    }

    pub(super) fn store_artifact(&self, new: NewArtifact) -> Option<String> {
        let at = &self.at;
        let now = self.clock.now();
        let id = artifact_id(at, new.key.0);
        let artifact = Artifact {
            id: id.clone(),
            thread: at.thread.clone(),
            run: at.run.clone(),
            subject: self.who.subject.clone(),
            tool: new.tool,
            bytes: new.bytes,
            sha256: canonical::hash(&new.value),
            stored_at: now,
            expires_at: now.plus(new.ttl),
            value: new.value,
            shown: new.shown,
        };
        self.log.write(artifact.sequence_writes().ok()?);
        Some(id)
    }

    /// Reads the records; a temporarily unreachable store pauses the call.
    async fn read_past(&self) -> Result<Known, StoreError> {
        let mut patience = Patience::new();
        loop {
            match self.try_read_past().await {
                Err(error) => {
                    patience.after(error, self.clock.as_ref(), &self.at, None).await?;
                }
                Ok(known) => return Ok(known),
            }
        }
    }

    async fn try_read_past(&self) -> Result<Known, StoreError> {
        let mut at = self.at.clone();
        // A run that answers questions continues the one that asked them, and its calls count with
        // it.
        while let Some(run) = self.store.run(&self.who, &at).await?.answers {
            at = RunRef { run, ..at };
        }
        let sequence = Sequence::new(PAST_CALLS, format!("{}/{}", at.thread.to_key(), at.run));
        let mut calls: Vec<PastCall> = Vec::new();
        let mut query = SequenceQuery::of(sequence.clone(), 0);
        loop {
            let rows = self.store.sequence_rows(&self.who, query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(Known { sequence, calls }) };
            query = query.following(last);
            for row in &rows {
                let read: PastCall = row.json()?;
                match calls.iter_mut().find(|call| call.key == read.key) {
                    Some(known) => known.succeeded |= read.succeeded,
                    None => calls.push(read),
                }
            }
        }
    }
}
