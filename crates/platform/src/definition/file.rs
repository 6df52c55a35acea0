//! The keys of a definition.

use super::openapi::operation_tool;
use super::outline::{AskedAgent, agents_of};
use super::source::{Source, SourceKind, parse_duration};
use super::steps::{OrchestrationMode, OrchestrationStep};
use super::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::time::Duration;
use weftwork_types::port::Limits;
use weftwork_types::task::Mode;

/// Number of agents that may ask one another, if a definition names none.
const DEPTH_MAX: u32 = 3;

/// The definition of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Number of this file's format.
    #[serde(default = "format")]
    #[schemars(range(min = 1, max = 1))]
    pub weft: u32,
    /// Name of the agent within its organisation; by default the name of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"), length(max = 64))]
    pub slug: Option<String>,
    /// Organisation that the agent belongs to. An agent without one is for all organisations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub organization: Option<String>,
    /// Version of the agent, as semver has it, such as `1.2.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Type of the agent, which decides how it builds.
    #[serde(rename = "type")]
    pub agent_type: AgentType,
    /// Card of the agent, as A2A has it, with the modes of the agent.
    #[serde(default)]
    pub agent_card: AgentCard,
    /// Context and instructions as Markdown; also a file `context.md` beside the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Code of a function agent: `async function handler(input, ctx)`; also a file `function.js`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_code: Option<String>,
    /// MCP tools, each as `server/tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), inner(regex(pattern = r"^[^\s/]+/[^\s/]+$")))]
    pub tools: Option<Vec<String>>,
    /// Order of several calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_mode: Option<ToolMode>,
    /// OpenAPI file beside the definition, in JSON or YAML. Its operations are called at
    /// `transport.api.endpoint`, wherever its `servers` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub openapi: Option<String>,
    /// Operations of the OpenAPI file that become tools, by their `operationId`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 128), inner(length(min = 1, max = 200)))]
    pub operations: Vec<String>,
    /// Form of the request that is sent to an API: a mapping, a text with placeholders, or `{jq: PROGRAM}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_transform: Option<Json>,
    /// Form of the deliverable made of the answer of an API, of the same kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_transform: Option<Json>,
    /// Way to what executes the agent outside this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Model; by default that of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    /// Models that are tried in this order when the first one fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub fallback: Vec<Llm>,
    /// Limits of an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Form of the plans of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Form of the deliverables of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliverable: Option<Deliverable>,
    /// Orchestration of other agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Orchestration>,
    /// Choice whether a build asks the agent of `subAgentSlug` first.
    #[serde(default, rename = "requiresSubAgents", skip_serializing_if = "Option::is_none")]
    pub requires_sub_agents: Option<bool>,
    /// Agent whose result is a part of the context.
    #[serde(default, rename = "subAgentSlug", skip_serializing_if = "Option::is_none")]
    pub sub_agent_slug: Option<String>,
    /// JSON Schema of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Map<String, Json>>,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Json>>,
    /// Folders with a `SKILL.md` each, which is read when it is needed. Their scripts never run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 200)))]
    pub skills: Vec<String>,
    /// Sources of the context of a build. The context is cut in their order; by default `markdown`,
    /// `plan`, `sub_agent`, `steps`, `deliverables` and `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub sources: Option<Vec<Source>>,
    /// Maximum number of tokens of the context of a build; by default what the model has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// Tools and steps that a person has to confirm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1)))]
    pub requires_confirmation: Vec<String>,
    /// Values for the readers of the definition, without a meaning here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Json>,
}

fn format() -> u32 {
    1
}

/// Types of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentType {
    /// A model call with a context that is gathered from several sources.
    Context,
    /// Calls of MCP tools.
    Tool,
    /// A call of an HTTP API.
    Api,
    /// A call of an agent of another server.
    External,
    /// JavaScript in a sandbox.
    Function,
    /// A graph written in Rust.
    Graph,
}

impl AgentType {
    /// Returns the modes of a definition that declares none.
    #[must_use]
    pub fn default_modes(self) -> &'static [Mode] {
        match self {
            Self::Context => &[Mode::Converse, Mode::Plan, Mode::Build],
            _ => &[Mode::Build],
        }
    }

    /// Returns the name, as definitions have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Tool => "tool",
            Self::Api => "api",
            Self::External => "external",
            Self::Function => "function",
            Self::Graph => "graph",
        }
    }
}

/// The card of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCard {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Purpose of the agent, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Modes; by default those of the type: all three of a context agent, `build` of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 3))]
    pub modes: Option<Vec<Mode>>,
    /// Other members of the card.
    #[serde(flatten)]
    pub more: BTreeMap<String, Json>,
}

/// Orders of several calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolMode {
    /// Each after the one before.
    #[default]
    Sequential,
    /// All at once.
    Parallel,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    /// Provider, such as `openai`.
    #[schemars(length(min = 1))]
    pub provider: String,
    /// Name of the model at the provider.
    #[schemars(length(min = 1))]
    pub model: String,
}

/// Limits of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// Maximum time, such as `90s` or `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(w|d|h|ms|m|s))+$"))]
    pub timeout: Option<String>,
    /// Maximum use of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<RunBudget>,
    /// Number of repetitions of an execution that failed and may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub retries: Option<u32>,
    /// Maximum number of executions at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: Option<u32>,
}

/// Limits of what a run uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBudget {
    /// Maximum number of tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub tokens: Option<u64>,
    /// Maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub usd: Option<f64>,
    /// Maximum number of calls of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub calls: Option<u64>,
    /// Maximum number of calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub tools: Option<u64>,
}

impl RunBudget {
    /// Returns the limits of a run.
    #[must_use]
    pub fn limits(&self) -> Limits {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the schema has the range of the amount"
        )]
        let micro_usd = |usd: f64| (usd * 1e6).round() as u64;
        Limits {
            tokens: self.tokens,
            cost_micro_usd: self.usd.map(micro_usd),
            model_calls: self.calls,
            tool_calls: self.tools,
            wall_ms: None,
        }
    }
}

impl Execution {
    /// Returns the maximum time of a node; `None` without a limit.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout.as_deref().and_then(parse_duration)
    }
}

/// The form of plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Format.
    pub format: PlanFormat,
    /// JSON Schema, for the formats `json` and `yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Map<String, Json>>,
    /// Template whose headings and placeholders a plan must fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub template: Option<String>,
}

/// Formats of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanFormat {
    /// JSON.
    Json,
    /// Markdown.
    Markdown,
    /// YAML.
    Yaml,
}

/// The form of deliverables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deliverable {
    /// Format.
    pub format: DeliverableFormat,
    /// Type, such as `report`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub kind: Option<String>,
    /// JSON Schema, for the format `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Map<String, Json>>,
    /// Headings that a deliverable must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200), inner(length(min = 1, max = 1_000)))]
    pub sections: Option<Vec<String>>,
}

/// Formats of deliverables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeliverableFormat {
    /// JSON.
    Json,
    /// Markdown.
    Markdown,
    /// HTML.
    Html,
}

/// Orchestration of other agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Orchestration {
    /// Slugs of agents that the agent may ask.
    #[serde(default, rename = "availableAgents", skip_serializing_if = "Vec::is_empty")]
    pub available_agents: Vec<String>,
    /// Order of agents for which none is given.
    #[serde(default, rename = "defaultMode", skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<OrchestrationMode>,
    /// Maximum depth of agents that ask agents.
    #[serde(default, rename = "maxDepth", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub max_depth: Option<u32>,
    /// Choice whether agents of other servers that the agent asks may lead to it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_repeats: Option<bool>,
    /// Steps, at most 64 with those of groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<OrchestrationStep>,
    /// Plans of steps that the model makes for each request, in place of `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<Planning>,
}

impl Orchestration {
    /// Returns the number of agents that may ask one another.
    pub(crate) fn depth_max(&self) -> u32 {
        self.max_depth.unwrap_or(DEPTH_MAX)
    }

    /// Returns the depth of an agent that this one asks at a depth. It is so high that the limit of this
    /// one holds behind it, too, whatever its own limit is.
    pub(crate) fn depth_of_asked(&self, depth: u64, asked: &Self) -> u64 {
        let next = depth.saturating_add(1);
        let left = u64::from(self.depth_max()).saturating_sub(next);
        next.max(u64::from(asked.depth_max()).saturating_sub(left))
    }
}

/// Plans of steps that a model makes of `availableAgents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Planning {
    /// Maximum number of steps of a plan; 8 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub steps_max: Option<u32>,
    /// Choice whether a person approves each plan before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<bool>,
}

impl Definition {
    /// Returns the transforms, with the pointers of their keys.
    pub(crate) fn transforms(&self) -> impl Iterator<Item = (&'static str, &Json)> {
        let request = self.request_transform.as_ref().map(|form| ("/request_transform", form));
        let response = self.response_transform.as_ref().map(|form| ("/response_transform", form));
        request.into_iter().chain(response)
    }

    /// Returns the modes.
    #[must_use]
    pub fn modes(&self) -> &[Mode] {
        self.agent_card.modes.as_deref().unwrap_or_else(|| self.agent_type.default_modes())
    }

    /// Returns the sources of the context of a build.
    #[must_use]
    pub fn sources(&self) -> Vec<Source> {
        let usual = [
            SourceKind::Markdown,
            SourceKind::Plan,
            SourceKind::SubAgent,
            SourceKind::Steps,
            SourceKind::Deliverables,
            SourceKind::History,
        ];
        self.sources.clone().unwrap_or_else(|| usual.map(Source::new).to_vec())
    }

    /// Returns the names of the tools that calls may name: those of `tools`, and the operations of an
    /// OpenAPI file.
    pub(crate) fn tool_names(&self, slug: &str) -> Vec<String> {
        let operations = self.operations.iter().map(|id| operation_tool(slug, id));
        self.tools.iter().flatten().cloned().chain(operations).collect()
    }

    /// Returns the slugs of the agents that this one may ask, with the paths of their keys. The agents
    /// of steps are among `availableAgents`, if there are some.
    pub(super) fn asks(&self) -> impl Iterator<Item = (String, &str)> {
        let is_open = |of: &&Orchestration| of.available_agents.is_empty();
        let open = self.orchestration.as_ref().filter(is_open);
        let of_steps = agents_of(open.map(|of| of.steps.as_slice()).unwrap_or_default());
        let of_steps = of_steps
            .into_iter()
            .map(|AskedAgent { pointer, agent, .. }| (format!("{pointer}/agent"), agent));
        let of_orchestration = self.orchestration.iter().flat_map(|of| &of.available_agents);
        let listed = of_orchestration.enumerate().map(|(place, slug)| {
            (format!("/orchestration/availableAgents/{place}"), slug.as_str())
        });
        let own = self.sub_agent_slug.iter();
        let own = own.map(|slug| ("/subAgentSlug".to_owned(), slug.as_str()));
        own.chain(listed).chain(of_steps)
    }
}
