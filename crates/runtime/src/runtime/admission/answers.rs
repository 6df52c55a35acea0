//! Answers of a request for a run: the questions that they are for, and their checks.

use super::requested::{RequestedRun, Subgraphs};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Unanswered, answers_by_id, check_answer, check_open};
use weftwork_store::{CheckpointNamespace, InterruptRow, StoreError, open_questions};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{Answers, RunCommand, RunInput, Within};
use weftwork_types::{InterruptId, Timestamp};

/// Checkpoint whose questions a request answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredCheckpoint {
    /// The newest of the thread. Each of its questions has one answer for good.
    Newest,
    /// An older one. Its answers are for the branch of the run alone.
    Older,
}

impl RequestedRun<'_> {
    /// Replaces answers that name no ids by answers by id. With the semantics of LangGraph, a single
    /// answer is offered to whichever question is asked next, and stays as it is.
    pub(super) async fn resolve_answers(&mut self) -> Result<AnsweredCheckpoint, RuntimeError> {
        let RunInput::Command(RunCommand { answers: Some(given), .. }) = &self.request.input else {
            return Ok(AnsweredCheckpoint::Newest);
        };
        let reruns = self.graph.semantics().unanswered == Unanswered::Rerun;
        if reruns && matches!(given, Answers::One(_)) {
            return Ok(AnsweredCheckpoint::Newest);
        }
        if self.is_past().await? {
            let by_id = self.answers_to_past(given.clone()).await?;
            self.set_answers(by_id);
            return Ok(AnsweredCheckpoint::Older);
        }
        let rows = match self.thread.questions().await {
            // Such a request is refused because of its thread.
            Err(StoreError::NotFound { .. }) if matches!(given, Answers::ById(_)) => {
                return Ok(AnsweredCheckpoint::Newest);
            }
            rows => rows?,
        };
        let by_id = match given {
            Answers::ById(given) if reruns => {
                // In the reference answers to other questions have no effect.
                let row_of = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
                let is_asked = |id: &InterruptId| {
                    row_of(id).is_some_and(|row| !row.closed || row.answer.is_some())
                };
                let mut known = given.clone();
                known.retain(|id, _| is_asked(id));
                known
            }
            given => {
                let open = open_questions(rows.to_vec());
                let open: Vec<_> = open.iter().collect();
                answers_by_id(&open, given.clone(), self.runtime.clock().now())?
            }
        };
        self.set_answers(by_id);
        Ok(AnsweredCheckpoint::Newest)
    }

    fn set_answers(&mut self, by_id: BTreeMap<InterruptId, Json>) {
        if let RunInput::Command(command) = &mut self.request.input {
            command.answers = Some(Answers::ById(by_id));
        }
    }

    /// Returns `true` if the request names a checkpoint that is not the newest of its thread.
    async fn is_past(&self) -> Result<bool, RuntimeError> {
        let options = &self.request.options;
        if let Some(within) = &options.within {
            if self.graph.semantics().unanswered == Unanswered::Wait {
                self.check_newest_within(within).await?;
            }
            return Ok(false);
        }
        let Some(at) = options.at else { return Ok(false) };
        let head = self.thread.row().await?.and_then(|thread| thread.head);
        Ok(head.is_some_and(|head| head != at))
    }

    /// Refuses answers at checkpoints of a subgraph, and of the graphs around it, that are not the
    /// newest ones: a branch begins at a checkpoint of the outermost graph.
    async fn check_newest_within(&self, within: &Within) -> Result<(), RuntimeError> {
        let request = &self.request;
        let outer = within.checkpoints.iter().map(|(ns, at)| (ns, *at));
        // With those of the graphs around it, the request names that of the outermost one.
        let own = request.options.at.filter(|_| within.checkpoints.is_empty());
        let own = own.map(|at| (&within.namespace, at));
        for (ns, at) in outer.chain(own) {
            let address = CheckpointNamespace { thread: request.thread.clone(), ns: ns.clone() };
            let store = self.runtime.store();
            let newest = store.page(&request.principal, &address, None, 1).await?;
            if newest.first().is_some_and(|newest| newest.id != at) {
                let ns = within.namespace.clone();
                return Err(RuntimeError::AnsweredPastWithin { ns });
            }
        }
        Ok(())
    }

    /// Resolves answers to the questions of the checkpoint that the request names, and checks them.
    async fn answers_to_past(
        &self,
        given: Answers,
    ) -> Result<BTreeMap<InterruptId, Json>, RuntimeError> {
        let read;
        let asked = match self.asked.get() {
            Some(asked) => asked,
            None => {
                read = self.read_asked(Subgraphs::Omitted).await?;
                &read
            }
        };
        let asked: Vec<_> = asked.iter().collect();
        let now = self.runtime.clock().now();
        let given = answers_by_id(&asked, given, now)?;
        // In the reference answers to other questions have no effect.
        if self.graph.semantics().unanswered == Unanswered::Wait {
            check_open(given.keys(), &asked)?;
        }
        for question in asked {
            if let Some(answer) = given.get(&question.id) {
                check_answer(question, answer, now)?;
            }
        }
        Ok(given)
    }

    /// Returns the answers as they are recorded, of a request whose answers have ids. Refuses an answer
    /// that does not fit its question before it counts as the first one, and an answer to a thread
    /// that this build cannot continue.
    pub(super) async fn checked_answers(
        &self,
        now: Timestamp,
    ) -> Result<BTreeMap<InterruptId, Answer>, RuntimeError> {
        let Some(answers) = self.request.input.answers_by_id() else { return Ok(BTreeMap::new()) };
        let rows = self.thread.questions().await?;
        let is_given = |row: &InterruptRow| answers.contains_key(&row.interrupt.id);
        if rows.iter().any(|row| is_given(row) && row.is_open()) {
            self.check_loads().await?;
        }
        // An answer to a question that has one is refused as the second one, by the store.
        for row in rows.iter().filter(|row| row.answer.is_none()) {
            if let Some(answer) = answers.get(&row.interrupt.id) {
                check_answer(&row.interrupt, answer, now)?;
            }
        }
        let answered_by = &self.request.principal.subject;
        let record = |value: &Json| Answer {
            value: value.clone(),
            answered_by: answered_by.clone(),
            answered_at: now,
        };
        Ok(answers.iter().map(|(id, value)| (*id, record(value))).collect())
    }
}
