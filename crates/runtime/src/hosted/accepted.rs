//! A run in the store that this process may claim.

use tokio::sync::mpsc;
use weftwork_graph::CompiledGraph;
use weftwork_graph::run_loop::{Modes, StateForm, StreamItem};
use weftwork_types::Principal;
use weftwork_types::port::Dependencies;
use weftwork_types::run::RunRef;

/// Receiver of the events of a run in stream modes, in the process that executes it.
#[derive(Debug, Clone)]
pub(crate) struct ModeReceiver {
    pub(crate) modes: Modes,
    /// Form of the state in them.
    pub(crate) form: StateForm,
    pub(crate) items: mpsc::UnboundedSender<StreamItem>,
}

/// Origin of the execution of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A client requested it: it is executed however many processes it has ended before.
    Client,
    /// The runtime found it without a worker.
    Recovery,
}

/// A run that is in the store, or that its claim adds there. The row is read with the claim: what it
/// has before may change until then.
#[derive(Debug, Clone)]
pub(crate) struct AcceptedRun {
    pub(crate) who: Principal,
    pub(crate) at: RunRef,
    pub(crate) graph: CompiledGraph,
    pub(crate) requester: Requester,
    pub(crate) receiver: Option<ModeReceiver>,
    /// Dependencies that were made before the claim: without them the run stays for another process.
    pub(crate) made: Option<Dependencies>,
}
