//! Rollback: the list of effects, its confirmation, and the branch on which they are undone.

use super::effects::{Reader, Since};
use super::error::OrchestrationError;
use crate::definition::Outline;
use crate::orchestration::{Change, Rollback, UNDO};
use crate::platform::HostedAgents;
use serde_json::{Map, Value, json};
use weftwork_graph::RuntimeError;
use weftwork_runtime::{EndedRun, RolledBack, Thread};
use weftwork_types::canonical::hash;
use weftwork_types::port::TaskCaller;
use weftwork_types::run::{RunOptions, RunOutcome};
use weftwork_types::task::Payload;

type Result<T> = std::result::Result<T, OrchestrationError>;

/// The result of a request to roll back.
pub(crate) enum RollbackResult {
    /// The list of effects, with the value that confirms it. Nothing was done.
    Listed(Map<String, Value>),
    /// The rollback was performed, and the orchestration went on.
    Performed(EndedRun),
}

impl HostedAgents {
    /// Lists the effects since a step, or rolls back to it if the request confirms the list.
    pub(crate) async fn roll_back(
        &self,
        by: &TaskCaller,
        payload: &Payload,
        outline: &Outline,
        runs: &Thread,
    ) -> Result<RollbackResult> {
        let confirm = payload.confirm.as_deref();
        if let Some(confirm) = confirm
            && self.has_rolled_back(runs, confirm).await?
        {
            return Ok(RollbackResult::Performed(self.finish(runs).await?));
        }
        let reader = Reader { platform: self, by, runs, outline };
        let since = reader.since(payload.step.as_deref()).await?;
        let list = since.describe(by, runs);
        let Some(confirm) = confirm else { return Ok(RollbackResult::Listed(list)) };
        if list.get("confirm").and_then(Value::as_str) != Some(confirm) {
            return Err(OrchestrationError::Unconfirmed { list: Box::new(list) });
        }
        let target = since.target;
        let change = Change { rollback: Some(since.into_rollback()), ..Change::default() };
        let options = RunOptions {
            at: Some(target),
            idempotency_key: Some(key_of(confirm)),
            ..RunOptions::default()
        };
        let update = runs.update_as(UNDO, json!({"orchestration": change})).options(options);
        let begun = update
            .caller(by.caller.clone())
            .parent_span(by.parent_span.clone())
            .begin()
            .await?
            .await;
        if matches!(begun.outcome(), RunOutcome::Failed { .. }) {
            return Ok(RollbackResult::Performed(begun));
        }
        Ok(RollbackResult::Performed(self.finish(runs).await?))
    }

    /// Returns `true` if the rollback of a confirmed list has begun: it is not performed again.
    async fn has_rolled_back(&self, runs: &Thread, confirm: &str) -> Result<bool> {
        let key = key_of(confirm);
        let all = match runs.runs(RolledBack::Omitted).await {
            Err(RuntimeError::Store(weftwork_store::StoreError::NotFound { .. })) => Vec::new(),
            all => all?,
        };
        Ok(all.iter().any(|row| row.new.options.idempotency_key.as_ref() == Some(&key)))
    }
}

/// Idempotency key of the run that a confirmation begins.
fn key_of(confirm: &str) -> String {
    format!("rollback:{confirm}")
}

impl Since {
    /// Describes the effects, with the value that confirms exactly these.
    fn describe(&self, by: &TaskCaller, runs: &Thread) -> Map<String, Value> {
        let Self { step, target, newest, effects, records, .. } = self;
        let who = &by.principal;
        let list = json!({"step": step, "effects": effects, "records": records});
        let bound = json!(["weft:rollback", who.org, who.subject, runs.id(), target, newest, list]);
        let mut described = Map::new();
        described.insert("rollback".to_owned(), list);
        described.insert("confirm".to_owned(), hash(&bound).to_string().into());
        described
    }

    fn into_rollback(self) -> Rollback {
        let Self { step, effects, records, results, .. } = self;
        Rollback { step, effects, records, results, undone: Default::default(), restored: false }
    }
}
