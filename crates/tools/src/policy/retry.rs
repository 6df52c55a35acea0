//! Retries of failed calls as part of a rule.

use super::Policy;
use crate::{ToolBox, ToolBoxError};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weftwork_types::retry::RetryPolicy;
use weftwork_types::tool::ToolSpec;

/// The form of retries in files. Members that are left out are those of [`RetryPolicy::default`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryFile {
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_max_ms: Option<u64>,
}

impl TryFrom<RetryFile> for RetryPolicy {
    /// The member, and the expected and found values.
    type Error = (&'static str, String);

    fn try_from(file: RetryFile) -> Result<Self, Self::Error> {
        if file.attempts == 0 {
            return Err(("attempts", "expected 1 or more, found 0".to_owned()));
        }
        let default = Self::default();
        let duration = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        Ok(Self {
            attempts_max: file.attempts,
            backoff_first: duration(file.backoff_ms, default.backoff_first),
            backoff_max: duration(file.backoff_max_ms, default.backoff_max),
            retry_after_max: duration(file.retry_after_max_ms, default.retry_after_max),
        })
    }
}

impl From<&RetryPolicy> for RetryFile {
    fn from(policy: &RetryPolicy) -> Self {
        let default = RetryPolicy::default();
        let ms = |value: Duration, default: Duration| {
            (value != default).then(|| u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
        };
        Self {
            attempts: policy.attempts_max,
            backoff_ms: ms(policy.backoff_first, default.backoff_first),
            backoff_max_ms: ms(policy.backoff_max, default.backoff_max),
            retry_after_max_ms: ms(policy.retry_after_max, default.retry_after_max),
        }
    }
}

impl Policy {
    /// Returns the tools whose calls a rule would repeat although a repetition may do harm.
    pub(super) fn unsafe_retries(&self, tools: &ToolBox) -> Vec<ToolBoxError> {
        let specs = tools.specs().filter(|spec| !spec.may_repeat());
        specs.filter_map(|spec| self.unsafe_retry(spec)).collect()
    }

    fn unsafe_retry(&self, spec: &ToolSpec) -> Option<ToolBoxError> {
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.may_name(spec)) {
            if rule.retry.is_some() {
                return Some(ToolBoxError::Rule {
                    tool: rule.tool.to_string(),
                    detail: format!(
                        "`rules[{at}].retry`: expected tools that only read or are idempotent, found `{}`, whose effect could happen twice; remove `retry`, limit the rule with `effect = \"read_only\"`, or declare `on_unknown = idempotent` if the receiver recognises the idempotency key",
                        spec.name
                    ),
                });
            }
            // A rule without conditions decides about all calls of the tool.
            if rule.when.is_none() && rule.subject.is_none() {
                return None;
            }
        }
        None
    }
}
