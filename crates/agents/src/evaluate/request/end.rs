//! The end of a run, and the outcome of its evaluation.

use super::plan::{Input, Planned};
use super::{Ended, EvaluationRequest};
use crate::evaluate::MESSAGES;
use crate::evaluate::error::{ErrorContext, EvaluationError};
use crate::evaluate::outcome::{Interrupted, PromptResponse};
use crate::evaluate::running::{EvaluationReport, RunningEvaluation};
use crate::session::{Session, SessionError, read_events};
use futures_util::StreamExt;
use serde_json::Value;
use weftwork_graph::RuntimeError;
use weftwork_models::FinishReason;
use weftwork_runtime::StartedRun;
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::RunOutcome;
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};
use weftwork_types::usage::UsageCount;

/// A session, with the number of its events that the thread of a request has.
#[derive(Clone, Copy)]
pub(super) struct SentSession<'a> {
    pub(super) session: &'a Session,
    pub(super) sent: usize,
}

impl EvaluationRequest {
    /// Waits for the end of the run, and brings the session up to date. Errors after the end are
    /// logged, and do not replace an outcome that was paid for.
    pub(super) async fn finish(
        &self,
        planned: &Planned,
        started: StartedRun,
        mut running: RunningEvaluation,
        session: SentSession<'_>,
        report: &EvaluationReport,
    ) -> Result<Ended, EvaluationError> {
        let outcome = self.follow_run(started, planned.used.clone(), report).await;
        running.set_run(None);
        let thread = &planned.thread;
        if matches!(planned.input, Input::Unfinished) {
            // The run may have used a part in another process.
            match self.used_in_all(planned).await {
                Ok(count) => report.set_usage(count.used()),
                Err(error) => tracing::warn!(%thread, %error, "the usage cannot be read"),
            }
        }
        report.set_usage(report.usage() + planned.run.nested());
        if let Err(error) = self.read_session(planned, &outcome, session).await {
            tracing::warn!(%thread, %error, "the session of an evaluation cannot be read");
        }
        let waits = matches!(outcome, RunOutcome::Interrupted { .. });
        let deletes = !waits && !self.evaluator.config.durable && self.nested.is_none();
        running.set_deletes(deletes);
        running.end().await;
        if deletes {
            session.session.forget_thread(thread);
        }
        let mut errors = self.error_context(Some(thread));
        errors.usage = report.usage();
        self.ended_with(outcome, planned, &errors)
    }

    /// Reads the output of the run until its end.
    async fn follow_run(
        &self,
        mut started: StartedRun,
        mut count: UsageCount,
        report: &EvaluationReport,
    ) -> RunOutcome {
        while let Some(output) = started.next().await {
            if let Ok(output) = &output {
                self.count(&mut count, output);
                report.set_usage(count.used());
            }
            if let Some(to) = &self.output {
                // The reader of a stream may have left.
                let _left = to.send(output);
            }
        }
        started.await.outcome().clone()
    }

    /// Takes over the events that the thread stores.
    async fn read_session(
        &self,
        planned: &Planned,
        outcome: &RunOutcome,
        SentSession { session, sent }: SentSession<'_>,
    ) -> Result<(), RuntimeError> {
        let output = match outcome {
            RunOutcome::Completed { output } => output.get(SESSION_CHANNEL),
            _ => None,
        };
        let events: Option<Vec<SessionEvent>> = match output {
            Some(events) => {
                let unreadable = |error: SessionError| RuntimeError::Node(error.fault());
                Some(read_events(events.clone()).map_err(unreadable)?)
            }
            None => self.evaluator.stored_events(&planned.thread).await?,
        };
        let Some(mut events) = events else { return Ok(()) };
        if self.nested.is_some() {
            // The state that a repeated call reads may be another one.
            session.extend(events.split_off(planned.begun_with.min(events.len())));
        } else {
            session.update(&planned.thread, events, sent);
        }
        Ok(())
    }

    fn ended_with(
        &self,
        outcome: RunOutcome,
        planned: &Planned,
        errors: &ErrorContext,
    ) -> Result<Ended, EvaluationError> {
        let usage = errors.usage;
        let thread = planned.thread.clone();
        match outcome {
            RunOutcome::Completed { output } => {
                let text = last_answer(&output, &planned.record.message_id());
                let spec = self.prompt.output();
                let value = spec.map(|spec| spec.read(&text, FinishReason::Stop)).transpose();
                let value = value.map_err(|error| errors.output(&error))?;
                let response = PromptResponse {
                    prompt: self.id.clone(),
                    text,
                    output: None,
                    usage,
                    session: planned.record.session.clone(),
                    thread,
                };
                Ok(Ended::Done(response, value))
            }
            RunOutcome::Interrupted { questions, .. } => {
                Ok(Ended::Interrupted(Interrupted { thread, interrupts: questions, usage }))
            }
            RunOutcome::LimitReached { step_limit } => Err(errors.recursion_limit(step_limit)),
            RunOutcome::Cancelled { .. } => Err(errors.cancelled()),
            RunOutcome::Failed { fault } => Err(errors.fault(fault)),
        }
    }
}

/// The text of the last answer of a model to a prompt, in the output of a graph. Answers before the
/// prompt belong to earlier evaluations.
fn last_answer(output: &Value, prompt: &MessageId) -> String {
    let messages = output[MESSAGES].as_array().into_iter().flatten().rev();
    let messages = messages.take_while(|json| json["id"] != prompt.as_str());
    let mut messages = messages.filter_map(|json| serde_json::from_value(json.clone()).ok());
    let answer = messages.find(|message: &Message| message.role == Role::Assistant);
    answer.map(|message| message.joined_text()).unwrap_or_default()
}
