//! Rules that several agents have, each with some of the tools.

use super::{Policy, ToolPattern};
use crate::{ToolBox, ToolBoxErrors};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the tools of the agents that were built with some rules.
type Tools = Arc<Mutex<BTreeSet<String>>>;

/// Place where the tool of a rule must exist.
#[derive(Debug, Clone, Default)]
pub(super) enum Scope {
    /// Among the tools that the policy is for.
    #[default]
    Own,
    /// Among the tools of one of the agents that have the rule.
    Shared(Tools),
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        matches!(self, Self::Own) == matches!(other, Self::Own)
    }
}

impl Eq for Scope {}

impl Scope {
    /// Notes the tools of an agent that has a shared rule.
    pub(super) fn note(&self, tools: &ToolBox) {
        if let Self::Shared(seen) = self {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(tools.names().map(str::to_owned));
        }
    }
}

/// Rules for several agents, such as those of an operator's file: each agent may lack some of the
/// tools. A program builds its agents with [`policy`](Self::policy), and then [`check`](Self::check)s
/// that every rule has a tool.
///
/// ```
/// use weftwork_tools::{Policy, SharedRules, ToolBox, ToolRunner, tool};
///
/// /// Deletes all orders.
/// #[tool(effect = state_change)]
/// fn delete_orders() {}
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = SharedRules::new(Policy::new().deny("delete_order", "it is for ever")?);
/// let shop = ToolRunner::new(ToolBox::new().with(delete_orders), rules.policy())?;
/// let clock = ToolRunner::new(ToolBox::new(), rules.policy())?;
/// assert!(rules.check(|_| false).unwrap_err().to_string().contains("did you mean `delete_orders`?"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SharedRules {
    policy: Policy,
    tools: Tools,
}

impl SharedRules {
    /// Shares the rules of a policy.
    #[must_use]
    pub fn new(mut policy: Policy) -> Self {
        let tools = Tools::default();
        for rule in &mut policy.rules {
            rule.tools_in = Scope::Shared(Arc::clone(&tools));
        }
        Self { policy, tools }
    }

    /// The rules, for each of the agents.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// Checks that each tool that a rule names is one of an agent that was built with the rules, or one
    /// for which `comes_later` returns `true`.
    ///
    /// # Errors
    /// [`ToolBoxErrors`] with all rules whose tool does not exist.
    pub fn check(&self, comes_later: impl Fn(&str) -> bool) -> Result<(), ToolBoxErrors> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeSet<&str> = tools.iter().map(String::as_str).collect();
        let named = self.policy.rules.iter().flat_map(|rule| {
            let own = rule.tool.one();
            own.into_iter().chain(rule.requires.after.iter().map(|after| after.tool.as_str()))
        });
        let named = named.filter(|name| !comes_later(name));
        let problems = named.filter_map(|name| super::unknown(name, &known)).collect();
        ToolBoxErrors::unless_empty(problems)
    }

    /// Patterns of several tools that match none of the agents that were built with the rules.
    #[must_use]
    pub fn patterns_without_tools(&self) -> Vec<ToolPattern> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let patterns = self.policy.rules.iter().map(|rule| &rule.tool);
        let of_several = patterns.filter(|pattern| pattern.one().is_none());
        of_several.filter(|pattern| !tools.iter().any(|tool| pattern.fits(tool))).cloned().collect()
    }
}
