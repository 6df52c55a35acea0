//! Usage of runs that have limits.

use crate::CliError;
use std::fmt;
use weftwork::App;
use weftwork::runtime::Runtime;
use weftwork::types::Principal;
use weftwork::types::port::Limits;
use weftwork::types::run::RunRef;
use weftwork::types::usage::{Usage, UsageCount, dollars};

/// The usage of a run, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Usage of the run and of the runs that it continues.
    pub used: Usage,
    limits: Limits,
}

impl Spent {
    /// Reads the usage of a run with a budget or a deadline; `None` for other runs.
    pub async fn of(app: &App, run: &RunRef) -> Result<Option<Self>, CliError> {
        Self::read(app.runtime(), run).await
    }

    /// Reads the usage as [`of`](Self::of) does.
    pub async fn read(runtime: &Runtime, run: &RunRef) -> Result<Option<Self>, CliError> {
        let who = Principal::local();
        let options = runtime.store().run(&who, run).await?.new.options;
        if options.budget.is_none() && options.deadline.is_none() {
            return Ok(None);
        }
        let mut count = UsageCount::default();
        runtime.count_usage(&who, run, &mut count).await?;
        let used = count.used_with_time() + options.spent.unwrap_or_default();
        Ok(Some(Self { used, limits: options.budget.unwrap_or_default() }))
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, limits } = self;
        let of = |limit: Option<u64>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
        let plural = |count: u64, limit: Option<u64>| {
            if limit.unwrap_or(count) == 1 { "" } else { "s" }
        };
        let calls = used.model_calls;
        let tools = used.tool_calls;
        let tokens = used.tokens.total();
        write!(
            f,
            "used {calls}{} model call{}, {tools}{} tool call{}, {tokens}{} token{}",
            of(limits.model_calls),
            plural(calls, limits.model_calls),
            of(limits.tool_calls),
            plural(tools, limits.tool_calls),
            of(limits.tokens),
            plural(tokens, limits.tokens),
        )?;
        if used.tokens.estimated {
            f.write_str(" (estimated)")?;
        }
        match (used.cost_micro_usd, limits.cost_micro_usd) {
            (0, None) => {}
            (cost, None) => write!(f, ", {} USD", dollars(cost))?,
            (cost, Some(limit)) => write!(f, ", {} of {} USD", dollars(cost), dollars(limit))?,
        }
        match limits.wall_ms {
            None => Ok(()),
            Some(limit) => write!(f, ", {} of {} s", seconds(used.wall_ms), seconds(limit)),
        }
    }
}

/// Formats milliseconds as seconds, without zeros at the end.
fn seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1_000, millis % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork::types::usage::Tokens;

    #[test]
    fn usage_is_shown_beside_its_limits() {
        let used = Usage::model_call(Tokens::reported(300, 45)) + Usage::tool_call();
        let limits = Limits::default();
        assert_eq!(
            Spent { used, limits }.to_string(),
            "used 1 model call, 1 tool call, 345 tokens"
        );
        let used = used + Usage::model_call(Tokens::estimated(5, 0)).costing(Some(1_250));
        let limits = Limits {
            model_calls: Some(3),
            cost_micro_usd: Some(2_000_000),
            tokens: Some(5_000),
            wall_ms: Some(90_000),
            ..limits
        };
        let used = Usage { wall_ms: 12_800, ..used };
        assert_eq!(
            Spent { used, limits }.to_string(),
            "used 2 of 3 model calls, 1 tool call, 350 of 5000 tokens (estimated), 0.00125 of 2 USD, 12.8 of 90 s"
        );
    }
}
