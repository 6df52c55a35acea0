//! Requests for evaluations, from the plan of a run to its outcome.

mod end;
mod plan;
mod start;
mod usage;

use super::Evaluator;
use super::bus::{PromptEventKind, PromptEventSource, PromptRendered};
use super::error::{ErrorContext, EvaluationError};
use super::evaluation::Allowance;
use super::outcome::{Interrupted, PromptResponse};
use super::running::EvaluationReport;
use crate::prompt::{AnyPrompt, Overrides, PromptError, PromptId};
use crate::session::Session;
pub(super) use plan::Planned;

use end::SentSession;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use weftwork_graph::RuntimeError;
use weftwork_runtime::Output;
use weftwork_store::StoreError;
use weftwork_types::port::{CallContext, Emit};
use weftwork_types::run::Answers;
use weftwork_types::usage::Usage;
use weftwork_types::{InvocationId, ThreadId, Timestamp};

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
    pub(super) output: Option<UnboundedSender<Result<Output, RuntimeError>>>,
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

impl Nested {
    pub(super) fn new(key: String, call: &CallContext) -> Self {
        Self {
            key,
            within: call.thread.clone(),
            emit: Arc::clone(&call.emit),
            reported: Mutex::default(),
        }
    }

    fn reported(&self) -> MutexGuard<'_, BTreeSet<InvocationId>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
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
        let report = EvaluationReport::new(&self, start.session_id());
        let ended = self.run_evaluation(start, &report).await;
        report.set_outcome(&ended);
        ended
    }

    fn error_context(&self, thread: Option<&ThreadId>) -> ErrorContext {
        ErrorContext { prompt: self.id.clone(), thread: thread.cloned(), usage: Usage::default() }
    }

    async fn run_evaluation(
        &self,
        start: Starting<'_>,
        report: &Arc<EvaluationReport>,
    ) -> Result<Ended, EvaluationError> {
        let mut planned = self.plan(&start).await?;
        report.set_begun(&planned.record);
        let own;
        let session = match start.session() {
            Some(session) => session,
            None => {
                own = self.open_session(&planned).await?;
                &own
            }
        };
        let begun = self.evaluator.begin_with(session).await;
        let mut in_evaluation =
            begun.map_err(|error| self.error_context(Some(&planned.thread)).runtime(&error))?;
        self.publish_rendered(&planned);
        loop {
            report.set_usage(planned.used.used());
            let mut errors = self.error_context(Some(&planned.thread));
            errors.usage = report.usage();
            in_evaluation.sends(&planned.thread, &planned.record.id);
            let (request, sent) = self.request(&planned, session, &errors)?;
            match self.begin(&planned, request, report).await {
                Err(error) if self.nested.is_some() && is_busy(&error) => {
                    tokio::time::sleep(RETRY_EVERY).await;
                    planned = self.plan(&start).await?;
                }
                Err(error) => return Err(errors.runtime(&error)),
                Ok((started, running)) => {
                    let session = SentSession { session, sent };
                    return self.finish(&planned, started, running, session, report).await;
                }
            }
        }
    }

    /// Opens the session of a continuation.
    async fn open_session(&self, planned: &Planned) -> Result<Session, EvaluationError> {
        let thread = &planned.thread;
        let events = self.evaluator.stored_events(thread).await;
        let events = events.map_err(|error| self.error_context(Some(thread)).runtime(&error))?;
        let events = events.unwrap_or_default();
        let id = planned.record.session.clone();
        Ok(Session::with_events(id, events, Some(thread.clone())))
    }

    fn publish_rendered(&self, planned: &Planned) {
        let Evaluator { resources, runtime, .. } = &self.evaluator;
        let rendered = planned.run.rendered();
        let source = PromptEventSource {
            evaluation: Some(planned.record.id.clone()),
            prompt: self.id.clone(),
            session: planned.record.session.clone(),
        };
        let rendered = PromptRendered {
            inputs: rendered.inputs().clone(),
            text: rendered.text().to_owned(),
            hash: rendered.hash(),
        };
        resources.publish(&**runtime.clock(), &source, PromptEventKind::PromptRendered(rendered));
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
