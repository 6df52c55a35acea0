//! Guards of an evaluation: for its run, and for the report of its end.

use super::bus::{EventSource, ExecutedOutcome, PromptEventKind, PromptExecuted};
use super::request::{Ended, EvaluationRequest};
use super::resources::ActiveEvaluation;
use super::{EvaluationError, Evaluator};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::ThreadId;
use weftwork_types::event::Position;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::RunRef;
use weftwork_types::usage::Usage;

/// The run of an evaluation, from before its request. If it is dropped before [`end`](Self::end),
/// the run is cancelled.
#[derive(Debug)]
pub(super) struct RunningEvaluation(Option<Cleanup>);

/// The steps after the end of an evaluation. Their errors are logged: the outcome is already known.
#[derive(Debug)]
struct Cleanup {
    evaluator: Evaluator,
    thread: ThreadId,
    active: Arc<ActiveEvaluation>,
    /// The run, until it has ended.
    run: Option<RunRef>,
    /// `true` if the thread is deleted.
    deletes: bool,
}

impl RunningEvaluation {
    pub(super) fn new(
        evaluator: &Evaluator,
        thread: &ThreadId,
        active: Arc<ActiveEvaluation>,
    ) -> Self {
        Self(Some(Cleanup {
            evaluator: evaluator.clone(),
            thread: thread.clone(),
            active,
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
        let Self { evaluator, thread, active, run, deletes } = self;
        if let Some(run) = &run {
            cancel_run(&evaluator, run, deletes).await;
        }
        evaluator.resources.end(&active);
        if deletes {
            delete_thread(&evaluator, thread).await;
        }
    }
}

/// Cancels a run. Before its thread is deleted, its end is awaited.
async fn cancel_run(evaluator: &Evaluator, run: &RunRef, deletes: bool) {
    let runtime = &evaluator.runtime;
    let who = &evaluator.principal;
    if let Err(error) = runtime.cancel(who, run).await {
        tracing::warn!(run = %run.run, %error, "a dropped evaluation was not cancelled");
    }
    if !deletes {
        return;
    }
    match runtime.watch(who, run, Position::END).await {
        Ok(handle) => drop(handle.outcome.await),
        Err(error) => tracing::warn!(run = %run.run, %error, "a dropped run cannot be read"),
    }
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

/// Publishes the end of an evaluation exactly once, also if it is dropped.
pub(super) struct EvaluationReport {
    evaluator: Evaluator,
    /// The event without its outcome; `None` once it was published.
    source: Option<EventSource>,
    outcome: ExecutedOutcome,
    pub(super) usage: Usage,
}

impl EvaluationReport {
    pub(super) fn new(request: &EvaluationRequest, session: &ThreadId) -> Self {
        let prompt = request.id.clone();
        let source = EventSource { evaluation: None, prompt, session: session.clone() };
        Self {
            evaluator: request.evaluator.clone(),
            source: Some(source),
            outcome: ExecutedOutcome::Dropped,
            usage: Usage::default(),
        }
    }

    /// Sets the evaluation and its session, once they are known.
    pub(super) fn set_begun(&mut self, evaluation: &str, session: &ThreadId) {
        if let Some(source) = &mut self.source {
            source.evaluation = Some(evaluation.to_owned());
            source.session = session.clone();
        }
    }

    pub(super) fn end(mut self, ended: &Result<Ended, EvaluationError>) {
        self.outcome = match ended {
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
}

impl Drop for EvaluationReport {
    fn drop(&mut self) {
        let Some(source) = self.source.take() else { return };
        let outcome = std::mem::replace(&mut self.outcome, ExecutedOutcome::Dropped);
        let executed = PromptExecuted { outcome, usage: self.usage };
        let kind = PromptEventKind::PromptExecuted(executed);
        self.evaluator.resources.publish(&**self.evaluator.runtime.clock(), source, kind);
    }
}
