//! The tool policy: data that decides which tools may run, and denies by default.

use crate::{ToolBoxError, name};
use serde::{Deserialize, Serialize};
use weftwork_types::tool::{Effect, ToolSpec};

/// Rules for tool calls. The first rule that matches decides.
///
/// If no rule matches, the program's own read-only tools are allowed and everything else is denied.
/// In a file:
///
/// ```
/// # let text = r#"
/// [[rules]]
/// tool = "refund_order"
/// decision = "ask_human"
/// reason = "it moves money"
///
/// [[rules]]
/// tool = "files/*"
/// effect = "read_only"
/// decision = "allow"
/// # "#;
/// # let policy: weftwork_tools::Policy = toml::from_str(text).expect("a policy");
/// # assert_eq!(policy.rules.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The rules.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RuleFile", into = "RuleFile")]
pub struct Rule {
    /// The tools that the rule applies to.
    pub tool: ToolPattern,
    /// If set, the rule applies only to tools with this effect.
    pub effect: Option<Effect>,
    /// The decision for matching calls.
    pub decision: Decision,
}

/// The decision of a rule about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Allow,
    /// A person is asked each time, and the approval is valid only for these arguments.
    AskHuman {
        /// The reason, shown to the person.
        reason: String,
    },
    /// The call must not run.
    Deny {
        /// The reason, shown to the model and the person.
        reason: String,
    },
}

/// The tools of a rule: one canonical name, all tools of a server (`server/*`), or all tools (`*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPattern {
    /// All tools.
    All,
    /// All tools of a server.
    Server(String),
    /// The tool with this canonical name.
    One(String),
}

impl ToolPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ToolBoxError::Rule`] if the text is not a canonical name, `server/*` or `*`.
    pub fn new(text: &str) -> Result<Self, ToolBoxError> {
        if text == "*" {
            return Ok(Self::All);
        }
        match text.strip_suffix("/*") {
            Some(server) if name::is_part(server) => Ok(Self::Server(server.to_owned())),
            None if name::wire_name(text).is_ok() => Ok(Self::One(text.to_owned())),
            _ => Err(ToolBoxError::Rule {
                tool: text.chars().take(80).collect(),
                detail: "expected a tool's name such as `refund_order` or `server/tool`, all tools of a server as `server/*`, or `*`".to_owned(),
            }),
        }
    }

    fn fits(&self, canonical: &str) -> bool {
        match self {
            Self::All => true,
            Self::Server(server) => name::server(canonical) == Some(server.as_str()),
            Self::One(name) => name == canonical,
        }
    }
}

impl std::fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Server(server) => write!(f, "{server}/*"),
            Self::One(name) => f.write_str(name),
        }
    }
}

impl Policy {
    /// Creates a policy without rules: only the program's own read-only tools are allowed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a rule that allows these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn allow(self, tool: &str) -> Result<Self, ToolBoxError> {
        self.with(tool, Decision::Allow)
    }

    /// Appends a rule that requires a person's approval for each call of these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn ask_human(self, tool: &str, reason: impl Into<String>) -> Result<Self, ToolBoxError> {
        self.with(tool, Decision::AskHuman { reason: reason.into() })
    }

    /// Appends a rule that denies these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn deny(self, tool: &str, reason: impl Into<String>) -> Result<Self, ToolBoxError> {
        self.with(tool, Decision::Deny { reason: reason.into() })
    }

    fn with(mut self, tool: &str, decision: Decision) -> Result<Self, ToolBoxError> {
        self.rules.push(Rule { tool: ToolPattern::new(tool)?, effect: None, decision });
        Ok(self)
    }

    /// Returns the decision for calls of a tool.
    #[must_use]
    pub fn decide(&self, spec: &ToolSpec) -> Decision {
        let fits = |rule: &&Rule| {
            rule.tool.fits(&spec.name) && rule.effect.is_none_or(|effect| effect == spec.effect)
        };
        if let Some(rule) = self.rules.iter().find(fits) {
            return rule.decision.clone();
        }
        if name::server(&spec.name).is_none() && spec.effect == Effect::ReadOnly {
            return Decision::Allow;
        }
        Decision::Deny {
            reason: format!(
                "no policy rule names it and its effect is `{}`; the operator can add a rule that allows or asks",
                effect_name(spec.effect)
            ),
        }
    }
}

fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "read_only",
        Effect::StateChange => "state_change",
        Effect::ExternalSideEffect => "external_side_effect",
    }
}

/// The form of a rule in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    decision: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Allow,
    AskHuman,
    Deny,
}

impl TryFrom<RuleFile> for Rule {
    type Error = ToolBoxError;

    fn try_from(file: RuleFile) -> Result<Self, ToolBoxError> {
        let bad = |detail: &str| ToolBoxError::Rule {
            tool: file.tool.chars().take(80).collect(),
            detail: detail.to_owned(),
        };
        let decision = match (file.decision, file.reason) {
            (Word::Allow, None) => Decision::Allow,
            (Word::Allow, Some(_)) => {
                return Err(bad("`allow` takes no `reason`; use a comment instead"));
            }
            (Word::AskHuman, Some(reason)) => Decision::AskHuman { reason },
            (Word::Deny, Some(reason)) => Decision::Deny { reason },
            (Word::AskHuman, None) => {
                return Err(bad("`ask_human` needs a `reason`; the person who is asked reads it"));
            }
            (Word::Deny, None) => {
                return Err(bad("`deny` needs a `reason`; the model that is refused reads it"));
            }
        };
        Ok(Self { tool: ToolPattern::new(&file.tool)?, effect: file.effect, decision })
    }
}

impl From<Rule> for RuleFile {
    fn from(rule: Rule) -> Self {
        let (decision, reason) = match rule.decision {
            Decision::Allow => (Word::Allow, None),
            Decision::AskHuman { reason } => (Word::AskHuman, Some(reason)),
            Decision::Deny { reason } => (Word::Deny, Some(reason)),
        };
        Self { tool: rule.tool.to_string(), effect: rule.effect, decision, reason }
    }
}

#[cfg(test)]
mod tests;
