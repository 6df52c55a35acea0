//! Looking at a thread without running it.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use std::sync::Arc;
use weftwork_engine::{Machine, record};
use weftwork_store::ReadSteps;
use weftwork_types::{Principal, ThreadId};

/// The state of a thread as its newest checkpoint has it, as an object of channel values; `None`
/// when it has no checkpoint yet. Only reads.
///
/// # Errors
/// [`RuntimeError::Store`] when there is no such thread or the store refuses,
/// [`RuntimeError::Engine`] when the checkpoints are not of this graph.
pub async fn thread_state<S: ReadSteps + ?Sized>(
    graph: &CompiledGraph,
    store: &S,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Option<serde_json::Value>, RuntimeError> {
    let Some(head) = store.head(who, thread).await? else { return Ok(None) };
    let mut machine = Machine::new(Arc::clone(graph.plan()));
    for row in head.steps {
        let step = record::read(row.step, &row.body)?;
        machine.restore(row.id, row.step, step)?;
    }
    Ok(Some(machine.plan().to_json(machine.slots())?))
}
