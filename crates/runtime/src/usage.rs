//! Usage of runs, as their logs and records report it.

use weftwork_store::{Store, StoreError, by_execution};
use weftwork_types::Principal;
use weftwork_types::port::CallKind;
use weftwork_types::run::RunRef;
use weftwork_types::usage::{Usage, UsageCount};

/// Events per read of a log.
const LOG_PAGE: usize = 256;

/// Usage of the runs of an organisation in a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredUsage<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) who: &'a Principal,
}

impl StoredUsage<'_> {
    /// Counts the usage of a run together with that of others: a usage fact that several of their
    /// logs have counts once.
    pub(crate) async fn count(
        &self,
        run: &RunRef,
        count: &mut UsageCount,
    ) -> Result<(), StoreError> {
        // The events may be deleted between two reads.
        let mut reported = count.clone();
        let mut after = 0;
        loop {
            let page = match self.store.events(self.who, run, after, LOG_PAGE).await {
                Err(StoreError::Dropped { .. }) => return self.count_recorded(run, count).await,
                page => page?,
            };
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.iter().for_each(|told| reported.read_logged(told.at, &told.event));
        }
        *count = reported;
        Ok(())
    }

    /// Counts the usage of a run by the records that are retained when its events are deleted.
    async fn count_recorded(&self, at: &RunRef, count: &mut UsageCount) -> Result<(), StoreError> {
        let facts = self.store.usage_of_run(self.who, &at.run).await?;
        facts.iter().for_each(|row| count.add_fact(&row.fact));
        // A run of the thread begins after the one before it has ended.
        let runs = by_execution(self.store.runs(self.who, &at.thread).await?);
        let mut before = None;
        let mut times = None;
        for run in &runs {
            if run.new.at == *at {
                times = Some((before.max(Some(run.new.created_at)), run.ended_at));
            }
            before = before.max(run.ended_at.filter(|_| times.is_none()));
        }
        let Some((from, to)) = times else { return Ok(()) };
        if let (Some(from), Some(to)) = (from, to) {
            count.add_time(to.since(from));
        }
        let calls = self.store.calls(self.who, &at.thread).await?;
        let of_run = calls.iter().filter(|call| {
            let opened = call.opened_at;
            call.kind == CallKind::Tool
                && call.made > 0
                && from.is_none_or(|from| opened >= from)
                && to.is_none_or(|to| opened <= to)
        });
        of_run.for_each(|_| count.add_tool_call());
        Ok(())
    }

    /// Returns the usage of the other runs of the thread of a run. Runs that were rolled back are
    /// included: they were paid for.
    pub(crate) async fn of_other_runs(&self, run: &RunRef) -> Result<Usage, StoreError> {
        let mut count = UsageCount::default();
        for other in self.store.runs(self.who, &run.thread).await? {
            if other.new.at != *run {
                self.count(&other.new.at, &mut count).await?;
            }
        }
        Ok(count.used_with_time())
    }
}
