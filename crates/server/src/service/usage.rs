use super::Service;
use super::chat::{continues_message, is_update};
use crate::error::Result;
use weftwork_runtime::limits::{LimitLine, report_limits, subjects_of};
use weftwork_runtime::usage_report::{
    RunUsage, UsageQuery, UsageReport, report_usage, usage_of_runs,
};
use weftwork_store::{RunRow, UsageSum, by_execution};
use weftwork_types::{RunId, ThreadId};

/// Usage of a thread.
pub(crate) struct ThreadUsage {
    /// Runs in the order of their execution, also those that were replaced, without deleted ones.
    pub(crate) rows: Vec<AnswerUsage>,
    /// Sum of all runs, with deleted ones.
    pub(crate) total: UsageSum,
}

/// Usage of a run as a part of an answer.
pub(crate) struct AnswerUsage {
    /// First run of the answer. An answer has several runs if it asked a question or was continued.
    pub(crate) answer: RunId,
    pub(crate) usage: RunUsage,
}

impl Service {
    /// Returns the limits of the account and key of the client, with what is used of them.
    pub(crate) async fn report_limits(&self) -> Result<Vec<LimitLine>> {
        let Some(limits) = self.runtime().limits() else { return Ok(Vec::new()) };
        let subjects = subjects_of(&self.caller());
        Ok(report_limits(self.store().as_ref(), limits, &subjects, self.now()).await?)
    }

    /// Reports the usage of the organisation of the client.
    pub(crate) async fn report_usage(&self, query: &UsageQuery) -> Result<UsageReport> {
        Ok(report_usage(self.store().as_ref(), self.who(), query).await?)
    }

    /// Reports the usage of a thread.
    ///
    /// # Errors
    /// Status 404 if there is no such thread.
    pub(crate) async fn thread_usage(&self, thread: &ThreadId) -> Result<ThreadUsage> {
        self.row(thread).await?;
        let runs = by_execution(self.store().runs(self.who(), thread).await?);
        let deleted = self.deleted_runs(thread).await?;
        let ids = runs.iter().map(|row| row.new.at.run.clone()).collect();
        let usages = usage_of_runs(self.store().as_ref(), self.who(), ids).await?;
        let mut total = UsageSum::default();
        let mut rows = Vec::new();
        for (answer, usage) in answers_of(&runs).into_iter().zip(usages) {
            total += usage.sum;
            if !deleted.contains(usage.run.as_str()) {
                rows.push(AnswerUsage { answer, usage });
            }
        }
        Ok(ThreadUsage { rows, total })
    }
}

/// Returns the first run of the answer of each run.
fn answers_of(runs: &[RunRow]) -> Vec<RunId> {
    // Runs that were replaced may lie between those of an answer that was not.
    let mut replaced = None;
    let mut live = None;
    let answer_of = |row: &RunRow| {
        let run = row.new.at.run.clone();
        if is_update(row) {
            return run;
        }
        let last = if row.rolled_back_by.is_some() { &mut replaced } else { &mut live };
        if !continues_message(row) {
            *last = None;
        }
        last.get_or_insert(run).clone()
    };
    runs.iter().map(answer_of).collect()
}
