//! Calls that are recorded on other branches of a thread, or on threads from which it was forked.

use super::{Call, Round, TaskJournal, TaskPosition};
use crate::run_loop::call_book::{AskedInput, MadeElsewhere, RecordedCalls, ReuseOrigins};
use crate::run_loop::context::Earlier;
use std::sync::Arc;
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::port::{CallRecord, CallResult, Intent, Opened};
use weftwork_types::tool::Effect;

/// A call of a branch from which another one descends.
#[derive(Debug)]
pub(super) enum Inherited {
    Result(CallResult),
    /// It may have had an effect, and goes on under the key that was sent along with it.
    Begun(Arc<CallRecord>),
}

impl TaskJournal {
    /// Returns `true` if calls of origin branches are reused in the superstep of the task.
    pub(super) fn reuses_origins(&self) -> bool {
        match self.book.history().reuses_origins() {
            ReuseOrigins::Nothing => false,
            ReuseOrigins::FirstStep => self.earlier != Earlier::Nobody,
            ReuseOrigins::Everything => true,
        }
    }

    /// The same call on a branch from which this one descends.
    pub(super) async fn inherited(&self, call: &Call) -> Result<Option<Inherited>, Fault> {
        let Some(branch) = self.position.branch.filter(|_| self.reuses_origins()) else {
            return Ok(None);
        };
        let is_first_step = self.book.history().reuses_origins() == ReuseOrigins::FirstStep;
        let may_act = is_first_step && call.intent.effect != Effect::ReadOnly;
        // A graph that waited goes on with the answers of this branch.
        if is_first_step && !may_act && call.round == Round::Later {
            return Ok(None);
        }
        for origin in self.book.history().origins(branch).await?.iter() {
            let mut position = TaskPosition { branch: origin.branch, ..self.position.clone() };
            if let Some((_, _, step)) = position.path.first_mut() {
                *step -= origin.earlier;
            }
            let key = self.call_key(&call.intent, &call.occurrence, &position);
            let found = self.book.history().find_on_thread(key).await?;
            let Some(found) = found else { continue };
            match &found.result {
                Some(result) => return Ok(Some(Inherited::Result(result.clone()))),
                None if may_act => return Ok(Some(Inherited::Begun(found))),
                // What came of an effect without a result is for its own branch to find out.
                None => {}
            }
        }
        Ok(None)
    }

    /// Returns the state of a call that has no record on its branch.
    pub(super) async fn look_elsewhere(&self, call: &Call) -> Result<Opened, Fault> {
        let Some(elsewhere) = self.made_elsewhere(call).await? else {
            return Ok(Opened::New { key: call.key });
        };
        let places = std::iter::once(&elsewhere.rolled_back).chain(&elsewhere.of_origins);
        let inputs = |recorded: &RecordedCalls| {
            let asked = AskedInput { tool: call.intent.name.clone(), input: call.intent.input };
            let edited = recorded.edited.get(&asked).into_iter().flatten().copied();
            std::iter::once(call.intent.input).chain(edited).collect::<Vec<_>>()
        };
        let found =
            places.filter_map(|recorded| self.find_in(call, recorded, &inputs(recorded))).next();
        Ok(match found {
            Some(CallRecord { key, result: Some(result), .. }) => {
                Opened::Settled { key: *key, result: result.clone() }
            }
            Some(CallRecord { key, made, .. }) => Opened::Unknown { key: *key, made: *made },
            None if elsewhere.is_incomplete => Opened::Unknown { key: call.key, made: 1 },
            None => Opened::New { key: call.key },
        })
    }

    /// Returns the calls that are recorded under the keys of other positions; `None` if that cannot
    /// be the case for a call.
    async fn made_elsewhere(&self, call: &Call) -> Result<Option<Arc<MadeElsewhere>>, Fault> {
        let may_be = self.earlier != Earlier::Nobody && call.intent.effect != Effect::ReadOnly;
        if may_be { self.book.history().made_elsewhere().await.map(Some) } else { Ok(None) }
    }

    /// Finds a call, with one of some inputs, among those that are recorded under the keys of other
    /// positions. One with a result is preferred.
    fn find_in<'r>(
        &self,
        call: &Call,
        recorded: &'r RecordedCalls,
        inputs: &[Hash],
    ) -> Option<&'r CallRecord> {
        let intents = inputs.iter().map(|input| Intent { input: *input, ..call.intent.clone() });
        let intents: Vec<Intent> = intents.collect();
        let mut found: Option<&CallRecord> = None;
        for branch in &recorded.branches {
            for earlier in 0..=recorded.supersteps {
                let mut position = TaskPosition { branch: *branch, ..self.position.clone() };
                if let Some((_, _, step)) = position.path.first_mut() {
                    *step -= earlier;
                }
                for intent in &intents {
                    let key = self.call_key(intent, &call.occurrence, &position);
                    match recorded.calls.get(&key) {
                        Some(settled) if settled.result.is_some() => return Some(settled),
                        other => found = found.or(other.map(|call| &**call)),
                    }
                }
            }
        }
        found
    }

    /// Returns the record of a call of a run that was rolled back since, which did not undo the effect of
    /// the call. It goes on under the key that was sent along with it.
    pub(super) async fn rolled_back(&self, call: &Call) -> Result<Option<Arc<CallRecord>>, Fault> {
        let Some(elsewhere) = self.made_elsewhere(call).await? else { return Ok(None) };
        let found = self.find_in(call, &elsewhere.rolled_back, &[call.intent.input]);
        Ok(found.map(|found| Arc::new(found.clone())))
    }
}
