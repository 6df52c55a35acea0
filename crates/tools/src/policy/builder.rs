//! The builder of policies.

use super::Policy;
use super::file::{RuleFile, Word};
use super::requirement::{AfterFile, SameFile};
use super::retry::RetryFile;
use crate::{ToolBoxError, ToolBoxErrors};
use std::time::Duration;
use weftwork_types::retry::RetryPolicy;
use weftwork_types::tool::Effect;

/// Builder of a [`Policy`]: rules in their order, each followed by its options.
///
/// ```
/// use weftwork_tools::{Policy, RetryPolicy};
/// use weftwork_types::tool::Effect;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::builder()
///     .ask_human("refund", "it moves money")
///     .when("args.euros > 50")
///     .after("find_order")
///     .allow("refund")
///     .after("find_order")
///     .calls_per_run(3)
///     .allow("shop/*")
///     .effect(Effect::ReadOnly)
///     .retry(RetryPolicy { attempts_max: 5, ..RetryPolicy::default() })
///     .build()?;
/// assert_eq!(policy.rules.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct PolicyBuilder {
    rules: Vec<RuleFile>,
    /// Options that stand before the first rule.
    stray: Vec<&'static str>,
}

impl PolicyBuilder {
    /// Appends a rule that allows these tools: a name, `server/*` or `*`.
    pub fn allow(self, tool: &str) -> Self {
        self.rule(RuleFile::new(tool, Word::Allow, None))
    }

    /// Appends a rule that requires a person's approval for each call of these tools.
    pub fn ask_human(self, tool: &str, reason: impl Into<String>) -> Self {
        self.rule(RuleFile::new(tool, Word::AskHuman, Some(reason.into())))
    }

    /// Appends a rule that denies these tools.
    pub fn deny(self, tool: &str, reason: impl Into<String>) -> Self {
        self.rule(RuleFile::new(tool, Word::Deny, Some(reason.into())))
    }

    /// Limits the last rule to calls for which this expression in CEL holds. Its variables are
    /// `args`, `tool`, `server`, `effect` and `principal`.
    pub fn when(self, condition: impl Into<String>) -> Self {
        self.change_last("when", |rule| rule.when = Some(condition.into()))
    }

    /// Limits the last rule to tools with this effect.
    pub fn effect(self, effect: Effect) -> Self {
        self.change_last("effect", |rule| rule.effect = Some(effect))
    }

    /// Limits the last rule to calls for this subject of a principal.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        self.change_last("subject", |rule| rule.subject = Some(subject.into()))
    }

    /// Requires of calls that the last rule allows that this tool has succeeded in the run. The rule
    /// may have several such requirements.
    pub fn after(self, tool: impl Into<String>) -> Self {
        self.change_last("after", |rule| rule.after.push(AfterFile::Tool(tool.into())))
    }

    /// As [`after`](Self::after), with equal arguments in both calls.
    pub fn after_same<N: Into<String>>(
        self,
        tool: impl Into<String>,
        args: impl IntoIterator<Item = N>,
    ) -> Self {
        let same = args.into_iter().map(Into::into).collect();
        let earlier = SameFile { tool: tool.into(), same };
        self.change_last("after", |rule| rule.after.push(AfterFile::Same(earlier)))
    }

    /// Limits the number of calls of the tool in a run.
    pub fn calls_per_run(self, max: u32) -> Self {
        self.change_last("calls_per_run", |rule| rule.calls_per_run = Some(max))
    }

    /// Limits the number of calls of the tool that this process makes at once. Others wait.
    pub fn at_once(self, max: u32) -> Self {
        self.change_last("at_once", |rule| rule.at_once = Some(max))
    }

    /// Sets the time that a person has to decide about a call, rounded up to whole seconds. After it
    /// the call counts as rejected.
    pub fn expires_after(self, time: Duration) -> Self {
        let seconds = time.as_millis().div_ceil(1_000);
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        self.change_last("expires_after_s", |rule| rule.expires_after_s = Some(seconds))
    }

    /// Repeats calls that failed because the tool was not available. The tools must only read or be
    /// idempotent. Delays count in whole milliseconds.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.change_last("retry", |rule| rule.retry = Some(RetryFile::from(&policy)))
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// [`ToolBoxErrors`] with a problem of each invalid rule, which names its place, such as
    /// `rules[1].when`.
    pub fn build(self) -> Result<Policy, ToolBoxErrors> {
        let stray = self.stray.into_iter();
        let mut problems: Vec<_> =
            stray.map(|option| ToolBoxError::OptionWithoutRule { option }).collect();
        let mut rules = Vec::new();
        for (at, rule) in self.rules.into_iter().enumerate() {
            match rule.into_rule(&format!("rules[{at}]")) {
                Ok(rule) => rules.push(rule),
                Err(problem) => problems.push(problem),
            }
        }
        ToolBoxErrors::unless_empty(problems)?;
        Ok(Policy { rules, ..Policy::default() })
    }

    fn rule(mut self, rule: RuleFile) -> Self {
        self.rules.push(rule);
        self
    }

    fn change_last(mut self, option: &'static str, change: impl FnOnce(&mut RuleFile)) -> Self {
        match self.rules.last_mut() {
            Some(rule) => change(rule),
            None => self.stray.push(option),
        }
        self
    }
}
