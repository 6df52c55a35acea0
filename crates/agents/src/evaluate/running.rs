//! Guards of an evaluation: for its run, and for the report of its end.

use super::bus::{ExecutedOutcome, PromptEventKind, PromptEventSource, PromptExecuted};
use super::record::Record;
use super::request::{Ended, EvaluationRequest, Planned};
use super::resources::ActiveEvaluation;
use super::{EvaluationError, Evaluator};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::ThreadId;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::RunRef;
use weftwork_types::usage::{Usage, UsageCount};

/// The run of an evaluation, from before its request. If it is dropped before [`end`](Self::end),
/// the run is cancelled, and what it used is reported.
#[derive(Debug)]
pub(super) struct RunningEvaluation(Option<Cleanup>);

/// The steps after the end of an evaluation. Their errors are logged: the outcome is already known.
#[derive(Debug)]
struct Cleanup {
    evaluator: Evaluator,
    thread: ThreadId,
    active: Arc<ActiveEvaluation>,
    report: Arc<EvaluationReport>,
    /// Usage of the earlier runs of the evaluation.
    used: UsageCount,
    /// The run, until it has ended.
    run: Option<RunRef>,
    /// `true` if the thread is deleted.
    deletes: bool,
}

impl RunningEvaluation {
    pub(super) fn new(
        evaluator: &Evaluator,
        planned: &Planned,
        active: Arc<ActiveEvaluation>,
        report: Arc<EvaluationReport>,
    ) -> Self {
        Self(Some(Cleanup {
            evaluator: evaluator.clone(),
            thread: planned.thread.clone(),
            active,
            report,
            used: planned.used.clone(),
            run: None,
            deletes: false,
        }))
    }

    /// Sets the run, until it has ended.
    pub(super) fn set_run(&mut self, run: Option<RunRef>) {
        if let Some(cleanup) = &mut self.0 {
            cleanup.run = run;
        }
    }

    /// Chooses if the thread is deleted at the end.
    pub(super) fn set_deletes(&mut self, deletes: bool) {
        if let Some(cleanup) = &mut self.0 {
            cleanup.deletes = deletes;
        }
    }

    /// Ends the evaluation, and waits until its thread is deleted.
    pub(super) async fn end(mut self) {
        if let Some(ended) = self.0.take().and_then(Cleanup::spawn) {
            // A panic has been reported by its task.
            let _panicked = ended.await;
        }
    }
}

impl Drop for RunningEvaluation {
    fn drop(&mut self) {
        if let Some(cleanup) = self.0.take() {
            cleanup.spawn();
        }
    }
}

impl Cleanup {
    /// Runs in a task of its own: the caller may stop waiting.
    fn spawn(self) -> Option<tokio::task::JoinHandle<()>> {
        match tokio::runtime::Handle::try_current() {
            Ok(here) => Some(here.spawn(self.clean_up())),
            // Without a runtime there is nothing that executes the run either.
            Err(_) => {
                self.evaluator.resources.end(&self.active);
                None
            }
        }
    }

    async fn clean_up(self) {
        let Self { evaluator, thread, active, report, used, run, deletes } = self;
        if let Some(run) = &run {
            cancel_run(&evaluator, run).await;
            match count_usage(&evaluator, run, used).await {
                Ok(used) => report.set_usage(used + active.nested_usage()),
                Err(error) => {
                    tracing::warn!(run = %run.run, %error, "the usage of a dropped run cannot be read");
                }
            }
        }
        evaluator.resources.end(&active);
        if deletes {
            delete_thread(&evaluator, thread).await;
        }
    }
}

/// Cancels a run, and waits for its end.
async fn cancel_run(evaluator: &Evaluator, run: &RunRef) {
    let runtime = &evaluator.runtime;
    let who = &evaluator.principal;
    if let Err(error) = runtime.cancel(who, run).await {
        tracing::warn!(run = %run.run, %error, "a dropped evaluation was not cancelled");
    }
    match runtime.follow_run(who, run).await {
        Ok(run) => drop(run.await),
        Err(error) => tracing::warn!(run = %run.run, %error, "a dropped run cannot be read"),
    }
}

/// Returns the usage of a run that has ended, and of those before it.
async fn count_usage(
    evaluator: &Evaluator,
    run: &RunRef,
    mut used: UsageCount,
) -> Result<Usage, RuntimeError> {
    evaluator.runtime.count_usage(&evaluator.principal, run, &mut used).await?;
    Ok(used.used())
}

/// Deletes the thread of an evaluation, and those of evaluations within its tool calls.
async fn delete_thread(evaluator: &Evaluator, thread: ThreadId) {
    let who = &evaluator.principal;
    let threads = evaluator.runtime.threads().with_principal(who.clone());
    let mut rest = vec![thread];
    while let Some(thread) = rest.pop() {
        rest.extend(evaluator.resources.take_nested(who, &thread));
        match threads.delete(&thread).await {
            Ok(()) | Err(RuntimeError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => {
                tracing::warn!(%thread, %error, "the thread of an evaluation was not deleted");
            }
        }
    }
}

/// The report of the end of an evaluation. It is published exactly once, when its last holder drops
/// it: the cleanup of an evaluation that was dropped holds it until the run has ended.
#[derive(Debug)]
pub(super) struct EvaluationReport {
    evaluator: Evaluator,
    state: Mutex<ReportState>,
}

#[derive(Debug)]
struct ReportState {
    source: PromptEventSource,
    executed: PromptExecuted,
}

impl EvaluationReport {
    pub(super) fn new(request: &EvaluationRequest, session: &ThreadId) -> Arc<Self> {
        let prompt = request.id.clone();
        let source = PromptEventSource { evaluation: None, prompt, session: session.clone() };
        let executed =
            PromptExecuted { outcome: ExecutedOutcome::Dropped, usage: Usage::default() };
        let state = Mutex::new(ReportState { source, executed });
        Arc::new(Self { evaluator: request.evaluator.clone(), state })
    }

    /// Sets the evaluation and its session, once they are known.
    pub(super) fn set_begun(&self, record: &Record) {
        let source = &mut self.state().source;
        source.evaluation = Some(record.id.clone());
        source.session.clone_from(&record.session);
    }

    pub(super) fn set_usage(&self, usage: Usage) {
        self.state().executed.usage = usage;
    }

    pub(super) fn usage(&self) -> Usage {
        self.state().executed.usage
    }

    pub(super) fn set_outcome(&self, ended: &Result<Ended, EvaluationError>) {
        self.state().executed.outcome = match ended {
            Ok(Ended::Done(response, value)) => {
                ExecutedOutcome::Done { text: response.text.clone(), value: value.clone() }
            }
            Ok(Ended::Interrupted(interrupted)) => {
                ExecutedOutcome::Interrupted { questions: interrupted.interrupts.len() }
            }
            Err(error) => ExecutedOutcome::Failed {
                kind: error.kind,
                phase: error.phase,
                attempt: error.attempt,
                code: error.code().to_owned(),
                message: error.fault.message.clone(),
            },
        };
    }

    fn state(&self) -> MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EvaluationReport {
    fn drop(&mut self) {
        let ReportState { source, executed } = &*self.state();
        let kind = PromptEventKind::PromptExecuted(executed.clone());
        self.evaluator.resources.publish(&**self.evaluator.runtime.clock(), source, kind);
    }
}
