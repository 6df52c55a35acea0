//! Allowed tools: what an operator has decided about a tool, and what the tool was at that time.

use crate::offer::OfferedTool;
use crate::{McpError, McpFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome, wire_name};

/// Version of the format. Version 1 has no secret arguments.
const VERSION: u32 = 2;

/// The allowed tools, in a file beside that of the servers. It belongs under version control.
#[derive(Debug, Clone, PartialEq)]
pub struct LockFile {
    path: PathBuf,
    tools: BTreeMap<String, AllowedTool>,
}

/// An allowed tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedTool {
    /// The name for models.
    pub wire_name: String,
    /// The effect.
    pub effect: Effect,
    /// The handling of calls whose outcome is unknown.
    pub on_unknown: UnknownOutcome,
    /// The kind of results.
    pub output: Output,
    /// Members of results that may be shown; none if empty, all with `.`.
    pub shown: Vec<String>,
    /// Secret arguments, as names or as paths such as `auth.token` or `cards[].cvc`; all with `.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Hash of everything that the server said about the tool.
    pub hash: String,
    /// Description for models.
    pub description: String,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// Schema of results that the server declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// The kind of a tool's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Each result satisfies the recorded schema, or the call fails.
    Schema,
    /// Results are passed on without a check.
    Opaque,
}

/// The operator's decision about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The effect.
    pub effect: Effect,
    /// `true` if a repeated call has no further effect. Reads never have one.
    pub idempotent: bool,
    /// The kind of results; `None` takes the declared schema, if there is one.
    pub output: Option<Output>,
    /// Members of results that may be shown; `.` stands for all.
    pub shown: Vec<String>,
    /// Secret arguments; `.` stands for all.
    pub secret: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    tools: BTreeMap<String, AllowedTool>,
}

impl LockFile {
    /// The path of the lock file of a file of servers: `mcp.lock` for `mcp.json`.
    #[must_use]
    pub fn path_of(servers: &Path) -> PathBuf {
        servers.with_extension("lock")
    }

    /// Reads the lock file beside a file of servers. If there is none, no tool is allowed.
    ///
    /// # Errors
    /// [`McpError::File`].
    pub fn beside(file: &McpFile) -> Result<Self, McpError> {
        let path = Self::path_of(&file.path);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { path, tools: BTreeMap::new() });
            }
            Err(error) => return Err(McpError::File { path, problem: error.to_string() }),
        };
        let bad = |problem: String| McpError::File { path: path.clone(), problem };
        let stored: Stored = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if !(1..=VERSION).contains(&stored.version) {
            return Err(bad(format!("version {}, expected at most {VERSION}", stored.version)));
        }
        let lock = Self { path: path.clone(), tools: stored.tools };
        for (name, tool) in &lock.tools {
            let found = &tool.wire_name;
            let expected = wire_name(name);
            if *found != expected {
                return Err(bad(format!(
                    "tool `{name}`: wire name `{found}`, expected `{expected}`; allow the tool again"
                )));
            }
            lock.check_wire_name(name)?;
            tool.parameters().map_err(|problem| {
                bad(format!("tool `{name}`: {problem}; allow the tool again"))
            })?;
        }
        Ok(lock)
    }

    /// Writes the file, replacing an earlier one at once.
    ///
    /// # Errors
    /// [`McpError::File`].
    pub fn write(&self) -> Result<(), McpError> {
        let bad = |problem: String| McpError::File { path: self.path.clone(), problem };
        let stored = Stored { version: VERSION, tools: self.tools.clone() };
        let mut text =
            serde_json::to_string_pretty(&stored).map_err(|error| bad(error.to_string()))?;
        text.push('\n');
        let new = self.path.with_extension("lock.new");
        std::fs::write(&new, text).map_err(|error| bad(error.to_string()))?;
        std::fs::rename(&new, &self.path).map_err(|error| bad(error.to_string()))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an allowed tool by its canonical name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AllowedTool> {
        self.tools.get(name)
    }

    /// The allowed tools by canonical name.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &AllowedTool)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// Allows a tool as it is offered, replacing an earlier decision.
    ///
    /// # Errors
    /// [`McpError::Tool`] if another allowed tool has the same wire name, or results are to satisfy
    /// a schema that the server does not declare.
    pub fn allow(&mut self, offered: &OfferedTool, terms: Terms) -> Result<(), McpError> {
        let bad = |problem: String| McpError::Tool { tool: offered.name.clone(), problem };
        let declared =
            if offered.output_schema.is_some() { Output::Schema } else { Output::Opaque };
        let output = terms.output.unwrap_or(declared);
        if output == Output::Schema && offered.output_schema.is_none() {
            return Err(bad(
                "the server declares no schema of results; use `--output opaque`".into()
            ));
        }
        let repeatable = terms.effect == Effect::ReadOnly || terms.idempotent;
        let tool = AllowedTool {
            wire_name: wire_name(&offered.name),
            effect: terms.effect,
            on_unknown: if repeatable { UnknownOutcome::Idempotent } else { UnknownOutcome::Ask },
            output,
            shown: terms.shown,
            secret: terms.secret,
            hash: offered.hash.clone(),
            description: offered.description.clone(),
            input_schema: offered.input_schema.clone(),
            output_schema: offered.output_schema.clone(),
        };
        tool.parameters().map_err(bad)?;
        let before = self.tools.insert(offered.name.clone(), tool);
        let checked = self.check_wire_name(&offered.name).and_then(|()| {
            let spec = self.tools.get(&offered.name).map(|tool| tool.spec(&offered.name));
            spec.map_or(Ok(()), |spec| crate::offer::check_spec(&spec).map_err(bad))
        });
        if checked.is_err() {
            match before {
                Some(before) => self.tools.insert(offered.name.clone(), before),
                None => self.tools.remove(&offered.name),
            };
        }
        checked
    }

    /// Removes a tool; `false` if it was not allowed.
    pub fn deny(&mut self, name: &str) -> bool {
        self.tools.remove(name).is_some()
    }

    fn check_wire_name(&self, name: &str) -> Result<(), McpError> {
        let Some(tool) = self.tools.get(name) else { return Ok(()) };
        let mut others = self.tools.iter().filter(|(other, _)| *other != name);
        match others.find(|(_, other)| other.wire_name == tool.wire_name) {
            None => Ok(()),
            Some((other, _)) => Err(McpError::Tool {
                tool: name.to_owned(),
                problem: format!(
                    "`{other}` has the same name `{}` on the wire; deny one of them, or rename its server",
                    tool.wire_name
                ),
            }),
        }
    }
}

impl AllowedTool {
    /// Returns the schema of the arguments for models, with the marks of secret ones.
    fn parameters(&self) -> Result<Value, String> {
        crate::arguments::hide_secret_arguments(&self.input_schema, &self.secret)
    }

    /// The declaration for models and policies.
    #[must_use]
    pub fn spec(&self, name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: self.description.clone(),
            parameters: self.parameters().unwrap_or_else(|_| {
                // The lock file was checked when it was read. If it was not, all is secret.
                serde_json::json!({"type": "object", "x-secret": true})
            }),
            output: match self.output {
                Output::Schema => self.output_schema.clone(),
                Output::Opaque => None,
            },
            effect: self.effect,
            on_unknown: self.on_unknown,
            shown: Some(self.shown.clone()),
            examples: Vec::new(),
        }
    }

    /// Returns the parts that differ from what the server offers: each with the recorded and the
    /// offered text. Empty if the tool is as it was allowed.
    #[must_use]
    pub fn differences(&self, offered: &OfferedTool) -> Vec<(&'static str, String, String)> {
        if self.hash == offered.hash {
            return Vec::new();
        }
        let pretty =
            |schema: Option<&Value>| schema.map(|schema| format!("{schema:#}")).unwrap_or_default();
        let parts = [
            ("description", self.description.clone(), offered.description.clone()),
            ("arguments", pretty(Some(&self.input_schema)), pretty(Some(&offered.input_schema))),
            (
                "results",
                pretty(self.output_schema.as_ref()),
                pretty(offered.output_schema.as_ref()),
            ),
        ];
        let mut found: Vec<_> = parts.into_iter().filter(|(_, old, new)| old != new).collect();
        if found.is_empty() {
            // The hash covers characters that are not displayed.
            found.push(("hidden characters", self.hash.clone(), offered.hash.clone()));
        }
        found
    }
}
