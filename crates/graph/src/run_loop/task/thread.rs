//! Nodes on other threads than that of their run.

use super::NodeFuture;
use crate::compiled::Thread;
use crate::error::NodeError;
use crate::output::NodeResult;
use crate::run_loop::context::AttemptSignals;
use futures_util::future::{AbortHandle, Aborted, abortable};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use weftwork_engine::TaskOutput;

/// Moves the future of an attempt to the thread that its node asks for, at once. Dropping the
/// returned future cuts the attempt off: it ends at its next await point, and until then what it
/// does is refused.
pub(crate) fn on_thread(
    thread: Thread,
    future: NodeFuture,
    signals: &Arc<AttemptSignals>,
) -> NodeFuture {
    if thread == Thread::Run {
        return future;
    }
    let (future, cut) = abortable(future);
    let task = match thread {
        Thread::Blocking => {
            let runtime = Handle::current();
            tokio::task::spawn_blocking(move || runtime.block_on(future))
        }
        Thread::Run | Thread::Parallel => tokio::spawn(future),
    };
    Box::pin(Spawned { task, cut, signals: Arc::clone(signals) })
}

/// An attempt on another thread.
struct Spawned {
    task: JoinHandle<Result<NodeResult<TaskOutput>, Aborted>>,
    cut: AbortHandle,
    signals: Arc<AttemptSignals>,
}

impl Future for Spawned {
    type Output = NodeResult<TaskOutput>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.task).poll(cx)) {
            Ok(Ok(result)) => result,
            Ok(Err(aborted)) => Err(NodeError::message(format!("the node ended: {aborted}"))),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(NodeError::message(format!("the node's thread ended: {error}"))),
        })
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if !self.task.is_finished() {
            // Before the abort, which takes effect at the next await point: calls until then are
            // refused.
            self.signals.cut_off();
            self.cut.abort();
            // What has not begun to run never does.
            self.task.abort();
        }
    }
}
