//! Requests for evaluations, from the plan of a run to its outcome.

use super::bus::{PromptEvent, PromptRendered};
use super::error::{ErrorContext, EvaluationError, EvaluationErrorKind, kind_of};
use super::evaluation::Allowance;
use super::outcome::{Evaluated, Interrupted, PromptResponse};
use super::record::{Record, no_evaluation};
use super::running::{Report, RunningEvaluation};
use super::{Evaluator, MESSAGES, PromptRun};
use crate::output::OutputError;
use crate::prompt::{AnyPrompt, Overrides, PromptError, PromptId};
use crate::session::{Session, SessionError, read_events};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_graph::RuntimeError;
use weftwork_models::FinishReason;
use weftwork_runtime::{RolledBack, ThreadRun};
use weftwork_store::{RunRow, StoreError};
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{CallContext, Emit, Limits, RunHandle};
use weftwork_types::run::{Answers, RunCommand, RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};
use weftwork_types::usage::{Usage, UsageCount};
use weftwork_types::{InvocationId, MessageId, ThreadId, Timestamp};

/// Interval at which a repeated call tries to continue the evaluation of the earlier one, whose run
/// is still active or whose process is not yet known to be dead. The time limit of the tool ends it.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// A request for an evaluation, without its types.
pub(super) struct EvaluationRequest {
    pub(super) evaluator: Evaluator,
    pub(super) id: PromptId,
    pub(super) prompt: Arc<dyn AnyPrompt>,
    pub(super) deadline: Option<Timestamp>,
    pub(super) budget: Option<Allowance>,
    pub(super) overrides: Overrides,
    pub(super) events: Option<UnboundedSender<RunEvent>>,
    /// The tool call that makes the evaluation, if one does.
    pub(super) nested: Option<Nested>,
}

/// The tool call that makes an evaluation.
pub(super) struct Nested {
    /// Key of the evaluation, from which the id of its thread is derived: a repeated call finds the
    /// evaluation of the first.
    key: String,
    /// Thread of the call.
    within: ThreadId,
    /// Sink of the events of the call.
    emit: Arc<dyn Emit>,
    /// Model calls that the call has reported.
    reported: Mutex<BTreeSet<InvocationId>>,
}

/// Outcome of a request.
pub(super) enum Ended {
    /// The answer, and its value if the prompt declares an output type.
    Done(PromptResponse<()>, Option<Value>),
    Interrupted(Interrupted),
}

/// A run that is about to be requested.
struct Planned {
    record: Record,
    run: Arc<PromptRun>,
    thread: ThreadId,
    input: Input,
    /// Usage of the earlier runs of the evaluation.
    used: UsageCount,
    /// Number of session events with which an evaluation within a call was begun.
    begun_with: usize,
}

enum Input {
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

impl Nested {
    pub(super) fn new(key: String, call: &CallContext) -> Self {
        let (within, emit) = (call.thread.clone(), Arc::clone(&call.emit));
        Self { key, within, emit, reported: Mutex::default() }
    }

    fn reported(&self) -> MutexGuard<'_, BTreeSet<InvocationId>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PromptResponse<()> {
    /// Adds the value of the answer.
    pub(super) fn typed<T: DeserializeOwned>(
        self,
        value: Option<Value>,
    ) -> Result<Evaluated<T>, EvaluationError> {
        let Self { prompt, text, output: _, usage, session, thread } = self;
        let errors =
            || ErrorContext { prompt: prompt.clone(), thread: Some(thread.clone()), usage };
        let output = value.map(serde_json::from_value).transpose().map_err(|error| {
            errors().output(&OutputError::Malformed { problem: error.to_string() })
        })?;
        Ok(Evaluated::Done(PromptResponse { prompt, text, output, usage, session, thread }))
    }
}

/// The start of an evaluation, or of its continuation.
pub(super) enum Starting<'a> {
    New { params: Params, session: &'a Session },
    Continued { thread: ThreadId, answers: Option<Answers>, session: Option<&'a Session> },
}

/// Parameters as JSON, or the reason why they cannot be written.
pub(super) type Params = Result<Value, PromptError>;

impl EvaluationRequest {
    /// Runs to the outcome, which is published whatever happens.
    pub(super) async fn run(self, start: Starting<'_>) -> Result<Ended, EvaluationError> {
        let mut report = Report::new(&self, start.session_id());
        let ended = self.evaluate(start, &mut report).await;
        report.end(&ended);
        ended
    }

    fn errors(&self, thread: Option<&ThreadId>) -> ErrorContext {
        ErrorContext { prompt: self.id.clone(), thread: thread.cloned(), usage: Usage::default() }
    }

    async fn evaluate(
        &self,
        start: Starting<'_>,
        report: &mut Report,
    ) -> Result<Ended, EvaluationError> {
        let mut planned = self.plan(&start).await?;
        let own;
        let session = match start.session() {
            Some(session) => session,
            None => {
                own = self.open_session(&planned).await?;
                &own
            }
        };
        report.set_session(session.id());
        self.publish_rendered(&planned);
        loop {
            report.usage = planned.used.used();
            let mut errors = self.errors(Some(&planned.thread));
            errors.usage = report.usage;
            let (request, sent) = self.request(&planned, session, &errors)?;
            match self.begin(&planned, request).await {
                Err(error) if self.nested.is_some() && is_busy(&error) => {
                    tokio::time::sleep(RETRY_EVERY).await;
                    planned = self.plan(&start).await?;
                }
                Err(error) => return Err(errors.runtime(&error)),
                Ok(begun) => return self.finish(&planned, begun, (session, sent), report).await,
            }
        }
    }

    async fn plan(&self, start: &Starting<'_>) -> Result<Planned, EvaluationError> {
        match start {
            Starting::New { params, session } => match self.repeated(session).await? {
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
                let planned = self.continued(thread, &runs, input).await?;
                let expected = &planned.record.session;
                match session.map(Session::id).filter(|found| *found != expected) {
                    None => Ok(planned),
                    Some(found) => Err(self.errors(Some(thread)).session(&SessionError::Other {
                        thread: thread.clone(),
                        found: found.clone(),
                        expected: expected.clone(),
                    })),
                }
            }
        }
    }

    /// Plans the first run of an evaluation.
    fn first(&self, params: &Params, session: &Session) -> Result<Planned, EvaluationError> {
        let evaluator = &self.evaluator;
        let errors = self.errors(None);
        let refused = |error: &PromptError| errors.prompt(error);
        let params = params.as_ref().map_err(refused)?;
        let rendered = self.prompt.render(params, &self.overrides).map_err(|e| refused(&e))?;
        let id = match &self.nested {
            Some(nested) => nested.key.clone(),
            None => evaluator.new_id().to_string(),
        };
        let mut record = Record::new(id, self.id.clone(), rendered.hash(), session.id().clone());
        (record.params, record.overrides) = (params.clone(), self.overrides.clone());
        record.limits = self.limits();
        let run = evaluator.resources.prompt_run(&record, &*self.prompt, rendered);
        let run = Arc::new(run.map_err(|error| refused(&error))?);
        evaluator.resources.register(&self.id, Arc::clone(&self.prompt));
        let thread = match evaluator.config.durable || self.nested.is_some() {
            true => session.id().clone(),
            false => evaluator.new_id(),
        };
        let begun_with = session.pending(&thread).1;
        let (input, used) = (Input::Prompt, UsageCount::default());
        Ok(Planned { record, run, thread, input, used, begun_with })
    }

    /// Plans an evaluation of a call that is repeated; `None` if it is the first one. An outcome
    /// that does not depend on the caller is final.
    async fn repeated(&self, session: &Session) -> Result<Option<Planned>, EvaluationError> {
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
        self.continued(thread, &runs, input).await.map(Some)
    }

    /// Plans a continuation: the prompt must be the one that the evaluation began with.
    async fn continued(
        &self,
        thread: &ThreadId,
        runs: &[RunRow],
        input: Input,
    ) -> Result<Planned, EvaluationError> {
        let errors = self.errors(Some(thread));
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
        record.limits = self.limits().or(record.limits);
        let begun_with = match runs.first().map(|row| &row.new.input) {
            Some(RunInput::Start { input }) => {
                input[SESSION_CHANNEL].as_array().map_or(0, Vec::len)
            }
            _ => 0,
        };
        Ok(Planned { record, run, thread: thread.clone(), input, used, begun_with })
    }

    /// Returns the runs of a thread; none if it does not exist.
    async fn runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>, EvaluationError> {
        let of_runtime = |error| self.errors(Some(thread)).runtime(&error);
        let stored = self.evaluator.thread(thread).map_err(of_runtime)?;
        match stored.runs(RolledBack::Omitted).await {
            Err(RuntimeError::Store(StoreError::NotFound { .. })) if self.nested.is_some() => {
                Ok(Vec::new())
            }
            runs => runs.map_err(of_runtime),
        }
    }

    /// Returns the usage that the logs of the ended runs of an evaluation report. For an evaluation
    /// within a call, the log of the call gets their model calls too.
    async fn used(
        &self,
        runs: impl Iterator<Item = &RunRow>,
        evaluation: &str,
    ) -> Result<UsageCount, RuntimeError> {
        let (runtime, who) = (&self.evaluator.runtime, &self.evaluator.principal);
        let mut count = UsageCount::default();
        for row in runs {
            let record = Record::of(&row.new.options).and_then(Result::ok);
            if row.outcome.is_none() || record.is_none_or(|record| record.id != evaluation) {
                continue;
            }
            if self.nested.is_none() {
                runtime.count_usage(who, &row.new.at, &mut count).await?;
                continue;
            }
            let mut events = runtime.watch(who, &row.new.at, Position::START).await?.events;
            while let Some(event) = events.next().await {
                self.count(&mut count, &event.event);
            }
        }
        Ok(count)
    }

    /// Counts the usage that an event reports, also for the call that makes the evaluation.
    fn count(&self, count: &mut UsageCount, event: &AiEvent) {
        count.read(event);
        if let (Some(nested), AiEvent::UsageReport { fact }) = (&self.nested, event)
            && nested.reported().insert(fact.invocation_id.clone())
        {
            nested.emit.emit(event.clone());
        }
    }

    fn limits(&self) -> Option<Limits> {
        match &self.budget {
            Some(Allowance::Limits(limits)) => Some(*limits),
            _ => None,
        }
    }

    /// Opens the session of a continuation.
    async fn open_session(&self, planned: &Planned) -> Result<Session, EvaluationError> {
        let thread = &planned.thread;
        let events = self.evaluator.stored_events(thread).await;
        let events = events.map_err(|error| self.errors(Some(thread)).runtime(&error))?;
        let events = events.unwrap_or_default();
        let id = planned.record.session.clone();
        Ok(Session::with_events(id, events, Some(thread.clone())))
    }

    fn publish_rendered(&self, planned: &Planned) {
        let resources = &self.evaluator.resources;
        let rendered = planned.run.rendered();
        resources.bus.publish(&PromptEvent::PromptRendered(Arc::new(PromptRendered {
            prompt: self.id.clone(),
            adapter: resources.name.clone(),
            session: planned.record.session.clone(),
            inputs: rendered.inputs().clone(),
            text: rendered.text().to_owned(),
        })));
    }

    /// The request of a run, if it is a new one, and the number of events that the session had when
    /// it was made.
    fn request(
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
            spent: planned.record.limits.map(|_| planned.used.used()),
            configurable: planned.record.settings(),
            idempotency_key: key.map(|nested| nested.key.clone()),
            ..RunOptions::default()
        }
    }

    /// Requests the run, in a task of its own: a run that is stored after the caller stopped waiting
    /// is cancelled.
    async fn begin(
        &self,
        planned: &Planned,
        request: Option<ThreadRun>,
    ) -> Result<(RunHandle, RunningEvaluation), RuntimeError> {
        let evaluator = &self.evaluator;
        let (resources, who) = (&evaluator.resources, &evaluator.principal);
        let budget = match &self.budget {
            Some(Allowance::Shared(budget)) => Some(Arc::clone(budget)),
            _ => None,
        };
        let active = resources.begin(who, &planned.thread, (Arc::clone(&planned.run), budget));
        let mut running = RunningEvaluation::new(evaluator, &planned.thread, active);
        let (runtime, by) = (evaluator.runtime.clone(), who.clone());
        if let Input::Ended(run) = &planned.input {
            return Ok((runtime.watch(who, run, Position::START).await?, running));
        }
        let is_own = !evaluator.config.durable && self.nested.is_none();
        if let Some(nested) = self.nested.as_ref().filter(|_| !evaluator.config.durable) {
            resources.add_nested(who, &nested.within, &planned.thread);
        }
        let (options, thread) = (self.options(planned), planned.thread.clone());
        let is_new = matches!(planned.input, Input::Prompt);
        let begun = tokio::spawn(async move {
            running.set_deletes(is_own && is_new);
            let begun = match request {
                Some(request) => request.options(options).begin().await,
                None => runtime.resume_with(&by, &thread, options).await,
            };
            match begun {
                Ok(handle) => {
                    running.set_run(Some(handle.run.clone()));
                    running.set_deletes(is_own);
                    Ok((handle, running))
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

    /// Waits for the end of the run, and brings the session up to date. Errors after the end are
    /// logged, and do not replace an outcome that was paid for.
    async fn finish(
        &self,
        planned: &Planned,
        (handle, mut running): (RunHandle, RunningEvaluation),
        (session, sent): (&Session, usize),
        report: &mut Report,
    ) -> Result<Ended, EvaluationError> {
        let outcome = self.follow(handle, planned.used.clone(), report).await;
        running.set_run(None);
        let thread = &planned.thread;
        if matches!(planned.input, Input::Unfinished) {
            // The run may have used a part in another process.
            match self.used_in_all(planned).await {
                Ok(count) => report.usage = count.used(),
                Err(error) => tracing::warn!(%thread, %error, "the usage cannot be read"),
            }
        }
        report.usage += planned.run.nested();
        if let Err(error) = self.read_session(planned, &outcome, (session, sent)).await {
            tracing::warn!(%thread, %error, "the session of an evaluation cannot be read");
        }
        let waits = matches!(outcome, RunOutcome::Interrupted { .. });
        let deletes = !waits && !self.evaluator.config.durable && self.nested.is_none();
        running.set_deletes(deletes);
        running.end().await;
        if deletes {
            session.forget_thread(thread);
        }
        let mut errors = self.errors(Some(thread));
        errors.usage = report.usage;
        self.ended(outcome, planned, &errors)
    }

    async fn used_in_all(&self, planned: &Planned) -> Result<UsageCount, RuntimeError> {
        let runs = self.evaluator.thread(&planned.thread)?.runs(RolledBack::Omitted).await?;
        self.used(runs.iter(), &planned.record.id).await
    }

    /// Reads the events of the run until its end.
    async fn follow(
        &self,
        handle: RunHandle,
        mut count: UsageCount,
        report: &mut Report,
    ) -> RunOutcome {
        let RunHandle { mut events, outcome, .. } = handle;
        while let Some(event) = events.next().await {
            self.count(&mut count, &event.event);
            report.usage = count.used();
            if let Some(to) = &self.events {
                // The reader of a stream may have left.
                let _left = to.send(event);
            }
        }
        outcome.await
    }

    /// Takes over the events that the thread stores.
    async fn read_session(
        &self,
        planned: &Planned,
        outcome: &RunOutcome,
        (session, sent): (&Session, usize),
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

    fn ended(
        &self,
        outcome: RunOutcome,
        planned: &Planned,
        errors: &ErrorContext,
    ) -> Result<Ended, EvaluationError> {
        let (usage, thread) = (errors.usage, planned.thread.clone());
        match outcome {
            RunOutcome::Completed { output } => {
                let text = last_answer(&output, &planned.record.message_id());
                let spec = self.prompt.output();
                let value = spec.map(|spec| spec.read(&text, FinishReason::Stop)).transpose();
                let value = value.map_err(|error| errors.output(&error))?;
                let (prompt, session) = (self.id.clone(), planned.record.session.clone());
                let response =
                    PromptResponse { prompt, text, output: None, usage, session, thread };
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

impl Starting<'_> {
    fn session(&self) -> Option<&Session> {
        match self {
            Self::New { session, .. } => Some(session),
            Self::Continued { session, .. } => *session,
        }
    }

    /// Id of the session; that of the thread until a continuation has read its runs.
    fn session_id(&self) -> &ThreadId {
        match self {
            Self::New { session, .. } => session.id(),
            Self::Continued { thread, session, .. } => session.map_or(thread, Session::id),
        }
    }
}

/// `true` if the run of an earlier call is still active, its process may be alive, or it ended after
/// it was read.
fn is_busy(error: &RuntimeError) -> bool {
    matches!(
        error,
        RuntimeError::NothingToResume { .. }
            | RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })
    )
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
