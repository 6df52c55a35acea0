//! The tool policy: data that decides which tools may run, and denies by default.

mod builder;
mod condition;
mod file;
mod requirement;
mod retry;
mod shared;

pub use builder::PolicyBuilder;
pub use condition::Condition;
pub use requirement::{After, Requirements};
pub use shared::SharedRules;

use crate::{ToolBox, ToolBoxError, ToolBoxErrors, name};
use file::{PolicyFile, RuleFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::Scope;
use std::collections::BTreeSet;
use std::time::Duration;
use weftwork_types::Principal;
use weftwork_types::retry::RetryPolicy;
use weftwork_types::tool::{Effect, Permission, ToolSpec};

/// Rules for tool calls. The first rule that matches decides.
///
/// If no rule matches, the program's own read-only tools are allowed and everything else is denied.
/// A rule names a tool that exists: one with another name is an error where tools and policy meet,
/// in [`ToolRunner::new`](crate::ToolRunner::new), because a misspelt `deny` would let the tool run.
/// Rules that several agents have are [`SharedRules`].
///
/// A program writes the rules with a [`builder`](Self::builder):
///
/// ```
/// use weftwork_tools::{Policy, ToolBox, ToolRunner, tool};
///
/// /// Refunds an order.
/// #[tool(effect = external_side_effect, on_unknown = idempotent)]
/// fn refund(order: String, euros: u32) -> String {
///     format!("refunded {euros} for {order}")
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::builder()
///     .ask_human("refund", "it moves money")
///     .when("args.euros > 50")
///     .allow("refund")
///     .build()?;
/// ToolRunner::new(ToolBox::new().with(refund), policy)?;
///
/// let wrong = Policy::builder().allow("refund").when("arg.euros > 50").build();
/// let problem = "`rules[0].when`: expected one of args, tool, server, effect, principal, found `arg`";
/// assert!(wrong.unwrap_err().to_string().contains(problem));
/// # Ok(())
/// # }
/// ```
///
/// In a file:
///
/// ```
/// # let text = r#"
/// version = 1
///
/// [[rules]]
/// tool = "refund_order"
/// when = "args.amount > 50.0 && principal.subject != 'lead'"
/// decision = "ask_human"
/// reason = "it moves money"
/// after = ["lookup_order"]
/// calls_per_run = 3
///
/// [[rules]]
/// tool = "files/*"
/// effect = "read_only"
/// decision = "allow"
/// # "#;
/// # let policy: weftwork_tools::Policy = toml::from_str(text).expect("a policy");
/// # assert_eq!(policy.rules.len(), 2);
/// ```
///
/// A condition is an expression in CEL with the variables `args`, `tool`, `server`, `effect` and
/// `principal` (`org`, `subject`). If it has no truth value for a call, for example because a member
/// is missing, the call is denied; `has(args.x)` tests for a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PolicyFile", into = "PolicyFile")]
pub struct Policy {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Rules that ask a person where the others allow the call, or do not name it.
    pub confirmed: Vec<Rule>,
}

/// A policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RuleFile", into = "RuleFile")]
pub struct Rule {
    /// The tools that the rule applies to.
    pub tool: ToolPattern,
    /// If set, the rule applies only to tools with this effect.
    pub effect: Option<Effect>,
    /// If set, the rule applies only to calls for this subject of a principal.
    pub subject: Option<String>,
    /// If set, the rule applies only to calls for which the condition holds.
    pub when: Option<Condition>,
    /// The decision for matching calls.
    pub decision: Decision,
    /// Requirements of an allowed call on the earlier calls of the run.
    pub requires: Requirements,
    /// Time that a person has to decide; after it the call counts as rejected. In a file, whole
    /// seconds.
    pub expires_after: Option<Duration>,
    /// Repetition of allowed calls that failed because the tool was not available. Only tools that
    /// read or are idempotent can have it.
    pub retry: Option<RetryPolicy>,
    tools_in: Scope,
}

/// A call as a policy sees it. Its arguments satisfy the tool's schema and include secret ones.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCall<'a> {
    /// The tool.
    pub spec: &'a ToolSpec,
    /// The arguments.
    pub args: &'a Value,
    /// The principal of the run.
    pub principal: &'a Principal,
}

/// The decision about a call, with the requirements that the call has to fulfil before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// The requirements of an allowed call.
    pub requires: Requirements,
    /// Time that a person has to decide, if one is asked.
    pub expires_after: Option<Duration>,
    /// Repetition of the call if it fails because the tool is not available.
    pub retry: Option<RetryPolicy>,
}

impl From<Decision> for Ruling {
    fn from(decision: Decision) -> Self {
        Self { decision, requires: Requirements::default(), expires_after: None, retry: None }
    }
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
            Some(server) if name::is_server_name(server) => Ok(Self::Server(server.to_owned())),
            // A part of a name with `*` would look like a pattern and match nothing.
            None if !text.contains('*') && name::wire_name(text).is_ok() => {
                Ok(Self::One(text.to_owned()))
            }
            _ => Err(ToolBoxError::Rule {
                tool: text.chars().take(80).collect(),
                detail: "expected a tool's name such as `refund_order` or `server/tool`, all tools of a server as `server/*`, or `*`".to_owned(),
            }),
        }
    }

    /// The tool, if the pattern is the name of one.
    fn one(&self) -> Option<&str> {
        match self {
            Self::One(name) => Some(name),
            Self::All | Self::Server(_) => None,
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

/// Returns the decision about a call that no rule names.
fn decide_without_rule(spec: &ToolSpec) -> Ruling {
    if allowed_without_rule(spec) {
        return Decision::Allow.into();
    }
    let effect = effect_name(spec.effect);
    Decision::Deny {
        reason: format!(
            "no policy rule names it and its effect is `{effect}`; the operator can add a rule that allows or asks"
        ),
    }
    .into()
}

impl Policy {
    /// Creates a policy without rules: only the program's own read-only tools are allowed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a builder, in which rules have conditions and other options.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Appends a rule that allows these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn allow(self, tool: &str) -> Result<Self, ToolBoxError> {
        self.with_rule(tool, Decision::Allow)
    }

    /// Appends a rule that requires a person's approval for each call of these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn ask_human(self, tool: &str, reason: impl Into<String>) -> Result<Self, ToolBoxError> {
        self.with_rule(tool, Decision::AskHuman { reason: reason.into() })
    }

    /// Appends a rule that denies these tools.
    ///
    /// # Errors
    /// See [`ToolPattern::new`].
    pub fn deny(self, tool: &str, reason: impl Into<String>) -> Result<Self, ToolBoxError> {
        self.with_rule(tool, Decision::Deny { reason: reason.into() })
    }

    /// Appends the rules of another policy, which decide if no rule of this one matches.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self.confirmed.extend(other.confirmed);
        self
    }

    /// Adds rules that ask a person before calls which this policy allows, or which none of its rules
    /// names. What it denies stays denied.
    #[must_use]
    pub fn confirmed_by(mut self, questions: Self) -> Self {
        self.confirmed.extend(questions.rules);
        self
    }

    /// Returns the rules that apply to some of these tools. The rest is for tools that the program
    /// offers at other times.
    #[must_use]
    pub fn for_tools(&self, tools: &ToolBox) -> Self {
        let applies = |rule: &&Rule| tools.names().any(|name| rule.tool.fits(name));
        let of = |rules: &[Rule]| rules.iter().filter(applies).cloned().collect();
        Self { rules: of(&self.rules), confirmed: of(&self.confirmed) }
    }

    /// Checks that each tool that a rule names is one of `known`, apart from rules that are
    /// [shared](SharedRules).
    ///
    /// # Errors
    /// [`ToolBoxErrors`] with all rules whose tool does not exist.
    pub fn check_tools(&self, known: &BTreeSet<&str>) -> Result<(), ToolBoxErrors> {
        ToolBoxErrors::unless_empty(self.unknown_tools(known))
    }

    /// Checks the rules against the tools that they are for.
    pub(crate) fn problems(&self, tools: &ToolBox) -> Vec<ToolBoxError> {
        self.rules.iter().for_each(|rule| rule.tools_in.note(tools));
        let mut problems = self.unknown_tools(&tools.names().collect());
        problems.extend(self.unsafe_retries(tools));
        problems
    }

    fn unknown_tools(&self, known: &BTreeSet<&str>) -> Vec<ToolBoxError> {
        let own = self.rules.iter().filter(|rule| rule.tools_in == Scope::Own);
        own.filter_map(|rule| unknown(rule.tool.one()?, known)).collect()
    }

    fn with_rule(mut self, tool: &str, decision: Decision) -> Result<Self, ToolBoxError> {
        self.rules.push(Rule::new(ToolPattern::new(tool)?, decision));
        Ok(self)
    }

    /// Returns the decision about a call.
    #[must_use]
    pub fn decide(&self, call: PolicyCall<'_>) -> Ruling {
        let found = self.decide_by_rules(call);
        let Some(question) = self.confirmed.iter().find(|rule| rule.names(&call)) else {
            return found.unwrap_or_else(|| decide_without_rule(call.spec));
        };
        match found {
            None => question.decision.clone().into(),
            Some(Ruling { decision: Decision::Allow, requires, expires_after, retry }) => {
                Ruling { decision: question.decision.clone(), requires, expires_after, retry }
            }
            Some(other) => other,
        }
    }

    /// Returns the decision of the first rule that applies; `None` if none does.
    fn decide_by_rules(&self, call: PolicyCall<'_>) -> Option<Ruling> {
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.names(&call)) {
            match rule.when.as_ref().map_or(Ok(true), |when| when.holds(&call)) {
                Ok(false) => {}
                Ok(true) => {
                    let decision = rule.decision.clone();
                    let requires = rule.requires.clone();
                    let expires_after = rule.expires_after;
                    let retry = rule.retry.clone();
                    return Some(Ruling { decision, requires, expires_after, retry });
                }
                Err(_) => {
                    let reason = format!(
                        "the condition of rule {} has no truth value for these arguments",
                        at + 1
                    );
                    return Some(Decision::Deny { reason }.into());
                }
            }
        }
        None
    }

    /// Returns the decision about all calls of a tool, as far as it can be known without a call.
    pub(crate) fn permission(&self, spec: &ToolSpec) -> Permission {
        let question = self.confirmed.iter().find(|rule| rule.may_name(spec));
        let found = match self.rules.iter().find(|rule| rule.may_name(spec)) {
            Some(rule) => rule.permission(),
            None if allowed_without_rule(spec) || question.is_some() => Permission::Allowed,
            None => Permission::Denied,
        };
        match question {
            Some(question) if found == Permission::Allowed => question.permission(),
            _ => found,
        }
    }

    /// Returns the arguments of this tool that rules compare with those of later calls; `None` if
    /// no rule refers to earlier calls of the tool.
    pub(crate) fn compared_args(&self, tool: &str) -> Option<Vec<&str>> {
        let rules = self.rules.iter().flat_map(|rule| &rule.requires.after);
        let mut found = rules.filter(|after| after.tool == tool).peekable();
        found.peek()?;
        Some(found.flat_map(|after| &after.same).map(String::as_str).collect())
    }
}

impl Rule {
    /// Returns the decision about all calls of a tool that the rule names, as far as it can be known
    /// without a call.
    fn permission(&self) -> Permission {
        match &self.decision {
            _ if self.when.is_some() || self.subject.is_some() => Permission::Depends,
            Decision::Allow => Permission::Allowed,
            Decision::AskHuman { reason } => Permission::Asks { reason: reason.clone() },
            Decision::Deny { .. } => Permission::Denied,
        }
    }

    /// Creates a rule for all calls of these tools.
    #[must_use]
    pub fn new(tool: ToolPattern, decision: Decision) -> Self {
        let requires = Requirements::default();
        Self {
            tool,
            effect: None,
            subject: None,
            when: None,
            decision,
            requires,
            expires_after: None,
            retry: None,
            tools_in: Scope::Own,
        }
    }

    /// Returns `true` if the rule applies to the call, apart from its condition.
    fn names(&self, call: &PolicyCall<'_>) -> bool {
        self.may_name(call.spec)
            && self.subject.as_ref().is_none_or(|subject| *subject == call.principal.subject)
    }

    /// Returns `true` if the rule applies to some calls of the tool.
    fn may_name(&self, spec: &ToolSpec) -> bool {
        self.tool.fits(&spec.name) && self.effect.is_none_or(|effect| effect == spec.effect)
    }
}

/// Returns `true` for a tool whose calls are made if no rule names it: one of the program that only
/// reads.
fn allowed_without_rule(spec: &ToolSpec) -> bool {
    name::server(&spec.name).is_none() && spec.effect == Effect::ReadOnly
}

/// Returns the problem of a rule for a tool that is not known.
fn unknown(tool: &str, known: &BTreeSet<&str>) -> Option<ToolBoxError> {
    let near = || name::nearest(tool, known.iter().copied());
    (!known.contains(tool)).then(|| ToolBoxError::RuleWithoutTool {
        tool: tool.to_owned(),
        nearest: near().map(str::to_owned),
    })
}

fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "read_only",
        Effect::StateChange => "state_change",
        Effect::ExternalSideEffect => "external_side_effect",
    }
}

#[cfg(test)]
mod tests;
