use crate::BoxFuture;
use crate::usage::UsageFact;

/// Sink for the usage facts of one run, or of a program outside of runs. The only writer of charges.
///
/// A fact is handed over without waiting and cannot be refused, because it is also handed over by
/// attempts that are dropped: a cancelled attempt was paid for too.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Records one fact. Recording the same invocation id again has no effect. In hosted runs the
    /// fact is durable with the next commit of the run; after the end of the run it is written at
    /// once, on its own.
    ///
    /// Never blocks, and may be called outside of an asynchronous task.
    fn record(&self, fact: &UsageFact);

    /// Waits until the facts that were recorded before are durable, or no commit follows. A ledger that
    /// writes each fact on its own does not wait. A failed attempt waits for this before the next one begins, so that a process that dies loses the facts of
    /// at most the attempts in progress.
    ///
    /// Cancel safe.
    fn recorded(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A ledger that discards every fact, for calls outside of hosted runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn record(&self, _: &UsageFact) {}
}
