use crate::caller::GraphCaller;
use crate::code::Fault;
use crate::usage::UsageFact;
use crate::{BoxFuture, Principal};

/// Sink for usage facts. The only writer of charges.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Records one fact. Recording the same invocation id again has no effect. In hosted runs the
    /// fact is durable with the next commit of the run, together with the answer it belongs to.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the fact could not be written; the caller retains it and tries
    /// again.
    fn record<'a>(
        &'a self,
        principal: &'a Principal,
        caller: &'a GraphCaller,
        fact: &'a UsageFact,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;
}

/// An error for a usage fact that was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("usage of invocation `{invocation}` was not recorded: {source}")]
pub struct LedgerError {
    /// Id of the attempt.
    pub invocation: String,
    /// Cause.
    pub source: Fault,
}

/// A ledger that discards every fact, for calls outside of hosted runs.
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
