//! The next run of an evaluation, as its stored runs determine it.

use super::{EvaluationRequest, Params, Starting};
use crate::evaluate::PromptRun;
use crate::evaluate::error::{EvaluationError, EvaluationErrorKind, kind_of};
use crate::evaluate::evaluation::Allowance;
use crate::evaluate::record::{Record, no_evaluation};
use crate::prompt::PromptError;
use crate::session::{Session, SessionError};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_runtime::RolledBack;
use weftwork_store::{RunRow, StoreError};
use weftwork_types::ThreadId;
use weftwork_types::port::Limits;
use weftwork_types::run::{Answers, RunInput, RunOutcome, RunRef};
use weftwork_types::session::SESSION_CHANNEL;
use weftwork_types::usage::UsageCount;

/// A run that is about to be requested.
pub(in crate::evaluate) struct Planned {
    pub(super) record: Record,
    pub(super) run: Arc<PromptRun>,
    pub(in crate::evaluate) thread: ThreadId,
    pub(super) input: Input,
    /// Usage of the earlier runs of the evaluation.
    pub(in crate::evaluate) used: UsageCount,
    /// Number of session events with which an evaluation within a call was begun.
    pub(super) begun_with: usize,
}

/// Input of the next run.
pub(super) enum Input {
    /// The rendered prompt, as the first message.
    Prompt,
    /// Answers to open questions.
    Answers(Answers),
    /// Nothing, after a stop.
    Nothing,
    /// Nothing, after the last run did not come to its end: its process died, it failed, was
    /// cancelled, or reached its limit.
    Unfinished,
    /// Nothing: the run has ended, and its outcome is that of the evaluation.
    Ended(RunRef),
}

impl EvaluationRequest {
    pub(super) async fn plan(&self, start: &Starting<'_>) -> Result<Planned, EvaluationError> {
        match start {
            Starting::New { params, session } => match self.plan_repeated(session).await? {
                Some(planned) => Ok(planned),
                None => self.first(params, session),
            },
            Starting::Continued { thread, answers, session } => {
                let runs = self.runs(thread).await?;
                let stopped =
                    |row: &RunRow| matches!(row.outcome, Some(RunOutcome::Interrupted { .. }));
                let input = match answers {
                    Some(answers) => Input::Answers(answers.clone()),
                    None if runs.last().is_some_and(stopped) => Input::Nothing,
                    None => Input::Unfinished,
                };
                let planned = self.plan_continued(thread, &runs, input).await?;
                let expected = &planned.record.session;
                match session.map(Session::id).filter(|found| *found != expected) {
                    None => Ok(planned),
                    Some(found) => {
                        Err(self.error_context(Some(thread)).session(&SessionError::Other {
                            thread: thread.clone(),
                            found: found.clone(),
                            expected: expected.clone(),
                        }))
                    }
                }
            }
        }
    }

    /// Plans the first run of an evaluation.
    fn first(&self, params: &Params, session: &Session) -> Result<Planned, EvaluationError> {
        let evaluator = &self.evaluator;
        let errors = self.error_context(None);
        let refused = |error: &PromptError| errors.prompt(error);
        let params = params.as_ref().map_err(refused)?;
        let rendered = self.prompt.render(params, &self.overrides).map_err(|e| refused(&e))?;
        let id = match &self.nested {
            Some(nested) => nested.key.clone(),
            None => evaluator.new_id().to_string(),
        };
        let mut record = Record::new(id, self.id.clone(), rendered.hash(), session.id().clone());
        record.params = params.clone();
        record.overrides = self.overrides.clone();
        record.limits = self.limits_of_budget();
        let run = evaluator.resources.prompt_run(&record, &*self.prompt, rendered);
        let run = Arc::new(run.map_err(|error| refused(&error))?);
        evaluator.resources.register(&self.id, Arc::clone(&self.prompt));
        let thread = match evaluator.config.durable || self.nested.is_some() {
            true => session.id().clone(),
            false => evaluator.new_id(),
        };
        let begun_with = session.pending(&thread).1;
        Ok(Planned {
            record,
            run,
            thread,
            input: Input::Prompt,
            used: UsageCount::default(),
            begun_with,
        })
    }

    /// Plans an evaluation of a call that is repeated; `None` if it is the first one. An outcome
    /// that does not depend on the caller is final.
    async fn plan_repeated(&self, session: &Session) -> Result<Option<Planned>, EvaluationError> {
        if self.nested.is_none() {
            return Ok(None);
        }
        let thread = session.id();
        let runs = self.runs(thread).await?;
        let Some(last) = runs.last() else { return Ok(None) };
        let is_cut_off = match &last.outcome {
            None | Some(RunOutcome::Cancelled { .. }) => true,
            Some(RunOutcome::Failed { fault }) => kind_of(fault) == EvaluationErrorKind::Deadline,
            Some(_) => false,
        };
        let input = match is_cut_off {
            true => Input::Unfinished,
            false => Input::Ended(last.new.at.clone()),
        };
        self.plan_continued(thread, &runs, input).await.map(Some)
    }

    /// Plans a continuation: the prompt must be the one that the evaluation began with.
    async fn plan_continued(
        &self,
        thread: &ThreadId,
        runs: &[RunRow],
        input: Input,
    ) -> Result<Planned, EvaluationError> {
        let errors = self.error_context(Some(thread));
        let newest = runs.iter().rev().find_map(|row| Record::of(&row.new.options));
        let newest = newest.ok_or_else(|| no_evaluation(thread, &errors))?;
        let mut record = newest.map_err(|fault| errors.fault(fault))?;
        if (&record.prompt.namespace, &record.prompt.key) != (&self.id.namespace, &self.id.key) {
            return Err(errors.prompt(&PromptError::Unknown { prompt: record.prompt }));
        }
        let resources = &self.evaluator.resources;
        let rendered = self.prompt.render(&record.params, &record.overrides);
        let run =
            rendered.and_then(|rendered| resources.prompt_run(&record, &*self.prompt, rendered));
        let run = Arc::new(run.map_err(|error| errors.prompt(&error))?);
        resources.register(&self.id, Arc::clone(&self.prompt));
        let watched = match &input {
            Input::Ended(run) => Some(run),
            _ => None,
        };
        let earlier = runs.iter().filter(|row| Some(&row.new.at) != watched);
        let used = self.used(earlier, &record.id).await;
        let used = used.map_err(|error| errors.runtime(&error))?;
        record.limits = self.limits_of_budget().or(record.limits);
        let begun_with = match runs.first().map(|row| &row.new.input) {
            Some(RunInput::Start { input }) => {
                input[SESSION_CHANNEL].as_array().map_or(0, Vec::len)
            }
            _ => 0,
        };
        Ok(Planned { record, run, thread: thread.clone(), input, used, begun_with })
    }

    /// Returns the runs of a thread, without those that only changed its state, such as saves of its
    /// session; none if it does not exist.
    async fn runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>, EvaluationError> {
        let of_runtime = |error| self.error_context(Some(thread)).runtime(&error);
        let stored = self.evaluator.thread(thread).map_err(of_runtime)?;
        let mut runs = match stored.runs(RolledBack::Omitted).await {
            Err(RuntimeError::Store(StoreError::NotFound { .. })) if self.nested.is_some() => {
                Vec::new()
            }
            runs => runs.map_err(of_runtime)?,
        };
        runs.retain(|row| !matches!(row.new.input, RunInput::Update { .. }));
        Ok(runs)
    }

    fn limits_of_budget(&self) -> Option<Limits> {
        match &self.budget {
            Some(Allowance::Limits(limits)) => Some(*limits),
            _ => None,
        }
    }
}
