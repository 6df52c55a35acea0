//! The operator's rules for tools, from a file of its own.

use super::{Setting, Surroundings};
use crate::Error;
use std::path::PathBuf;
use weftwork_tools::{API_TOOLS, Policy, SharedRules, ToolPattern};

/// The rules of an operator.
#[derive(Debug, Clone)]
pub struct ToolRules {
    /// The file: TOML, or JSON if its name ends with `.json`.
    pub file: Setting<PathBuf>,
    rules: SharedRules,
}

impl ToolRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`] and [`Error::ConfigInvalid`].
    pub(super) fn read(
        setting: Setting<String>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        let path = super::located(&setting.value, &setting.origin, surroundings)?;
        let text = std::fs::read_to_string(&path).map_err(|error| Error::ConfigUnreadable {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let invalid = |line, reason| Error::ConfigInvalid { path: path.clone(), line, reason };
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let policy: Policy = if is_json {
            serde_json::from_str(&text)
                .map_err(|error| invalid(error.line().max(1), error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error: toml::de::Error| {
                let start = error.span().map_or(0, |span| span.start);
                let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
                invalid(line, error.message().to_owned())
            })?
        };
        let file = Setting { value: path, origin: setting.origin };
        Ok(Self { file, rules: SharedRules::new(policy) })
    }

    /// The rules, for each agent. They decide before the agent's own ones with [`Policy::then`].
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.rules.policy()
    }

    /// Checks that each tool that a rule names is one of an agent that was built with the rules, or of an
    /// API agent: these are built when they are first asked.
    ///
    /// # Errors
    /// [`Error::Rules`] with all rules whose tool does not exist.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |source| Error::Rules { path: self.file.value.clone(), source };
        self.rules.check(|tool| tool.starts_with(API_TOOLS)).map_err(wrong)
    }

    /// Patterns of several tools that match none of the agents that were built with the rules.
    #[must_use]
    pub fn patterns_without_tools(&self) -> Vec<ToolPattern> {
        self.rules.patterns_without_tools()
    }
}
