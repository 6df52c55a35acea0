//! Requirements of the policy on earlier calls and on calls at once.

use super::ToolRunner;
use super::attempt::{Cut, time_left};
use super::execute::RunCall;
use crate::error::{RunToolError, code};
use futures_util::future::{Either, poll_fn, select};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use weftwork_types::canonical::{self, Hash};
use weftwork_types::port::{Admission, Admitted, Intent, PastCall};
use weftwork_types::tool::{ToolErrorKind, ToolFailure};

/// Calls in progress, by tool.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    calls: BTreeMap<String, u32>,
    waiting: Vec<Waker>,
}

/// A place among the calls of a tool that are made at once.
#[derive(Debug)]
pub(super) struct CallSlot {
    of: Places,
    tool: String,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place among at most `max` calls. Cancel safe.
    async fn take(&self, tool: &str, max: u32) -> CallSlot {
        poll_fn(|context| {
            let mut taken = self.lock();
            let calls = taken.calls.entry(tool.to_owned()).or_default();
            if *calls >= max {
                taken.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            *calls += 1;
            Poll::Ready(CallSlot { of: self.clone(), tool: tool.to_owned() })
        })
        .await
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        if let Some(calls) = taken.calls.get_mut(&self.tool) {
            *calls = calls.saturating_sub(1);
        }
        let waiting = std::mem::take(&mut taken.waiting);
        drop(taken);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl ToolRunner {
    /// Checks the requirements of the policy on the earlier calls of the run, and waits until the
    /// tool may be called once more. The inner error is the refusal.
    pub(super) async fn admit(
        &self,
        call: &RunCall,
        intent: &Intent,
    ) -> Result<Result<Option<CallSlot>, ToolFailure>, RunToolError> {
        if let Err(reason) = self.look_back(call, intent).await? {
            return Ok(Err(ToolFailure::new(
                ToolErrorKind::PolicyDenied,
                code::POLICY_DENIED,
                format!("policy denies tool `{}`: {reason}", call.name()),
            )));
        }
        Ok(self.take_slot(call).await)
    }

    /// Waits until the tool may be called once more.
    pub(super) async fn take_slot(&self, call: &RunCall) -> Result<Option<CallSlot>, ToolFailure> {
        let Some(max) = call.head.requires.at_once else { return Ok(None) };
        let limit = time_left(call.tool.as_ref(), &call.head.context);
        let slot = pin!(self.places.take(call.name(), max));
        match select(slot, call.head.context.clock.sleep(limit)).await {
            Either::Left((slot, _)) => Ok(Some(slot)),
            Either::Right(_) => {
                let acted = call.rounds.have_acted();
                Err(Cut::TimedOut { after: limit }.failure(call.name(), acted))
            }
        }
    }

    async fn look_back(
        &self,
        call: &RunCall,
        intent: &Intent,
    ) -> Result<Result<(), String>, RunToolError> {
        let requires = &call.head.requires;
        let name = call.name();
        let compared = self.policy.compared_args(name);
        if !requires.look_back() && compared.is_none() {
            return Ok(Ok(()));
        }
        let hashes = |members: &[&str]| -> BTreeMap<String, Hash> {
            let args = &call.head.args;
            let found = members.iter().filter_map(|name| Some((*name, args.get(*name)?)));
            found.map(|(name, value)| (name.to_owned(), canonical::hash(value))).collect()
        };
        let same = requires.after.iter().flat_map(|after| &after.same);
        let own = hashes(&same.map(String::as_str).collect::<Vec<_>>());
        let decide = |past: &[PastCall]| requires.fulfilled(name, &own, past);
        let args = hashes(&compared.unwrap_or_default());
        let admission = Admission { intent, args: &args, decide: &decide };
        Ok(match call.head.context.journal.admit(admission).await? {
            Admitted::Yes { .. } => Ok(()),
            Admitted::No { reason } => Err(reason),
            Admitted::NoRecords if !requires.look_back() => Ok(()),
            Admitted::NoRecords => Err(
                "its rule refers to earlier calls of the run, which only runs over a store record"
                    .to_owned(),
            ),
        })
    }
}
