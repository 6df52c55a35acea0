//! Requests that act on an orchestration which began: its continuation, answers to its approvals, pauses and
//! rollbacks.

mod act;
mod effects;
mod error;
mod list;
mod pause;
mod rollback;

use error::OrchestrationError;
use pause::is_held;

use crate::mode::{OrchestrationAction, RequestError, payload_of};
use crate::platform::HostedAgents;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{EndedRun, Thread};
use weftwork_store::{InterruptRow, StoreError};
use weftwork_types::Principal;
use weftwork_types::code::Fault;
use weftwork_types::port::TaskCaller;
use weftwork_types::run::{AnswerTo, RunInput};
use weftwork_types::task::TaskRequest;

impl HostedAgents {
    /// Continues the last run of a conversation from its newest checkpoint, unless it is paused.
    pub(crate) async fn continue_orchestration(
        &self,
        by: &TaskCaller,
        runs: &Thread,
    ) -> Result<EndedRun, OrchestrationError> {
        self.check_paused(by, runs).await?;
        // A process may have ended between the use of a token and what follows it.
        if is_held(runs).await? {
            return self.release(by, runs).await;
        }
        Ok(runs.resume().await?.await)
    }

    /// Continues the last run of a conversation, or waits for its end.
    pub(crate) async fn finish(&self, runs: &Thread) -> Result<EndedRun, OrchestrationError> {
        match runs.resume().await {
            Ok(started) => Ok(started.await),
            Err(
                RuntimeError::NothingToResume { .. }
                | RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. }),
            ) => Ok(self.last_run(runs).await?),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers an approval. One that was answered before, in the same way, is not answered again: the
    /// answer is that of the run which went on.
    pub(crate) async fn answer_approval(
        &self,
        by: &TaskCaller,
        request: &TaskRequest,
        runs: &Thread,
    ) -> Result<EndedRun, Fault> {
        let who = &by.principal;
        let row = self.find_approval(who, request, runs).await?;
        let answer = match &row.answer {
            Some(_) if request.payload.decision.is_none() => None,
            Some(earlier) => Some(decide(&row, request)?).filter(|new| new.value != earlier.value),
            None => Some(decide(&row, request)?),
        };
        let Some(answer) = answer else { return self.last_run(runs).await };
        let started = runs.answer(answer).caller(by.caller.clone());
        let started = started.parent_span(by.parent_span.clone()).begin().await;
        Ok(started.map_err(|error| error.fault())?.await)
    }

    async fn find_approval(
        &self,
        who: &Principal,
        request: &TaskRequest,
        runs: &Thread,
    ) -> Result<InterruptRow, Fault> {
        let wrong = |found: String| {
            let expected = "the id of an approval of the conversation".to_owned();
            RequestError::Member { member: "payload.approvalId", found, expected }.fault()
        };
        let id = request.payload.approval_id.as_deref();
        let id = id.ok_or_else(|| wrong("missing".to_owned()))?;
        let rows = match self.runtime().store().interrupts(who, runs.id()).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => rows.map_err(|error| error.fault())?,
        };
        let is_it = |row: &InterruptRow| {
            row.interrupt.approval().is_some() && row.interrupt.id.to_string() == id
        };
        rows.into_iter().find(is_it).ok_or_else(|| wrong(format!("`{id}`")))
    }

    async fn last_run(&self, runs: &Thread) -> Result<EndedRun, Fault> {
        let all = runs.runs(weftwork_runtime::RolledBack::Omitted).await;
        let all = all.map_err(|error| error.fault())?;
        let Some(last) = all.last() else {
            let expected = "a conversation with a run".to_owned();
            let found = "that of a conversation without one".to_owned();
            let member = "conversationId";
            return Err(RequestError::Member { member, found, expected }.fault());
        };
        runs.wait_through(&last.new.at).await.map_err(|error| error.fault())
    }
}

/// Returns `true` if the input of a run begins an orchestration.
pub(crate) fn is_orchestration(input: &RunInput) -> bool {
    let RunInput::Start { input } = input else { return false };
    let payload = payload_of(input.get("payload")).unwrap_or_default();
    matches!(OrchestrationAction::of(&payload), Ok(Some(OrchestrationAction::Execute)))
}

/// The answer that a request gives to an approval.
fn decide(row: &InterruptRow, request: &TaskRequest) -> Result<AnswerTo, Fault> {
    let question = &row.interrupt;
    match (request.payload.decision.as_deref(), &request.input) {
        (Some("approve"), None) => Ok(question.approve()),
        (Some("edit"), Some(values)) => Ok(question.edit(values.clone())),
        (Some("reject"), None) => Ok(question.reject(request.user_message.clone())),
        (found, input) => {
            let found = found.map_or_else(|| "missing".to_owned(), |found| format!("`{found}`"));
            let with = if input.is_some() { " with an `input`" } else { "" };
            let expected = "`approve`, `edit` with the values as the `input`, or `reject`";
            let member = "payload.decision";
            let found = format!("{found}{with}");
            Err(RequestError::Member { member, found, expected: expected.to_owned() }.fault())
        }
    }
}
