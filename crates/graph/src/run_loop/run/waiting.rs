//! Runs that wait in place for their timers.

use super::Run;
use crate::error::RuntimeError;
use crate::run_loop::context::LoopContext;
use crate::run_loop::options::{LoopInput, LoopOutcome, LoopResult};
use crate::run_loop::supersteps::RunLoop;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_types::Timestamp;
use weftwork_types::interrupt::Interrupt;

impl Run {
    /// Waits in place for timers, and for questions that expire, rather than ending at them.
    ///
    /// The run sleeps on the host's clock until the earliest expiry and then continues, as long as
    /// each open question has one; it ends when a question is open that only an answer ends. Step
    /// limit and deadline hold for all of it, waiting included. An answer that another run gives in
    /// the meantime is seen when this one wakes.
    ///
    /// The host must have a checkpointer, or the run fails with
    /// [`RuntimeError::NoCheckpointer`](crate::RuntimeError::NoCheckpointer). When the process
    /// ends, nothing is lost: [`Start::Continue`](crate::run_loop::Start::Continue) resumes the
    /// run.
    pub fn waiting(mut self) -> Self {
        self.options.waiting = true;
        self
    }
}

/// Runs the loop to its end, and resumes it as long as each open question expires.
pub(crate) async fn run_to_end(
    mut loop_context: Arc<LoopContext>,
    mut begin: LoopInput,
) -> LoopResult<(LoopOutcome, RunLoop)> {
    if loop_context.storage.checkpointer.is_none() {
        return Err(RuntimeError::NoCheckpointer { what: "waiting for timers" });
    }
    let mut going = loop_context.run.options.clone();
    loop {
        let clock = Arc::clone(loop_context.run.host.clock());
        let began = clock.now();
        let (ended, run_loop) = RunLoop::run(loop_context, begin, &going).await?;
        let before = &run_loop.loop_context.run;
        let wake = match &ended {
            // A node asked the run to stop after this superstep.
            LoopOutcome::Interrupted(open) if before.drained().is_none() => {
                next_expiry(open, began)
            }
            _ => None,
        };
        let Some(wake) = wake else { return Ok((ended, run_loop)) };
        let rule = run_loop.loop_context.graph.settings().steps;
        // Supersteps before the wait count, with those of earlier processes.
        going.step_limit = Some(run_loop.position.steps_left(rule));
        going.continued = None;
        // The run has made newer checkpoints: from the named one it would begin another branch.
        going.at = None;
        clock.sleep(wake.since(clock.now())).await;
        let shared = Arc::new(before.after_wait());
        loop_context = Arc::new(LoopContext::outermost(
            shared,
            run_loop.loop_context.graph.clone(),
            BTreeMap::new(),
        ));
        begin = LoopInput::Nothing;
    }
}

/// When the first of the questions expires, if all of them do. One that had expired when the run
/// began and is still open waits for another to be answered before it.
fn next_expiry(open: &[Interrupt], began: Timestamp) -> Option<Timestamp> {
    let all: Option<Vec<Timestamp>> = open.iter().map(Interrupt::lapses_at).collect();
    all?.into_iter().filter(|at| *at > began).min()
}
