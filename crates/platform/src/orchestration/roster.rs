//! The agents that a plan may ask, for the model that makes it.

use crate::agent::Agent;
use crate::definition::{AgentType, DefinitionFolder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use weftwork_graph::{Ctx, NodeError, NodeResult};

/// Maximum length of a description or a schema in characters.
const TEXT_CHARS_MAX: usize = 1_000;

/// The agents that a plan may ask, and the limit of its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Roster {
    slugs: Vec<String>,
    /// A line for each agent.
    text: String,
    /// `true` if a step may name a tool.
    has_tools: bool,
    steps_max: usize,
}

impl Roster {
    /// Lists the agents of `availableAgents` that there are now.
    pub(super) fn of(agent: &Agent, ctx: &Ctx) -> NodeResult<Self> {
        let ended = || NodeError::message("the program ends");
        let agents = agent.others.upgrade().ok_or_else(ended)?;
        let orchestration = agent.definition.orchestration.clone().unwrap_or_default();
        let planning = orchestration.planning.unwrap_or_default();
        let steps_max = planning.step_limit();
        let mut roster =
            Self { slugs: Vec::new(), text: String::new(), has_tools: false, steps_max };
        for slug in orchestration.available_agents {
            let Some(folder) = agents.definition(&ctx.calls().principal, &slug) else { continue };
            roster.has_tools |= !folder.definition.tool_names(&slug).is_empty();
            describe(&folder, &mut roster.text)?;
            roster.slugs.push(slug);
        }
        Ok(roster)
    }

    /// Instructions for the model, behind those of the agent.
    pub(super) fn instructions(&self, own: &str) -> String {
        let Self { text, steps_max, has_tools, .. } = self;
        let tools = match has_tools {
            true => {
                " `payload` has a `tool` and its `arguments`; without it, the agent takes them from the message."
            }
            false => "",
        };
        format!(
            "{own}\n\nPlan the work on the request: the agents to ask, and what each is to do. Do not do \
             the work. Answer with JSON alone: {{\"steps\": [...]}}, with at most {steps_max} steps.\n\
             Each step has an `id` of small letters, the `agent`, and a `message` for it. It begins when \
             the steps before it have ended, or those in `needs` alone. `{{{{steps.ID.content}}}}` in a \
             text is the result of a step that has ended. `when` is a condition in CEL.{tools} A step \
             with a `checkpoint` in place of an `agent` asks a person.\n\nThe agents:\n{text}"
        )
        .trim()
        .to_owned()
    }

    /// The JSON Schema of the answer.
    pub(super) fn schema(&self) -> Value {
        let text = json!({"type": "string"});
        let mut step = json!({
            "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
            "agent": {"enum": self.slugs},
            "message": text,
            "input": {"type": "object"},
            "needs": {"type": "array", "items": text},
            "when": text,
            "checkpoint": {
                "type": "object",
                "properties": {"question": text},
                "required": ["question"],
                "additionalProperties": false,
            },
        });
        if self.has_tools {
            step["payload"] = json!({
                "type": "object",
                "properties": {"tool": text, "arguments": {"type": "object"}},
            });
        }
        json!({
            "type": "object",
            "properties": {
                "steps": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": self.steps_max,
                    "items": {
                        "type": "object",
                        "properties": step,
                        "required": ["id"],
                        "additionalProperties": false,
                    },
                },
            },
            "required": ["steps"],
            "additionalProperties": false,
        })
    }
}

/// Describes an agent: its purpose, its modes, its input and its tools.
fn describe(folder: &DefinitionFolder, text: &mut String) -> NodeResult<()> {
    let definition = &folder.definition;
    let about = definition.agent_card.description.as_deref().unwrap_or("no description");
    write!(text, "- {}: {}", folder.slug, shortened(about))?;
    if let Some(schema) = &definition.input_schema {
        write!(text, " `input` by this schema: {}", shortened(&json!(schema).to_string()))?;
    }
    let tools = definition.tool_names(&folder.slug);
    let takes_tools = matches!(definition.agent_type, AgentType::Tool | AgentType::Api);
    if takes_tools && !tools.is_empty() {
        write!(text, " Tools: {}", tools.join(", "))?;
    }
    text.push('\n');
    Ok(())
}

/// Returns the beginning of a text, in one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(TEXT_CHARS_MAX).collect()
}
