//! Usage of runs, and what runs that continue others have left of a budget.

use super::core::Runtime;
use weftwork_graph::RuntimeError;
use weftwork_store::RunRow;
use weftwork_types::Principal;
use weftwork_types::run::{RunOptions, RunRef};
use weftwork_types::usage::{Usage, UsageCount};

/// Events per read of a log.
const LOG_PAGE: usize = 256;

impl Runtime {
    /// Returns the usage of a run, as its stored log reports it, also if the run failed. Tool calls
    /// that were refused count too.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the log cannot be read.
    pub async fn used(&self, who: &Principal, run: &RunRef) -> Result<Usage, RuntimeError> {
        let mut count = UsageCount::default();
        self.count_usage(who, run, &mut count).await?;
        Ok(count.used())
    }

    /// Counts the usage of a run together with that of others: a usage fact that several of their
    /// logs have counts once.
    ///
    /// # Errors
    /// As [`used`](Self::used).
    pub async fn count_usage(
        &self,
        who: &Principal,
        run: &RunRef,
        count: &mut UsageCount,
    ) -> Result<(), RuntimeError> {
        let mut after = 0;
        loop {
            let page = self.store().events(who, run, after, LOG_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            page.iter().for_each(|told| count.read(&told.event));
        }
    }

    /// Returns the options of a run that continues another one: its budget is that of the other
    /// run, unless the options have one, less what that run and those before it used.
    ///
    /// # Errors
    /// As [`used`](Self::used).
    pub async fn continued_budget(
        &self,
        who: &Principal,
        last: &RunRow,
        options: RunOptions,
    ) -> Result<RunOptions, RuntimeError> {
        let before = &last.new.options;
        let Some(budget) = options.budget.or(before.budget) else { return Ok(options) };
        let used = self.used(who, &last.new.at).await?;
        let spent = Some(before.spent.unwrap_or_default() + used);
        Ok(RunOptions { budget: Some(budget), spent, ..options })
    }
}
