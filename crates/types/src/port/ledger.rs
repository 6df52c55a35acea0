use crate::caller::GraphCaller;
use crate::code::Fault;
use crate::usage::UsageFact;
use crate::{BoxFuture, Principal};

/// Where usage facts go. The only writer of charges.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Writes one fact. The same invocation id a second time changes nothing. In hosted runs it is
    /// on disk with the next commit of the run, as the answer it is the bill of.
    ///
    /// # Errors
    /// [`LedgerError`] when it could not be written; the caller keeps the fact and tries again.
    fn record<'a>(
        &'a self,
        principal: &'a Principal,
        caller: &'a GraphCaller,
        fact: &'a UsageFact,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;
}

/// A fact could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("usage of invocation `{invocation}` was not recorded: {source}")]
pub struct LedgerError {
    /// The attempt whose fact is not written.
    pub invocation: String,
    /// Why.
    pub source: Fault,
}

/// Writes no fact down, for calls outside of hosted runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn record<'a>(
        &'a self,
        _principal: &'a Principal,
        _caller: &'a GraphCaller,
        _fact: &'a UsageFact,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
