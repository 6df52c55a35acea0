//! The form of policies in files.

use super::requirement::{After, AfterFile};
use super::retry::RetryFile;
use super::shared::Scope;
use super::{Condition, Decision, Policy, Requirements, Rule, ToolPattern};
use crate::ToolBoxError;
use crate::error::cut;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weftwork_types::retry::RetryPolicy;
use weftwork_types::tool::Effect;

/// The newest version of the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(default)]
    rules: Vec<RuleFile>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    pub(super) tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<Effect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<String>,
    pub(super) decision: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<AfterFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) calls_per_run: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at_once: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_after_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<RetryFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Allow,
    AskHuman,
    Deny,
}

impl TryFrom<PolicyFile> for Policy {
    type Error = ToolBoxError;

    fn try_from(file: PolicyFile) -> Result<Self, ToolBoxError> {
        if let Some(found) = file.version.filter(|version| *version != VERSION) {
            return Err(ToolBoxError::PolicyVersion { found, known: VERSION });
        }
        let rules = file.rules.into_iter().enumerate();
        let rules = rules.map(|(at, rule)| rule.into_rule(&format!("rules[{at}]")));
        Ok(Self { rules: rules.collect::<Result<_, _>>()?, ..Self::default() })
    }
}

impl From<Policy> for PolicyFile {
    fn from(policy: Policy) -> Self {
        let rules = policy.rules.into_iter().map(RuleFile::from).collect();
        Self { version: None, rules }
    }
}

impl TryFrom<RuleFile> for Rule {
    type Error = ToolBoxError;

    fn try_from(file: RuleFile) -> Result<Self, ToolBoxError> {
        file.into_rule("rule")
    }
}

impl RuleFile {
    /// Creates a rule without options.
    pub(super) fn new(tool: &str, decision: Word, reason: Option<String>) -> Self {
        Self {
            tool: tool.to_owned(),
            effect: None,
            subject: None,
            when: None,
            decision,
            reason,
            after: Vec::new(),
            calls_per_run: None,
            at_once: None,
            expires_after_s: None,
            retry: None,
        }
    }

    /// Checks a rule; `at` is its place in the policy.
    pub(super) fn into_rule(self, at: &str) -> Result<Rule, ToolBoxError> {
        let tool = cut(&self.tool, 80);
        let bad = |member: &str, detail: String| ToolBoxError::Rule {
            tool: tool.clone(),
            detail: format!("`{at}.{member}`: {detail}"),
        };
        let decision = decision(self.decision, self.reason)
            .map_err(|detail| bad("reason", detail.to_owned()))?;
        let when = self.when.as_deref().map(Condition::new).transpose();
        let after = self.after.into_iter().map(After::try_from).collect::<Result<_, _>>();
        let requires = Requirements {
            after: after.map_err(|detail| bad("after", detail))?,
            calls_per_run: self.calls_per_run,
            at_once: self.at_once,
        };
        if requires.at_once == Some(0) {
            return Err(bad("at_once", "expected 1 or more, found 0".to_owned()));
        }
        if self.decision == Word::Deny && !requires.is_empty() {
            let detail = "expected `after`, `calls_per_run` and `at_once` only with `allow` or `ask_human`, found `deny`";
            return Err(bad("decision", detail.to_owned()));
        }
        if self.expires_after_s.is_some() && self.decision != Word::AskHuman {
            let detail = "expected only with `ask_human`: it is the time to decide";
            return Err(bad("expires_after_s", detail.to_owned()));
        }
        if self.expires_after_s == Some(0) {
            return Err(bad("expires_after_s", "expected 1 or more, found 0".to_owned()));
        }
        if self.retry.is_some() && self.decision == Word::Deny {
            let detail = "expected only with `allow` or `ask_human`, found `deny`";
            return Err(bad("retry", detail.to_owned()));
        }
        let retry = self.retry.map(RetryPolicy::try_from).transpose();
        Ok(Rule {
            expires_after: self.expires_after_s.map(|s| Duration::from_secs(s.into())),
            retry: retry.map_err(|(member, detail)| bad(&format!("retry.{member}"), detail))?,
            when: when.map_err(|detail| bad("when", detail))?,
            tool: ToolPattern::new(&self.tool).map_err(|error| match error {
                ToolBoxError::Rule { detail, .. } => bad("tool", detail),
                other => other,
            })?,
            effect: self.effect,
            subject: self.subject,
            decision,
            requires,
            tools_in: Scope::Own,
        })
    }
}

fn decision(word: Word, reason: Option<String>) -> Result<Decision, &'static str> {
    match (word, reason) {
        (Word::Allow, None) => Ok(Decision::Allow),
        (Word::Allow, Some(_)) => Err("`allow` takes no `reason`; use a comment instead"),
        (Word::AskHuman, Some(reason)) => Ok(Decision::AskHuman { reason }),
        (Word::Deny, Some(reason)) => Ok(Decision::Deny { reason }),
        (Word::AskHuman, None) => {
            Err("`ask_human` needs a `reason`; the person who is asked reads it")
        }
        (Word::Deny, None) => Err("`deny` needs a `reason`; the model that is refused reads it"),
    }
}

impl From<Rule> for RuleFile {
    fn from(rule: Rule) -> Self {
        let (decision, reason) = match rule.decision {
            Decision::Allow => (Word::Allow, None),
            Decision::AskHuman { reason } => (Word::AskHuman, Some(reason)),
            Decision::Deny { reason } => (Word::Deny, Some(reason)),
        };
        Self {
            tool: rule.tool.to_string(),
            effect: rule.effect,
            subject: rule.subject,
            when: rule.when.map(|when| when.to_string()),
            decision,
            reason,
            after: rule.requires.after.into_iter().map(AfterFile::from).collect(),
            calls_per_run: rule.requires.calls_per_run,
            at_once: rule.requires.at_once,
            expires_after_s: rule
                .expires_after
                .map(|after| u32::try_from(after.as_secs()).unwrap_or(u32::MAX)),
            retry: rule.retry.as_ref().map(RetryFile::from),
        }
    }
}
