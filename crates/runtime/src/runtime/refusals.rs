//! Refused answers about calls, on the record of their thread.

use super::core::Runtime;
use crate::thread_snapshot::ThreadSnapshot;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::check_answer;
use weftwork_store::approval::{ApprovalRow, record_refusal};
use weftwork_store::{InterruptRow, StoreError};
use weftwork_types::approval::{ApprovalOutcome, ApprovalRecord, ApprovalRequest, RefusedAnswer};
use weftwork_types::interrupt::Ask;
use weftwork_types::run::RunRequest;
use weftwork_types::{InterruptId, Principal, ThreadId, Timestamp};

/// Answers of a request, by question.
pub(super) struct GivenAnswers {
    who: Principal,
    thread: ThreadId,
    pub(super) answers: BTreeMap<InterruptId, Json>,
}

impl GivenAnswers {
    /// Returns the answers of a request, if it has some.
    pub(super) fn of(request: &RunRequest) -> Option<Self> {
        let answers = request.input.answers_by_id()?.clone();
        Some(Self { who: request.principal.clone(), thread: request.thread.clone(), answers })
    }
}

impl Runtime {
    /// Records the answers of a refused request that were themselves the reason, if they are about
    /// calls. A refusal stands whether or not it can be recorded.
    pub(super) async fn record_refusals(
        &self,
        given: &GivenAnswers,
        thread: &ThreadSnapshot,
        error: &RuntimeError,
    ) {
        let of_answer = matches!(
            error,
            RuntimeError::WrongAnswer { .. }
                | RuntimeError::UnknownQuestion { .. }
                | RuntimeError::Store(
                    StoreError::Answered { .. } | StoreError::NotFound { kind: "interrupt", .. }
                )
        );
        if of_answer && let Err(error) = self.try_record_refusals(given, thread).await {
            tracing::warn!(thread = %given.thread, %error, "refused answers are not on record");
        }
    }

    async fn try_record_refusals(
        &self,
        given: &GivenAnswers,
        snapshot: &ThreadSnapshot,
    ) -> Result<(), StoreError> {
        let GivenAnswers { who, thread, answers } = given;
        let at = self.clock().now();
        for row in snapshot.questions().await? {
            let Ask::Approval(request) = &row.interrupt.ask else { continue };
            let Some(answer) = answers.get(&row.interrupt.id) else { continue };
            let Some(reason) = reason_of(row, request, answer, at) else { continue };
            let record = ApprovalRecord {
                question: row.interrupt.id,
                request: request.clone(),
                outcome: ApprovalOutcome::Refused(reason),
                by: Some(who.subject.clone()),
                at,
            };
            let row = ApprovalRow { thread: thread.clone(), record };
            record_refusal(self.store().as_ref(), who, &row).await?;
        }
        Ok(())
    }
}

/// Returns the reason to refuse an answer to a question, if there is one.
fn reason_of(
    row: &InterruptRow,
    request: &ApprovalRequest,
    answer: &Json,
    now: Timestamp,
) -> Option<RefusedAnswer> {
    if row.answer.is_some() {
        return Some(RefusedAnswer::AlreadyAnswered);
    }
    if row.interrupt.lapses_at().is_some_and(|at| at <= now) {
        return Some(RefusedAnswer::Expired);
    }
    if row.closed {
        return Some(RefusedAnswer::Closed);
    }
    match ApprovalOutcome::of(request, answer) {
        ApprovalOutcome::Refused(reason) => Some(reason),
        ApprovalOutcome::Decided(_) => {
            check_answer(&row.interrupt, answer, now).err().map(|_| RefusedAnswer::Invalid)
        }
    }
}
