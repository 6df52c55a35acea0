//! Skills: folders with a `SKILL.md`, of which a model gets names and purposes, and the text of those
//! that it needs.

use crate::agent::{Agent, system};
use crate::context::{Piece, front_matter};
use crate::definition::FileText;
use crate::state::{AgentState, last_request};
use serde_json::json;
use std::fmt::Write;
use weftwork_graph::{Ctx, NodeResult, State};

/// Name of the file of a skill.
pub(crate) const SKILL: &str = "SKILL.md";
/// Name of the parts of a context that are skills.
pub(crate) const SOURCE: &str = "skill";

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    description: String,
    text: String,
}

impl Skill {
    /// Returns the path of the file of a skill.
    pub(crate) fn file(folder: &str) -> String {
        format!("{}/{SKILL}", folder.trim_end_matches('/'))
    }

    /// Reads a skill: its name and purpose are in the front matter. `None` if one of them is missing.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (members, text) = front_matter(text);
        let member = |name: &str| {
            let text = members.get(name)?.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let name = member("name")?;
        Some(Self { name, description: member("description")?, text: text.trim().to_owned() })
    }

    /// Returns the skills of a definition, in its order.
    pub(crate) fn all(folders: &[String], files: &[FileText]) -> Vec<Self> {
        let file = |folder: &String| files.iter().find(|file| file.path == Self::file(folder));
        folders.iter().filter_map(file).filter_map(|file| Self::read(&file.text)).collect()
    }
}

/// Lets the model name the skills that the request needs, and returns their texts.
pub(crate) async fn choose_skills(
    agent: &Agent,
    state: &State<AgentState>,
    ctx: &Ctx,
) -> NodeResult<Vec<Piece>> {
    if agent.skills.is_empty() {
        return Ok(Vec::new());
    }
    let mut text =
        "These skills are instructions for certain tasks. Name those that the request of \
                    the user needs, or none.\n"
            .to_owned();
    for skill in &agent.skills {
        writeln!(text, "- {}: {}", skill.name, skill.description)?;
    }
    let names: Vec<&str> = agent.skills.iter().map(|skill| skill.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {"skills": {"type": "array", "items": {"type": "string", "enum": names}}},
        "required": ["skills"],
        "additionalProperties": false,
    });
    let asked = last_request(state);
    let messages = [system(text)?].into_iter().chain(asked.cloned()).collect();
    let chosen = agent.ask_value(messages, &schema, ctx).await?;
    let chosen = chosen["skills"].as_array().cloned().unwrap_or_default();
    let is_chosen = |skill: &&Skill| chosen.iter().any(|name| name.as_str() == Some(&skill.name));
    let piece = |skill: &Skill| Piece {
        source: SOURCE.to_owned(),
        title: skill.name.clone(),
        text: skill.text.clone(),
        newest_last: false,
    };
    Ok(agent.skills.iter().filter(is_chosen).map(piece).collect())
}
