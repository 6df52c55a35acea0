//! The calls that stand for the questions of a thread, and the answers that a request has to them.

use crate::chat::answer;
use crate::chat::question::Asked;
use crate::chat::request::ChatRequest;
use crate::error::{ApiError, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork_graph::RuntimeError;
use weftwork_store::{InterruptRow, StoreError};
use weftwork_types::InterruptId;
use weftwork_types::interrupt::Interrupt;

/// The calls that stand for questions, by their ids in frames. A question that is not in it is the
/// call of its own id.
#[derive(Default)]
pub(super) struct Cards(BTreeMap<InterruptId, String>);

impl From<BTreeMap<InterruptId, String>> for Cards {
    fn from(calls: BTreeMap<InterruptId, String>) -> Self {
        Self(calls)
    }
}

impl Cards {
    /// Returns the id of the call of a question; `None` for a timer.
    fn of(&self, question: &Interrupt) -> Option<String> {
        let asked = Asked::of(question)?;
        Some(self.0.get(&question.id).cloned().unwrap_or(asked.call.id))
    }

    /// Returns the answers to open questions that a request has as results of calls.
    pub(super) fn answers(
        &self,
        open: &[&Interrupt],
        request: &ChatRequest,
    ) -> Result<BTreeMap<InterruptId, Value>> {
        let mut answers = BTreeMap::new();
        for question in open {
            let Some(card) = self.of(question) else { continue };
            let Some(value) = request.results.get(&card) else { continue };
            if let Some(shown) = request.shown.get(&card) {
                answer::check_shown(question, shown)?;
            }
            answers.insert(question.id, answer::of_result(question, value)?);
        }
        Ok(answers)
    }

    /// Returns the refusal of a second answer: to a question that was answered, of which the request
    /// has a result.
    pub(super) fn answered(
        &self,
        rows: &[InterruptRow],
        request: &ChatRequest,
    ) -> Option<ApiError> {
        if request.said.is_some() {
            return None;
        }
        let given = |row: &&InterruptRow| {
            let card = self.of(&row.interrupt);
            card.is_some_and(|card| request.results.contains_key(&card))
        };
        let row = rows.iter().rev().filter(given).find(|row| row.answer.is_some())?;
        let first = Box::new(row.answer.clone()?);
        let interrupt = row.interrupt.id.to_string();
        Some(RuntimeError::Store(StoreError::Answered { interrupt, first }).into())
    }
}
