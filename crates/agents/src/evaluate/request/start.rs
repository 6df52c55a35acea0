//! The start of a planned run.

use super::EvaluationRequest;
use super::plan::{Input, Planned};
use crate::evaluate::MESSAGES;
use crate::evaluate::error::{ErrorContext, EvaluationError};
use crate::evaluate::evaluation::Allowance;
use crate::evaluate::running::{EvaluationReport, RunningEvaluation};
use crate::session::{Session, SessionError};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{StartedRun, ThreadRun};
use weftwork_types::run::{RunCommand, RunInput, RunOptions};
use weftwork_types::session::SESSION_CHANNEL;

impl EvaluationRequest {
    /// Returns the request of a run, if it is a new one, and the number of events of the session that
    /// the thread has with it.
    pub(super) fn request(
        &self,
        planned: &Planned,
        session: &Session,
        errors: &ErrorContext,
    ) -> Result<(Option<ThreadRun>, usize), EvaluationError> {
        let thread = self.evaluator.thread(&planned.thread).map_err(|e| errors.runtime(&e))?;
        let (pending, sent) = session.pending(&planned.thread);
        // Events that the program dispatched meanwhile are sent with the next new run.
        let later = (None, sent - pending.len());
        if !pending.is_empty() && !self.evaluator.stores_sessions() {
            let graph = self.evaluator.config.graph.to_owned();
            return Err(errors.session(&SessionError::NoChannel { graph }));
        }
        let run = match &planned.input {
            Input::Prompt => {
                let message = planned.run.rendered().message(planned.record.message_id());
                let mut input = Map::from_iter([(MESSAGES.to_owned(), json!([message]))]);
                if !pending.is_empty() {
                    input.insert(SESSION_CHANNEL.to_owned(), json!(pending));
                }
                thread.start(Value::Object(input))
            }
            Input::Answers(answers) if !pending.is_empty() => {
                let update = vec![(SESSION_CHANNEL.to_owned(), json!(pending))];
                let answers = Some(answers.clone());
                thread.start(RunInput::Command(RunCommand { answers, update, goto: Vec::new() }))
            }
            Input::Answers(answers) => thread.answer(answers.clone()),
            Input::Nothing => return Ok((Some(thread.proceed()), later.1)),
            Input::Unfinished | Input::Ended(_) => return Ok(later),
        };
        Ok((Some(run), sent))
    }

    fn options(&self, planned: &Planned) -> RunOptions {
        let client = &self.evaluator.config.client;
        let key = self.nested.as_ref().filter(|_| matches!(planned.input, Input::Prompt));
        RunOptions {
            step_limit: Some(client.recursion_limit),
            interrupt_before: client.interrupt_before.clone(),
            interrupt_after: client.interrupt_after.clone(),
            deadline: self.deadline,
            budget: planned.record.limits,
            spent: planned.record.limits.map(|_| planned.used.used_with_time()),
            configurable: planned.record.settings(),
            idempotency_key: key.map(|nested| nested.key.clone()),
            ..RunOptions::default()
        }
    }

    /// Requests the run, in a task of its own: a run that is stored after the caller stopped waiting
    /// is cancelled.
    pub(super) async fn begin(
        &self,
        planned: &Planned,
        request: Option<ThreadRun>,
        report: &Arc<EvaluationReport>,
    ) -> Result<(StartedRun, RunningEvaluation), RuntimeError> {
        let evaluator = &self.evaluator;
        let resources = &evaluator.resources;
        let who = &evaluator.principal;
        let budget = match &self.budget {
            Some(Allowance::Shared(budget)) => Some(Arc::clone(budget)),
            _ => None,
        };
        let active = resources.begin(who, &planned.thread, Arc::clone(&planned.run), budget);
        let mut running = RunningEvaluation::new(evaluator, planned, active, Arc::clone(report));
        let runtime = evaluator.runtime.clone();
        let by = who.clone();
        if let Input::Ended(run) = &planned.input {
            return Ok((runtime.follow_run(who, run).await?, running));
        }
        let is_own = !evaluator.config.durable && self.nested.is_none();
        if let Some(nested) = self.nested.as_ref().filter(|_| !evaluator.config.durable) {
            resources.add_nested(who, &nested.within, &planned.thread);
        }
        let options = self.options(planned);
        let thread = planned.thread.clone();
        let is_new = matches!(planned.input, Input::Prompt);
        let begun = tokio::spawn(async move {
            running.set_deletes(is_own && is_new);
            let begun = match request {
                Some(request) => request.options(options).begin().await,
                None => runtime.resume_with(&by, &thread, options).await,
            };
            match begun {
                Ok(started) => {
                    running.set_run(Some(started.run().clone()));
                    running.set_deletes(is_own);
                    Ok((started, running))
                }
                Err(error) => {
                    running.end().await;
                    Err(error)
                }
            }
        });
        match begun.await {
            Ok(begun) => begun,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(RuntimeError::Stopping),
        }
    }
}
