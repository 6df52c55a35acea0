//! The journal of one task over the store.

mod elsewhere;
mod key;

use crate::error::{RuntimeError, cut_off};
use crate::run_loop::call_book::{CallBook, ReuseOrigins};
use crate::run_loop::context::{Attempt, AttemptSignals, Earlier, OwnCalls, TaskContext};
use crate::run_loop::sync::lock;
use elsewhere::Inherited;
use key::Occurrence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_types::canonical::{Hash, can_be_read_back, first_128};
use weftwork_types::code::Fault;
use weftwork_types::port::{
    Admission, Admitted, Attempts, CallKey, CallKind, CallRecord, CallResult, CallState, Clock,
    Intent, Journal, JournalError, NewArtifact, Opened, RemoteUse,
};
use weftwork_types::tool::Effect;
use weftwork_types::{BoxFuture, CheckpointId, StoreError};

/// Finds and records the calls of one attempt of a task.
///
/// The key of a call consists of the position of the task in the run's history (branch, node, path,
/// step), the name of the call and its input; never of ids that a rebuilt run would generate anew.
///
/// Each change of a call goes to its [`CallBook`], and the next commit includes it. Only calls that
/// change something are waited for: the intent before the call is made, and its result.
#[derive(Debug)]
pub(crate) struct TaskJournal {
    book: Box<dyn CallBook>,
    clock: Arc<dyn Clock>,
    position: TaskPosition,
    /// Earlier attempts that may have made calls of the task.
    earlier: Earlier,
    signals: Arc<AttemptSignals>,
    own_calls: Arc<OwnCalls>,
    known: Mutex<Known>,
}

/// Position of a task in its thread's history.
#[derive(Debug, Clone)]
struct TaskPosition {
    /// The branch of the thread, as [`Metadata`](crate::Metadata) has it.
    branch: Option<CheckpointId>,
    /// The tasks from the outermost graph on: nodes, how they came to run, and supersteps.
    path: Vec<(String, String, i64)>,
    node: String,
    step: i64,
    attempt: u32,
}

/// Calls of the attempt itself.
#[derive(Debug, Default)]
struct Known {
    /// Number of calls so far by input, kind and name.
    seen: BTreeMap<(Hash, CallKind, String), u32>,
    /// Its calls in their current state.
    calls: BTreeMap<CallKey, Arc<CallRecord>>,
    /// Ids of the calls that it has announced.
    announced: BTreeSet<String>,
}

/// A call that is being announced.
#[derive(Debug)]
struct Call {
    key: CallKey,
    intent: Intent,
    occurrence: Occurrence,
    round: Round,
}

/// Round of a call: the callee asked in the rounds before, and got answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    Later,
}

impl TaskJournal {
    /// The journal of an attempt of a task.
    pub(crate) fn new(book: Box<dyn CallBook>, at: &TaskContext, attempt: Attempt<'_>) -> Self {
        let position = TaskPosition {
            branch: *lock(&at.loop_context.run.branch),
            path: at.task_path(),
            node: at.key.name().to_string(),
            step: at.step,
            attempt: attempt.number,
        };
        Self {
            book,
            clock: Arc::clone(at.loop_context.run.host.clock()),
            position,
            earlier: at.earlier,
            signals: Arc::clone(attempt.signals),
            own_calls: Arc::clone(attempt.own_calls),
            known: Mutex::default(),
        }
    }

    /// Refuses calls of an attempt that was cut off: the next one may be under way.
    fn check_running(&self) -> Result<(), Fault> {
        if self.signals.is_cut_off() { Err(cut_off(&self.position.node)) } else { Ok(()) }
    }

    /// Returns the id of a remote thread without a record: that of the branch, whose root is drawn at
    /// random and stored in its checkpoints.
    fn remote_thread_of_branch(&self, of: &RemoteUse) -> Option<String> {
        let branch = self.position.branch?;
        let bits = first_128(&format!("remote thread {} {}", branch.0, of.name));
        Some(uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid().to_string())
    }

    fn lock_known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns a call its identity among calls of the task with the same input.
    fn occurrence(&self, intent: &Intent) -> Occurrence {
        let next = self.next_occurrence(intent);
        if let Occurrence::Nth(count) = next {
            let what = (intent.input, intent.kind, intent.name.clone());
            self.lock_known().seen.insert(what, count);
        }
        next
    }

    /// The identity of the next call with this input.
    fn next_occurrence(&self, intent: &Intent) -> Occurrence {
        if let Some(id) = &intent.call_id {
            return match self.own_calls.number(id) {
                Some(number) => Occurrence::Own(number),
                None => Occurrence::Id(id.clone()),
            };
        }
        let what = (intent.input, intent.kind, intent.name.clone());
        Occurrence::Nth(self.lock_known().seen.get(&what).copied().unwrap_or_default() + 1)
    }

    /// Announces the id of a call, and returns its round.
    fn announce_id(&self, intent: &Intent) -> Round {
        let Some(id) = &intent.call_id else { return Round::First };
        if self.book.history().reuses_origins() != ReuseOrigins::FirstStep {
            return Round::First;
        }
        match self.lock_known().announced.insert(id.clone()) {
            true => Round::First,
            false => Round::Later,
        }
    }

    /// Returns the state of a call that is not announced.
    async fn look_for(&self, call: Call) -> Result<Opened, Fault> {
        let key = call.key;
        Ok(match self.find(key).await? {
            Some(found) => match &found.result {
                Some(result) => Opened::Settled { key, result: result.clone() },
                None => Opened::Unknown { key, made: found.made },
            },
            None => match self.inherited(&call).await? {
                Some(Inherited::Result(result)) => Opened::Settled { key, result },
                Some(Inherited::Begun(found)) => {
                    Opened::Unknown { key: found.key, made: found.made }
                }
                None => self.look_elsewhere(&call).await?,
            },
        })
    }

    fn call_key(
        &self,
        intent: &Intent,
        occurrence: &Occurrence,
        position: &TaskPosition,
    ) -> CallKey {
        let attempt = match intent.attempts {
            Attempts::Each => self.position.attempt,
            Attempts::Shared => 0,
        };
        key::call_key(intent, occurrence, position, attempt)
    }

    /// Returns the record of a call, if one can exist.
    async fn find(&self, key: CallKey) -> Result<Option<Arc<CallRecord>>, Fault> {
        if let Some(own) = self.lock_known().calls.get(&key) {
            return Ok(Some(Arc::clone(own)));
        }
        // The key holds branch, path and superstep, and no superstep of a branch is begun twice.
        // So only this attempt can have recorded a call in a superstep that was begun here.
        if self.earlier == Earlier::Nobody {
            return Ok(None);
        }
        self.book.find(key).await
    }

    /// A call without a record, made for the first time.
    fn begun_call(&self, key: CallKey, intent: Intent) -> CallRecord {
        CallRecord {
            key,
            kind: intent.kind,
            name: intent.name,
            node: self.position.node.clone(),
            step: self.position.step,
            effect: intent.effect,
            state: CallState::Intent,
            result: None,
            made: 1,
            possibly_paid: self.count_unaccounted(intent.effect),
            reused: 0,
            opened_at: self.clock.now(),
            settled_at: None,
        }
    }

    /// Returns how often a call may have been started without leaving a record. A call with effects
    /// always leaves one; a read-only call may have been in progress in each process that died
    /// during the superstep.
    fn count_unaccounted(&self, effect: Effect) -> u32 {
        let may = effect == Effect::ReadOnly && self.earlier == Earlier::Processes;
        if may { self.book.history().lost() } else { 0 }
    }

    /// Includes a call in the next commit.
    fn note(&self, call: CallRecord) {
        self.book.note(self.remember_call(call));
    }

    /// Stores the current state of a call in memory.
    fn remember_call(&self, call: CallRecord) -> Arc<CallRecord> {
        let call = Arc::new(call);
        self.lock_known().calls.insert(call.key, Arc::clone(&call));
        call
    }

    /// Includes a call in the next commit; waits for the commit if the call changes something.
    async fn record(&self, call: CallRecord) -> Result<(), Fault> {
        self.store_call(self.remember_call(call)).await
    }

    async fn store_call(&self, call: Arc<CallRecord>) -> Result<(), Fault> {
        if call.effect == Effect::ReadOnly {
            self.book.note(call);
            return Ok(());
        }
        self.book.record(call).await
    }

    /// Begins a call that only reads and that cannot have been made before; returns the intent if a
    /// record of the call may exist.
    fn begin_read(&self, key: CallKey, intent: Intent) -> Result<(), Intent> {
        let branched = self.reuses_origins() && self.position.branch.is_some();
        if intent.effect != Effect::ReadOnly || self.earlier != Earlier::Nobody || branched {
            return Err(intent);
        }
        let mut known = self.lock_known();
        if known.calls.contains_key(&key) {
            return Err(intent);
        }
        known.calls.insert(key, Arc::new(self.begun_call(key, intent)));
        Ok(())
    }

    async fn announce_call(&self, call: Call) -> Result<Opened, Fault> {
        let key = call.key;
        match self.find(key).await? {
            Some(found) => self.open_again(found).await,
            None => match self.inherited(&call).await? {
                Some(Inherited::Result(result)) => Ok(self.adopt_result(call, result)),
                Some(Inherited::Begun(found)) => self.open_again(found).await,
                None => match self.rolled_back(&call).await? {
                    Some(found) => self.open_again(found).await,
                    None => self.open_first(call).await,
                },
            },
        }
    }

    async fn open_first(&self, Call { key, intent, .. }: Call) -> Result<Opened, Fault> {
        let call = self.begun_call(key, intent);
        if call.effect == Effect::ReadOnly {
            self.lock_known().calls.insert(key, Arc::new(call));
        } else {
            self.record(call).await?;
        }
        Ok(Opened::New { key })
    }

    /// Puts a call of another branch on record here, as reused.
    fn adopt_result(&self, Call { key, intent, .. }: Call, result: CallResult) -> Opened {
        let begun = self.begun_call(key, intent);
        let call = CallRecord {
            state: CallState::Settled,
            result: Some(result.clone()),
            made: 0,
            possibly_paid: 0,
            reused: 1,
            settled_at: Some(begun.opened_at),
            ..begun
        };
        self.note(call);
        Opened::Settled { key, result }
    }

    async fn open_again(&self, call: Arc<CallRecord>) -> Result<Opened, Fault> {
        let mut call = Arc::unwrap_or_clone(call);
        let key = call.key;
        if let (CallState::Settled, Some(result)) = (call.state, call.result.clone()) {
            call.reused = call.reused.saturating_add(1);
            self.note(call);
            return Ok(Opened::Settled { key, result });
        }
        // A read of an earlier attempt was recorded when it was cut off, which counted its start.
        let is_counted =
            call.effect == Effect::ReadOnly && !self.lock_known().calls.contains_key(&key);
        let unaccounted =
            self.count_unaccounted(call.effect).saturating_add(u32::from(!is_counted));
        call.possibly_paid = call.possibly_paid.saturating_add(unaccounted);
        if call.effect == Effect::ReadOnly {
            call.made = call.made.saturating_add(1);
            self.lock_known().calls.insert(key, Arc::new(call));
            return Ok(Opened::New { key });
        }
        let made = call.made;
        self.record(call).await?;
        Ok(Opened::Unknown { key, made })
    }

    /// Changes a call that has not ended; nothing when it has.
    fn change_call(
        &self,
        key: CallKey,
        change: impl FnOnce(&mut CallRecord),
    ) -> Result<Option<Arc<CallRecord>>, Fault> {
        let mut known = self.lock_known();
        let missing = || StoreError::NotFound { kind: "call", id: key.0.to_string() }.fault();
        let call = known.calls.get_mut(&key).ok_or_else(missing)?;
        if call.state == CallState::Settled {
            return Ok(None);
        }
        // Nobody else has it, as a rule, so that nothing is copied.
        change(Arc::make_mut(call));
        Ok(Some(Arc::clone(call)))
    }

    async fn make_again(&self, key: CallKey) -> Result<(), Fault> {
        self.check_running()?;
        let again = |call: &mut CallRecord| {
            call.made = call.made.saturating_add(1);
            if call.effect == Effect::ReadOnly {
                // The attempt before was made and left no result.
                call.possibly_paid = call.possibly_paid.saturating_add(1);
            }
        };
        match self.change_call(key, again)? {
            // Also a read is stored, so that its attempts count in the next process.
            Some(call) => self.book.record(call).await,
            None => Ok(()),
        }
    }

    /// Takes back the start of a read that was not made. What processes before may have made of it
    /// stays on record.
    fn take_back(&self, key: CallKey) {
        let mut known = self.lock_known();
        let is_open =
            |call: &CallRecord| call.state == CallState::Intent && call.effect == Effect::ReadOnly;
        if !known.calls.get(&key).is_some_and(|call| is_open(call)) {
            return;
        }
        let Some(mut call) = known.calls.remove(&key) else { return };
        let record = Arc::make_mut(&mut call);
        record.made = record.made.saturating_sub(1);
        if record.made > 0 || record.possibly_paid > 0 {
            self.book.note(call);
        }
    }

    async fn conclude_call(&self, key: CallKey, result: CallResult) -> Result<(), Fault> {
        self.check_running()?;
        let settled_at = self.clock.now();
        let ended = self.change_call(key, |call| {
            call.state = CallState::Settled;
            call.result = Some(result);
            call.settled_at = Some(settled_at);
        })?;
        match ended {
            Some(call) => self.store_call(call).await,
            None => Ok(()),
        }
    }
}

impl Journal for TaskJournal {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        // Calls are counted in the order in which they are announced, whenever they are polled.
        let occurrence = self.occurrence(&intent);
        let key = self.call_key(&intent, &occurrence, &self.position);
        let round = self.announce_id(&intent);
        Box::pin(async move {
            if let Err(source) = self.check_running() {
                return Err(JournalError { name: intent.name, source });
            }
            let Err(intent) = self.begin_read(key, intent) else { return Ok(Opened::New { key }) };
            let name = intent.name.clone();
            // Most calls do not get here, and are spared the room for it.
            let opened =
                Box::pin(self.announce_call(Call { key, intent, occurrence, round })).await;
            opened.map_err(|source| JournalError { name, source })
        })
    }

    fn look(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let occurrence = self.next_occurrence(&intent);
        let key = self.call_key(&intent, &occurrence, &self.position);
        Box::pin(async move {
            let name = intent.name.clone();
            let call = Call { key, intent, occurrence, round: Round::First };
            let looked = self.look_for(call).await;
            looked.map_err(|source| JournalError { name, source })
        })
    }

    fn begin_again(&self, key: CallKey) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let begun = self.make_again(key).await;
            begun.map_err(|source| JournalError { name: key.0.to_string(), source })
        })
    }

    fn withdraw(&self, key: CallKey) {
        self.take_back(key);
    }

    fn settle(&self, key: CallKey, result: CallResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let name = || key.0.to_string();
            if !can_be_read_back(&result.value) {
                let what = "the result of a call";
                let source = RuntimeError::TooDeep { what }.fault();
                return Err(JournalError { name: name(), source });
            }
            let concluded = self.conclude_call(key, result).await;
            concluded.map_err(|source| JournalError { name: name(), source })
        })
    }

    fn admit<'a>(&'a self, call: Admission<'a>) -> BoxFuture<'a, Result<Admitted, JournalError>> {
        Box::pin(async move {
            // A call without an id is counted when it is announced, and not before.
            if call.intent.call_id.is_none() {
                return Ok(Admitted::NoRecords);
            }
            let occurrence = self.next_occurrence(call.intent);
            let key = self.call_key(call.intent, &occurrence, &self.position);
            let admitted = self.book.history().admit(key, call).await;
            admitted.map_err(|source| JournalError { name: call.intent.name.clone(), source })
        })
    }

    fn succeeded(&self, key: CallKey) {
        self.book.history().succeeded(key);
    }

    fn store_artifact(&self, artifact: NewArtifact) -> Option<String> {
        self.book.history().store_artifact(artifact)
    }

    fn remote_thread(&self, of: RemoteUse) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(async move {
            let name = of.server.name.clone();
            let of_branch = self.remote_thread_of_branch(&of);
            let error = |source| JournalError { name: name.clone(), source };
            self.check_running().map_err(error)?;
            let recorded = self.book.history().remote_thread(of).await.map_err(error)?;
            Ok(recorded.or(of_branch))
        })
    }
}

impl Drop for TaskJournal {
    /// Calls that were cut off, or that failed on the way, are on record as begun and possibly
    /// paid. Those that change something are on record already.
    fn drop(&mut self) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        let begun = std::mem::take(&mut known.calls).into_values();
        let read = begun.filter(|call| call.effect == Effect::ReadOnly);
        for mut call in read.filter(|call| call.state == CallState::Intent) {
            let record = Arc::make_mut(&mut call);
            record.possibly_paid = record.possibly_paid.saturating_add(1);
            self.book.note(call);
        }
    }
}
