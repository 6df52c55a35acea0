//! A run of an evaluation, from its request to its outcome.

use super::bus::{ExecutedOutcome, PromptEvent, PromptExecuted, PromptRendered};
use super::error::{Blame, EvaluationError};
use super::evaluation::{Allowance, Start};
use super::library::Live;
use super::outcome::{Evaluated, Interrupted, PromptResponse};
use super::record::{Record, no_evaluation};
use super::{Evaluator, MESSAGES, PromptRun};
use crate::output::OutputError;
use crate::prompt::{AnyPrompt, Overrides, PromptError, PromptId};
use crate::session::{Session, SessionError};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_graph::RuntimeError;
use weftwork_models::FinishReason;
use weftwork_runtime::{RolledBack, Thread, ThreadRun};
use weftwork_store::RunRow;
use weftwork_types::event::RunEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Limits, RunHandle};
use weftwork_types::run::{Answers, RunCommand, RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::session::SESSION_CHANNEL;
use weftwork_types::usage::{Usage, UsageCount};
use weftwork_types::{MessageId, ThreadId, Timestamp};

/// An evaluation without its types.
pub(super) struct Job {
    pub(super) evaluator: Evaluator,
    pub(super) id: PromptId,
    pub(super) prompt: Arc<dyn AnyPrompt>,
    pub(super) deadline: Option<Timestamp>,
    pub(super) budget: Option<Allowance>,
    pub(super) overrides: Overrides,
    pub(super) events: Option<UnboundedSender<RunEvent>>,
    /// Key under which a repeated request finds the run of the first.
    pub(super) key: Option<String>,
}

/// Outcome of a job.
pub(super) enum Ended {
    /// The answer, and its value if the prompt declares an output type.
    Done(PromptResponse<()>, Option<Value>),
    Interrupted(Interrupted),
}

/// A run that is about to be requested.
struct Planned {
    record: Record,
    run: PromptRun,
    thread: ThreadId,
    input: Input,
    /// Usage of the earlier runs of the evaluation.
    used: Usage,
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
}

impl PromptResponse<()> {
    /// Adds the value of the answer.
    pub(super) fn typed<T: DeserializeOwned>(
        self,
        value: Option<Value>,
    ) -> Result<Evaluated<T>, EvaluationError> {
        let Self { prompt, text, output: _, usage, session, thread } = self;
        let blame = || Blame { prompt: prompt.clone(), thread: Some(thread.clone()), usage };
        let output = value.map(serde_json::from_value).transpose().map_err(|error| {
            blame().output(&OutputError::Malformed { problem: error.to_string() })
        })?;
        Ok(Evaluated::Done(PromptResponse { prompt, text, output, usage, session, thread }))
    }
}

impl Job {
    /// Runs to the outcome, which is published whatever happens.
    pub(super) async fn run(
        self,
        start: Start<Params>,
        session: Option<&Session>,
    ) -> Result<Ended, EvaluationError> {
        let own = match &start {
            Start::Params(_) => self.evaluator.new_session(),
            Start::Answers { thread, .. } => Session::of(thread.clone()),
        };
        let is_opened = session.is_some() || matches!(start, Start::Params(_));
        let session = session.unwrap_or(&own);
        let mut report = Report::new(&self, session.id());
        let ended = async {
            if !is_opened {
                let blame = self.blame(Some(session.id()));
                let read = self.read_session(session.id(), session, 0).await;
                read.map_err(|error| blame.runtime(&error))?;
            }
            self.evaluate(start, session, &mut report).await
        };
        let ended = ended.await;
        report.end(&ended);
        ended
    }

    fn blame(&self, thread: Option<&ThreadId>) -> Blame {
        Blame { prompt: self.id.clone(), thread: thread.cloned(), usage: Usage::default() }
    }

    async fn evaluate(
        &self,
        start: Start<Params>,
        session: &Session,
        report: &mut Report,
    ) -> Result<Ended, EvaluationError> {
        let library = &self.evaluator.library;
        let planned = match start {
            Start::Params(params) => self.begin(params, session)?,
            Start::Answers { thread, answers } => self.proceed(thread, answers).await?,
        };
        report.usage = planned.used;
        library.bus.publish(&PromptEvent::PromptRendered(Arc::new(PromptRendered {
            prompt: self.id.clone(),
            adapter: library.name.clone(),
            session: session.id().clone(),
            inputs: planned.run.rendered().inputs().clone(),
            text: planned.run.rendered().text().to_owned(),
        })));
        let budget = match &self.budget {
            Some(Allowance::Shared(budget)) => Some(Arc::clone(budget)),
            _ => None,
        };
        let live = Live { budget, prompt: Some(Arc::clone(&self.prompt)), ..Live::default() };
        library.begin(&planned.thread, live.clone());
        let running = Running { job: self, thread: planned.thread.clone(), run: None };
        let ended = self.execute(&planned, (session, &live), (&mut *report, running)).await;
        report.usage += live.nested();
        ended
    }

    /// Plans the first run of an evaluation.
    fn begin(&self, params: Params, session: &Session) -> Result<Planned, EvaluationError> {
        let evaluator = &self.evaluator;
        let blame = self.blame(None);
        let refused = |error: PromptError| blame.prompt(&error);
        let params = params.map_err(refused)?;
        let rendered = self.prompt.render(&params, &self.overrides).map_err(refused)?;
        let id = evaluator.new_id().to_string();
        let mut record = Record::new(id, self.id.clone(), rendered.hash(), session.id().clone());
        (record.params, record.overrides) = (params, self.overrides.clone());
        record.limits = self.limits();
        evaluator.library.register(&self.id, Arc::clone(&self.prompt));
        let run = evaluator.library.prompt_run(&record, &*self.prompt).map_err(refused)?;
        let thread = match evaluator.config.durable || self.key.is_some() {
            true => session.id().clone(),
            false => evaluator.new_id(),
        };
        Ok(Planned { record, run, thread, input: Input::Prompt, used: Usage::default() })
    }

    /// Plans a continuation: the prompt must be the one that the evaluation began with.
    async fn proceed(
        &self,
        thread: ThreadId,
        answers: Option<Answers>,
    ) -> Result<Planned, EvaluationError> {
        let blame = self.blame(Some(&thread));
        let of_runtime = |error| blame.runtime(&error);
        let stored = self.evaluator.thread(&thread).map_err(of_runtime)?;
        let runs = stored.runs(RolledBack::Omitted).await.map_err(of_runtime)?;
        let newest = runs.iter().rev().find_map(|row| Record::of(&row.new.options));
        let newest = newest.ok_or_else(|| no_evaluation(&thread, &blame))?;
        let mut record = newest.map_err(|fault| blame.fault(fault))?;
        if (&record.prompt.namespace, &record.prompt.key) != (&self.id.namespace, &self.id.key) {
            return Err(blame.prompt(&PromptError::Unknown { prompt: record.prompt }));
        }
        self.evaluator.library.register(&self.id, Arc::clone(&self.prompt));
        let run = self
            .evaluator
            .library
            .prompt_run(&record, &*self.prompt)
            .map_err(|error| blame.prompt(&error))?;
        let stopped = |row: &RunRow| matches!(row.outcome, Some(RunOutcome::Interrupted { .. }));
        let input = match answers {
            Some(answers) => Input::Answers(answers),
            None if runs.last().is_some_and(stopped) => Input::Nothing,
            None => Input::Unfinished,
        };
        let used = self.used(&thread, &record.id).await.map_err(of_runtime)?;
        record.limits = self.limits().or(record.limits);
        Ok(Planned { record, run, thread, input, used })
    }

    /// Returns the usage that the logs of the ended runs of an evaluation report.
    async fn used(&self, thread: &ThreadId, evaluation: &str) -> Result<Usage, RuntimeError> {
        let thread = self.evaluator.thread(thread)?;
        let (runtime, who) = (&self.evaluator.runtime, &self.evaluator.principal);
        let mut used = Usage::default();
        for row in thread.runs(RolledBack::Omitted).await? {
            let record = Record::of(&row.new.options).and_then(Result::ok);
            if row.outcome.is_some() && record.is_some_and(|record| record.id == evaluation) {
                used += runtime.used(who, &row.new.at).await?;
            }
        }
        Ok(used)
    }

    fn limits(&self) -> Option<Limits> {
        match &self.budget {
            Some(Allowance::Limits(limits)) => Some(*limits),
            _ => None,
        }
    }

    async fn execute(
        &self,
        planned: &Planned,
        (session, live): (&Session, &Live),
        (report, mut running): (&mut Report, Running<'_>),
    ) -> Result<Ended, EvaluationError> {
        let mut blame = self.blame(Some(&planned.thread));
        blame.usage = planned.used;
        let of_runtime = |error| blame.runtime(&error);
        let thread = self.evaluator.thread(&planned.thread).map_err(of_runtime)?;
        let (request, sent) = self.request(planned, &thread, session, &blame)?;
        let options = self.options(planned);
        let handle = match request {
            Some(request) => request.options(options).begin().await,
            None => {
                let (runtime, who) = (&self.evaluator.runtime, &self.evaluator.principal);
                runtime.resume_with(who, &planned.thread, options).await
            }
        };
        let handle = handle.map_err(of_runtime)?;
        running.run = Some(handle.run.clone());
        let outcome = self.follow(handle, planned.used, report).await;
        running.run = None;
        if matches!(planned.input, Input::Unfinished) {
            // The run may have used a part in another process.
            let used = self.used(&planned.thread, &planned.record.id).await;
            report.usage = used.map_err(of_runtime)?;
        }
        blame.usage = report.usage + live.nested();
        self.read_session(&planned.thread, session, sent)
            .await
            .map_err(|error| blame.runtime(&error))?;
        let waits = matches!(outcome, RunOutcome::Interrupted { .. });
        if !waits && !self.evaluator.config.durable {
            self.delete(&planned.thread).await.map_err(|error| blame.runtime(&error))?;
            session.forget_thread();
        }
        self.ended(outcome, planned, session, &blame)
    }

    /// The request of a run, if it is a new one, and the number of events that the session had when
    /// it was made.
    fn request(
        &self,
        planned: &Planned,
        thread: &Thread,
        session: &Session,
        blame: &Blame,
    ) -> Result<(Option<ThreadRun>, usize), EvaluationError> {
        let events = session.events();
        let sent = events.len();
        // A thread that is not that of the session is new.
        let is_new = matches!(planned.input, Input::Prompt) && planned.thread != *session.id();
        let pending = if is_new { events } else { session.pending() };
        if !pending.is_empty() && !self.evaluator.stores_sessions() {
            let graph = self.evaluator.config.graph.to_owned();
            return Err(blame.session(&SessionError::NoChannel { graph }));
        }
        let run = match &planned.input {
            Input::Prompt => {
                let unique = self.evaluator.runtime.clock().unique();
                let id = MessageId::from_uuid(uuid::Uuid::from_u128(unique));
                let message = json!([planned.run.rendered().message(id)]);
                let mut input = Map::from_iter([(MESSAGES.to_owned(), message)]);
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
            // Events that the program dispatched meanwhile are sent with the next run.
            Input::Nothing => return Ok((Some(thread.proceed()), sent - pending.len())),
            Input::Unfinished => return Ok((None, sent - pending.len())),
        };
        Ok((Some(run), sent))
    }

    fn options(&self, planned: &Planned) -> RunOptions {
        let client = &self.evaluator.config.client;
        RunOptions {
            step_limit: Some(client.recursion_limit),
            interrupt_before: client.interrupt_before.clone(),
            interrupt_after: client.interrupt_after.clone(),
            deadline: self.deadline,
            budget: planned.record.limits,
            spent: planned.record.limits.map(|_| planned.used),
            configurable: planned.record.settings(),
            idempotency_key: self.key.clone(),
            ..RunOptions::default()
        }
    }

    /// Reads the events of the run until its end.
    async fn follow(&self, handle: RunHandle, before: Usage, report: &mut Report) -> RunOutcome {
        let RunHandle { mut events, outcome, .. } = handle;
        let mut count = UsageCount::default();
        while let Some(event) = events.next().await {
            count.read(&event.event);
            report.usage = before + count.used();
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
        thread: &ThreadId,
        session: &Session,
        sent: usize,
    ) -> Result<(), RuntimeError> {
        if let Some(events) = self.evaluator.stored_events(thread).await? {
            session.update(events, sent);
        }
        Ok(())
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), RuntimeError> {
        let threads = self.evaluator.runtime.threads();
        threads.with_principal(self.evaluator.principal.clone()).delete(thread).await
    }

    fn ended(
        &self,
        outcome: RunOutcome,
        planned: &Planned,
        session: &Session,
        blame: &Blame,
    ) -> Result<Ended, EvaluationError> {
        let (usage, thread) = (blame.usage, planned.thread.clone());
        match outcome {
            RunOutcome::Completed { output } => {
                let text = last_answer(&output);
                let spec = self.prompt.output();
                let value = spec.map(|spec| spec.read(&text, FinishReason::Stop)).transpose();
                let value = value.map_err(|error| blame.output(&error))?;
                let (prompt, session) = (self.id.clone(), session.id().clone());
                let response =
                    PromptResponse { prompt, text, output: None, usage, session, thread };
                Ok(Ended::Done(response, value))
            }
            RunOutcome::Interrupted { questions, .. } => {
                Ok(Ended::Interrupted(Interrupted { thread, interrupts: questions, usage }))
            }
            RunOutcome::LimitReached { step_limit } => Err(blame.recursion_limit(step_limit)),
            RunOutcome::Cancelled { .. } => Err(blame.cancelled()),
            RunOutcome::Failed { fault } => Err(blame.fault(fault)),
        }
    }
}

/// Parameters as JSON, or the reason why they cannot be written.
pub(super) type Params = Result<Value, PromptError>;

/// The text of the last answer of a model in the output of a graph.
fn last_answer(output: &Value) -> String {
    let messages = output[MESSAGES].as_array().into_iter().flatten().rev();
    let mut messages = messages.filter_map(|json| serde_json::from_value(json.clone()).ok());
    let answer = messages.find(|message: &Message| message.role == Role::Assistant);
    answer.map(|message| message.joined_text()).unwrap_or_default()
}

/// A run that is being executed. When it is dropped before its end, the run is cancelled.
struct Running<'a> {
    job: &'a Job,
    thread: ThreadId,
    run: Option<RunRef>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let evaluator = &self.job.evaluator;
        evaluator.library.end(&self.thread);
        let Some(run) = self.run.take() else { return };
        let (runtime, who) = (evaluator.runtime.clone(), evaluator.principal.clone());
        // Without a runtime there is nothing that executes the run either.
        if let Ok(here) = tokio::runtime::Handle::try_current() {
            here.spawn(async move {
                use weftwork_types::port::GraphExecutor;
                if let Err(error) = runtime.cancel(&who, &run).await {
                    tracing::warn!(run = %run.run, %error, "a dropped evaluation was not cancelled");
                }
            });
        }
    }
}

/// Publishes the end of an evaluation exactly once, also if it is dropped.
struct Report {
    event: Option<PromptExecuted>,
    bus: super::EventBus,
    usage: Usage,
}

impl Report {
    fn new(job: &Job, session: &ThreadId) -> Self {
        let event = PromptExecuted {
            prompt: job.id.clone(),
            adapter: job.evaluator.library.name.clone(),
            session: session.clone(),
            outcome: ExecutedOutcome::Dropped,
            usage: Usage::default(),
        };
        let bus = job.evaluator.library.bus.clone();
        Self { event: Some(event), bus, usage: Usage::default() }
    }

    fn end(mut self, ended: &Result<Ended, EvaluationError>) {
        if let Some(event) = &mut self.event {
            event.outcome = match ended {
                Ok(Ended::Done(response, _)) => {
                    ExecutedOutcome::Done { text: response.text.clone() }
                }
                Ok(Ended::Interrupted(interrupted)) => {
                    ExecutedOutcome::Interrupted { questions: interrupted.interrupts.len() }
                }
                Err(error) => ExecutedOutcome::Failed {
                    code: error.code().to_owned(),
                    message: error.fault.message.clone(),
                },
            };
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.usage = self.usage;
            self.bus.publish(&PromptEvent::PromptExecuted(Arc::new(event)));
        }
    }
}
