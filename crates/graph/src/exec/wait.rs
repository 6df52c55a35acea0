//! Runs that wait in place for their timers.

use super::api::{Going, Limits, LoopOutcome, Options};
use super::begin::Begin;
use super::cycle::Cycle;
use super::run::Run;
use super::scope::{Scope, Shared, lock};
use crate::error::RuntimeError;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_types::Timestamp;
use weftwork_types::interrupt::Interrupt;

impl Run {
    /// Waits in place for timers, and for questions that expire, rather than ending at them.
    ///
    /// The run sleeps on the host's clock until the earliest expiry and goes on, as long as each
    /// open question has one; it ends when a question is open that only an answer ends. Step limit
    /// and deadline hold for all of it, waiting included. An answer that another run gives in the
    /// meantime is seen when this one wakes.
    ///
    /// The host must have a saver, or the run fails with
    /// [`RuntimeError::NoSaver`](crate::RuntimeError::NoSaver). When the process ends, nothing is
    /// lost: [`Start::Continue`](crate::exec::Start::Continue) takes it up.
    pub fn waiting(mut self) -> Self {
        self.options.waiting = true;
        self
    }
}

/// Takes the loop to its end, and on from there as often as waiting is enough.
pub(super) async fn run(
    mut scope: Arc<Scope>,
    mut begin: Begin,
    options: &Options,
) -> Going<(LoopOutcome, Cycle)> {
    if scope.keep.saver.is_none() {
        return Err(RuntimeError::NoSaver { what: "waiting for timers" });
    }
    let mut going = options.clone();
    loop {
        let clock = Arc::clone(scope.shared.host.clock());
        let began = clock.now();
        let (ended, cycle) = Cycle::run(scope, begin, &going).await?;
        let wake = match &ended {
            LoopOutcome::Interrupted(open) => wake(open, began),
            _ => None,
        };
        let Some(wake) = wake else { return Ok((ended, cycle)) };
        going.step_limit = Some(cycle.steps_left());
        going.at = None;
        clock.sleep(wake.since(clock.now())).await;
        let shared = Arc::new(again(&cycle.scope.shared, options));
        scope = Arc::new(Scope::outermost(shared, cycle.scope.graph.clone(), BTreeMap::new()));
        begin = Begin::Nothing;
    }
}

/// When the first of the questions expires, if all of them do. One that had expired when the run
/// began and is still open waits for another to be answered before it.
fn wake(open: &[Interrupt], began: Timestamp) -> Option<Timestamp> {
    let all: Option<Vec<Timestamp>> = open.iter().map(Interrupt::lapses_at).collect();
    all?.into_iter().filter(|at| *at > began).min()
}

/// Creates the shared data for a resumed run, with the messages that were already emitted.
fn again(before: &Shared, options: &Options) -> Shared {
    let shared = Shared::new(before.host.clone(), options, before.sink.clone());
    std::mem::swap(&mut *lock(&shared.messages), &mut *lock(&before.messages));
    shared
}

impl Cycle {
    /// Returns the remaining steps of the step limit.
    fn steps_left(&self) -> u32 {
        let beyond = match self.scope.graph.semantics().limits {
            Limits::Exact => 0,
            Limits::Reference => 1,
        };
        u32::try_from(self.stop.saturating_sub(self.step).saturating_sub(beyond)).unwrap_or(0)
    }
}
