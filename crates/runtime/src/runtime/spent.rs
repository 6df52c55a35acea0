//! Usage of runs, and what runs that continue others have left of a budget.

use super::core::Runtime;
use crate::run_kind::is_activity;
use crate::thread_snapshot::ThreadSnapshot;
use crate::usage::StoredUsage;
use std::collections::BTreeSet;
use weftwork_graph::RuntimeError;
use weftwork_store::mailbox::RESERVED;
use weftwork_store::{InterruptRow, RunRow, StoreError};
use weftwork_types::instance::ACTIVITY_PAYLOAD;
use weftwork_types::run::{Mailbox, RunInput, RunOptions, RunRef, RunRequest, RunStatus};
use weftwork_types::usage::{Usage, UsageCount};
use weftwork_types::{Principal, RunId};

impl Runtime {
    /// Returns the usage of a run, as its stored log reports it, also if the run failed.
    ///
    /// The usage of a run whose events were deleted is that of its usage facts and of the tool calls
    /// that the thread recorded between the creation and the end of the run.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the log or the records cannot be read.
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
        let usage = StoredUsage { store: self.store().as_ref(), who };
        Ok(usage.count(run, count).await?)
    }

    /// Limits a run that continues another one, without new input, to what that run left of its
    /// budget, and to as many supersteps, unless the request has a limit of its own. A request with a
    /// count of its own stays as it is. A run that continues an activity has the payload, the error
    /// channel, the retries and the model of that activity.
    ///
    /// # Errors
    /// As [`used`](Self::used).
    pub(super) async fn continue_options(
        &self,
        request: &mut RunRequest,
        thread: &ThreadSnapshot,
    ) -> Result<(), RuntimeError> {
        let continues = match &request.input {
            RunInput::Continue => true,
            RunInput::Command(command) => command.answers.is_some(),
            RunInput::Start { .. } | RunInput::Update { .. } => false,
        };
        if !continues || request.options.spent.is_some() {
            return Ok(());
        }
        let rows = match thread.questions().await {
            Err(StoreError::NotFound { .. }) => return Ok(()),
            rows => rows?,
        };
        let runs = thread.runs().await?;
        let concerns = |run: &RunRow| {
            let options = &run.new.options;
            let is_limited = options.budget.is_some() || options.step_limit.is_some();
            is_limited || concerns_activity(options)
        };
        if request.options.budget.is_none() && !runs.iter().any(concerns) {
            return Ok(());
        }
        let key = request.options.idempotency_key.as_ref();
        let same_key = |run: &&RunRow| run.new.options.idempotency_key.as_ref() == key;
        if let Some(earlier) = key.and_then(|_| runs.iter().find(same_key)) {
            // A repeated request has what the first one had, which has used some of it since.
            let before = &earlier.new.options;
            request.options.budget = request.options.budget.or(before.budget);
            request.options.spent = before.spent;
            request.options.step_limit = request.options.step_limit.or(before.step_limit);
            continue_activity(&mut request.options, before);
            request.options.activity.clone_from(&before.activity);
            return Ok(());
        }
        let last = match request.input.answers_by_id() {
            // Of an instance, activities wait behind the one that continues.
            None if runs.iter().any(|run| is_activity(&run.new.options)) => {
                waiting_activity(runs, rows)
            }
            None => {
                let mut begun = runs.iter().rev().filter(|run| run.status != RunStatus::Queued);
                begun.find(|run| run.rolled_back_by.is_none())
            }
            Some(answers) => {
                let asked = rows.iter().filter(|row| answers.contains_key(&row.interrupt.id));
                last_after(runs, asked.map(|row| row.run.clone()).collect())
            }
        };
        if let Some(last) = last {
            let options = std::mem::take(&mut request.options);
            request.options = self.continued_limits(&request.principal, last, options).await?;
            continue_activity(&mut request.options, &last.new.options);
            request.options.activity = last.activity();
        }
        Ok(())
    }

    /// Returns the options of a run that continues another one: its limits are those of the other
    /// run, unless the options have some. Of the budget, what that run and those before it used is
    /// spent; supersteps are counted for each run.
    pub(super) async fn continued_limits(
        &self,
        who: &Principal,
        last: &RunRow,
        options: RunOptions,
    ) -> Result<RunOptions, RuntimeError> {
        let before = &last.new.options;
        // A limit of 0 leaves the thread as it is, and is not that of the runs that follow.
        let inherited = before.step_limit.filter(|limit| *limit > 0);
        let step_limit = options.step_limit.or(inherited);
        let options = RunOptions { step_limit, ..options };
        let Some(budget) = options.budget.or(before.budget) else { return Ok(options) };
        let mut count = UsageCount::default();
        self.count_usage(who, &last.new.at, &mut count).await?;
        let spent = Some(before.spent.unwrap_or_default() + count.used_with_time());
        Ok(RunOptions { budget: Some(budget), spent, ..options })
    }
}

/// Returns the run that a continuation of an instance continues: the one that asked its open question,
/// or else the one that ended last.
pub(super) fn waiting_activity<'a>(
    runs: &'a [RunRow],
    questions: &[InterruptRow],
) -> Option<&'a RunRow> {
    let open = questions.iter().find(|row| row.is_open());
    let asking = open.and_then(|open| runs.iter().find(|run| run.new.at.run == open.run));
    let ended = || {
        let ended = runs.iter().filter(|run| run.status.is_final() && run.rolled_back_by.is_none());
        ended.max_by_key(|run| (run.ended_at, run.last_checkpoint))
    };
    asking.or_else(ended)
}

/// Returns `true` for the options of an activity, also in a thread that was copied from an instance.
fn concerns_activity(options: &RunOptions) -> bool {
    is_activity(options)
        || options.activity.is_some()
        || options.configurable.contains_key(ACTIVITY_PAYLOAD)
}

/// Completes the options of a run that continues an activity, given those of the activity.
fn continue_activity(options: &mut RunOptions, before: &RunOptions) {
    if !concerns_activity(before) {
        return;
    }
    if let Some(mailbox) = &before.mailbox {
        // A request that names a checkpoint does not continue the activity, and is refused.
        if options.at.is_some() && options.mailbox.is_none() {
            return;
        }
        options.mailbox.get_or_insert_with(|| Mailbox { priority: 0, ..mailbox.clone() });
    }
    // The payload is that of the activity, whatever the request says.
    let payload = before.configurable.get(ACTIVITY_PAYLOAD).cloned();
    options.configurable.insert(ACTIVITY_PAYLOAD.to_owned(), payload.unwrap_or_default());
    for (name, value) in &before.configurable {
        options.configurable.entry(name).or_insert_with(|| value.clone());
    }
    // The model is that of the instance, or of the activity.
    if options.run_model.is_none() {
        options.run_model.clone_from(&before.run_model);
    }
    let reserved = before.metadata.iter().filter(|(name, _)| name.starts_with(RESERVED));
    options.metadata.extend(reserved.map(|(name, value)| (name.clone(), value.clone())));
}

/// Returns the newest run of those that asked questions and of the runs that continued them. `runs`
/// are those of the thread, in the order of their execution.
fn last_after(runs: &[RunRow], mut chain: BTreeSet<RunId>) -> Option<&RunRow> {
    let mut last = None;
    let mut before = None;
    for run in runs.iter().filter(|run| run.rolled_back_by.is_none()) {
        let id = &run.new.at.run;
        let answers = run.answers.as_ref().is_some_and(|asking| chain.contains(asking));
        let continues = run.new.input == RunInput::Continue
            && before.is_some_and(|before| chain.contains(before));
        if answers || continues {
            chain.insert(id.clone());
        }
        if chain.contains(id) {
            last = Some(run);
        }
        before = Some(id);
    }
    last
}
