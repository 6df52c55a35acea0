//! Usage of the runs of an evaluation.

use super::EvaluationRequest;
use super::plan::Planned;
use crate::evaluate::record::Record;
use futures_util::TryStreamExt;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{Output, RolledBack};
use weftwork_store::RunRow;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::usage::UsageCount;

impl EvaluationRequest {
    /// Returns the usage that the logs of the ended runs of an evaluation report. For an evaluation
    /// within a call, the log of the call gets their model calls too.
    pub(super) async fn used(
        &self,
        runs: impl Iterator<Item = &RunRow>,
        evaluation: &str,
    ) -> Result<UsageCount, RuntimeError> {
        let runtime = &self.evaluator.runtime;
        let who = &self.evaluator.principal;
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
            let mut run = runtime.follow_run(who, &row.new.at).await?;
            while let Some(output) = run.try_next().await? {
                self.count(&mut count, &output);
            }
        }
        Ok(count)
    }

    /// Counts the usage that an output reports, also for the call that makes the evaluation.
    pub(super) fn count(&self, count: &mut UsageCount, output: &Output) {
        let Some(RunEvent { event, .. }) = output.event() else { return };
        count.read(event);
        if let Some(nested) = &self.nested
            && let AiEvent::UsageReport { fact, .. } = event
            && nested.reported().insert(fact.invocation_id.clone())
        {
            nested.emit.emit(event.clone());
        }
    }

    pub(super) async fn used_in_all(&self, planned: &Planned) -> Result<UsageCount, RuntimeError> {
        let runs = self.evaluator.thread(&planned.thread)?.runs(RolledBack::Omitted).await?;
        self.used(runs.iter(), &planned.record.id).await
    }
}
