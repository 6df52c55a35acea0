//! Questions that were answered, with the answers that counted.

use super::Service;
use super::inbox::{question_address, tool_call_of};
use crate::error::Result;
use crate::translate::time;
use serde_json::{Value, json};
use std::cmp::Reverse;
use weftwork_store::thread::{Direction, ThreadKey};
use weftwork_store::{RunRow, SearchFrom, StoreError, ThreadOrder, ThreadQuery, ThreadRow};
use weftwork_types::interrupt::Answer;
use weftwork_types::{ThreadId, Timestamp};

impl Service {
    /// Returns the questions that were answered last, the newest answer first. A damaged thread is
    /// left out.
    pub(crate) async fn answered_questions(&self, limit: usize) -> Result<Vec<Value>> {
        let order = ThreadOrder { by: ThreadKey::UpdatedAt, direction: Direction::Descending };
        let mut query = ThreadQuery { from: SearchFrom::Start(order), ..ThreadQuery::default() };
        let mut newest: Vec<(Timestamp, Value)> = Vec::new();
        loop {
            let found = self.store().search_threads(self.who(), query.clone()).await?;
            for thread in &found.threads {
                // An answer changes its thread, so threads that follow have older answers only.
                let last = newest.get(limit.saturating_sub(1)).map(|(at, _)| *at);
                if limit == 0 || last.is_some_and(|last| last >= thread.row.updated_at) {
                    return Ok(without_times(newest));
                }
                match self.answered_on(&thread.row).await {
                    Err(StoreError::Corrupt { .. }) => continue,
                    answered => newest.extend(answered?),
                }
                newest.sort_by_key(|(at, _)| Reverse(*at));
                newest.truncate(limit);
            }
            match found.next {
                Some(next) => query.from = SearchFrom::After(next),
                None => return Ok(without_times(newest)),
            }
        }
    }

    /// Returns the questions of a thread that were answered last, the newest answer first, each with
    /// the idempotency key of its answer, if it has one.
    pub(crate) async fn answered_questions_of(
        &self,
        thread: &ThreadId,
        limit: usize,
    ) -> Result<Vec<Value>> {
        let mut found = self.answered_on(&self.row(thread).await?).await?;
        let runs = self.store().runs(self.who(), thread).await?;
        for (_, shown) in &mut found {
            let id = shown["interrupt_id"].as_str().and_then(|id| id.parse().ok());
            let by = |run: &&RunRow| {
                run.new
                    .input
                    .answers_by_id()
                    .is_some_and(|all| id.is_some_and(|id| all.contains_key(&id)))
            };
            let by = runs.iter().find(by);
            // A client knows its own answer by its key.
            if let Some(key) = by.and_then(|run| run.new.options.idempotency_key.as_ref()) {
                shown["idempotency_key"] = json!(key);
            }
        }
        found.sort_by_key(|(at, _)| Reverse(*at));
        found.truncate(limit);
        Ok(without_times(found))
    }

    /// Returns the questions that were answered on a thread. A copy also has the answered questions of
    /// its original thread; they are left out.
    async fn answered_on(&self, thread: &ThreadRow) -> Result<Vec<(Timestamp, Value)>, StoreError> {
        let graph = thread.graph.as_deref().map(|graph| self.name_of(graph));
        let mut found = Vec::new();
        for row in self.store().interrupts(self.who(), &thread.id).await? {
            let Some(Answer { value, answered_by, answered_at }) = row.answer else { continue };
            if answered_at < thread.created_at {
                continue;
            }
            let interrupt = row.interrupt.into_shown();
            let shown = json!({
                "id": question_address(&thread.id, interrupt.id),
                "interrupt_id": interrupt.id,
                "thread_id": thread.id,
                "agent": graph,
                "node": interrupt.node,
                "graph": interrupt.graph,
                "call": tool_call_of(&interrupt),
                "answer": value,
                "answered_by": answered_by,
                "answered_at": time::format_time(answered_at),
            });
            found.push((answered_at, shown));
        }
        Ok(found)
    }
}

fn without_times(found: Vec<(Timestamp, Value)>) -> Vec<Value> {
    found.into_iter().map(|(_, shown)| shown).collect()
}
