use super::journal::{CallKey, CallResult, Intent, Journal, JournalError, Opened};
use super::{Budget, Clock, Ledger};
use crate::caller::GraphCaller;
use crate::event::AiEvent;
use crate::{BoxFuture, MessageId, Principal, ThreadId, Timestamp, canonical};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Where events of a running task go. Never blocks and never fails: who listens may lag or leave.
pub trait Emit: Send + Sync + std::fmt::Debug {
    /// Tells one event.
    fn emit(&self, event: AiEvent);

    /// Emits an event about a message that a model is producing: partial text, or the reset that
    /// voids it. Receivers that do not tell messages apart get the event alone.
    fn emit_of(&self, _message: &MessageId, event: AiEvent) {
        self.emit(event);
    }
}

/// Everything a model or tool call made inside a run needs from the run. A node gets it from its
/// context and passes it to the model or tool seam.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// On whose behalf.
    pub principal: Principal,
    /// Who pays, and for which run of which graph.
    pub caller: Arc<GraphCaller>,
    /// The thread.
    pub thread: ThreadId,
    /// The record of calls, bound to the task that makes them.
    pub journal: Arc<dyn Journal>,
    /// What may still be spent.
    pub budget: Arc<dyn Budget>,
    /// Where usage facts go.
    pub ledger: Arc<dyn Ledger>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where events go.
    pub emit: Arc<dyn Emit>,
    /// When the caller stops waiting, if ever.
    pub deadline: Option<Timestamp>,
}

/// Drops every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Emit for Silent {
    fn emit(&self, _event: AiEvent) {}
}

/// A journal that remembers nothing: every call is new. For calls outside any run, and for the
/// test that shows what the journal is good for.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn open(&self, intent: Intent) -> BoxFuture<'_, Result<Opened, JournalError>> {
        // It cannot tell a call that is made again from another one, so that each has a key of its
        // own: each of these states hashes differently.
        let drawn = [0, 1].map(|half| RandomState::new().hash_one(half));
        let text = format!("{:?}/{}/{}/{drawn:?}", intent.kind, intent.name, intent.input);
        let key = CallKey(canonical::hash_bytes(text.as_bytes()));
        Box::pin(async move { Ok(Opened::New { key }) })
    }

    fn begin_again(&self, _key: CallKey) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }

    fn settle(
        &self,
        _key: CallKey,
        _result: CallResult,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }
}
