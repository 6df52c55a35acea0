//! Tools as a server offers them, checked before anybody sees them.

use crate::McpError;
use crate::declared;
use crate::limits::Limits;
use crate::repair::PROBLEM;
use crate::text::{clean, clean_schema, is_hidden, short};
use rmcp::model::Tool as Listed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_tools::{Policy, Tool, ToolBox, ToolContext, ToolError, ToolOutput, ToolRunner};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
use weftwork_types::{BoxFuture, canonical};

/// Length of the name of a refused tool, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// Tools that can be allowed.
    pub tools: Vec<OfferedTool>,
    /// Tools that cannot.
    pub refused: Vec<RefusedTool>,
    /// The error of a later page of the list, whose tools are missing.
    pub incomplete: Option<McpError>,
}

/// A tool that can be allowed. Its texts contain no hidden characters.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Canonical name, `server/tool`.
    pub name: String,
    /// Description.
    pub description: String,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// Schema of results, if the server declares one.
    pub output_schema: Option<Value>,
    /// Claims of the server about effects. They may be wrong.
    pub hints: Hints,
    /// Hash of everything that the server says about the tool, hidden characters included.
    pub hash: String,
}

/// Claims of a server about the effects of a tool. Nothing is decided by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// The tool only reads.
    pub read_only: Option<bool>,
    /// A repeated call has no further effect.
    pub idempotent: Option<bool>,
}

/// A tool that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTool {
    /// The name, cleaned.
    pub name: String,
    /// The reason.
    pub reason: McpError,
}

impl Offer {
    /// Checks the tools of a server.
    pub(crate) fn check(server: &str, listed: Vec<Listed>, limits: &Limits) -> Self {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for tool in &listed {
            *times.entry(tool.name.to_string()).or_default() += 1;
        }
        let mut offer = Self::default();
        for tool in listed {
            let name = short(&format!("{server}/{}", tool.name), NAME_CHARS_MAX);
            let repeated = times.get(tool.name.as_ref()).is_some_and(|times| *times > 1);
            let checked = match repeated {
                true => Err("the server lists the name more than once".to_owned()),
                false => OfferedTool::check(server, tool, limits),
            };
            match checked {
                Ok(tool) => offer.tools.push(tool),
                Err(problem) => {
                    let reason = McpError::Tool { tool: name.clone(), problem };
                    offer.refused.push(RefusedTool { name, reason });
                }
            }
        }
        offer
    }

    /// Returns a tool by its canonical name.
    ///
    /// # Errors
    /// [`McpError::NoSuchTool`], or the reason why the tool was refused.
    pub fn find(&self, name: &str) -> Result<&OfferedTool, McpError> {
        if let Some(tool) = self.tools.iter().find(|tool| tool.name == name) {
            return Ok(tool);
        }
        let shown = short(name, NAME_CHARS_MAX);
        if let Some(refused) = self.refused.iter().find(|refused| refused.name == shown) {
            return Err(refused.reason.clone());
        }
        let (server, tool) = name.split_once('/').unwrap_or(("", name));
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut hint = match names.as_slice() {
            [] => String::new(),
            names => format!("; it offers: {}", short(&names.join(", "), 400)),
        };
        if let Some(error) = &self.incomplete {
            hint.push_str(&format!("; a page of its list could not be read: {error}"));
        }
        Err(McpError::NoSuchTool { server: server.to_owned(), tool: tool.to_owned(), hint })
    }
}

impl OfferedTool {
    fn check(server: &str, listed: Listed, limits: &Limits) -> Result<Self, String> {
        let name = format!("{server}/{}", listed.name);
        if let Some(problem) = listed.input_schema.get(PROBLEM).and_then(Value::as_str) {
            return Err(short(problem, 200));
        }
        if listed.name.chars().any(|letter| letter.is_control() || is_hidden(letter)) {
            return Err("its name contains characters that are not displayed".to_owned());
        }
        let description = listed.description.as_deref().or(listed.title.as_deref());
        let description = description.unwrap_or_default();
        let length = description.chars().count();
        if length > limits.description_chars {
            let max = limits.description_chars;
            return Err(format!("its description has {length} characters, expected at most {max}"));
        }
        let mut input_schema = Value::Object(listed.input_schema.as_ref().clone());
        let mut output_schema =
            listed.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
        for schema in [Some(&input_schema), output_schema.as_ref()].into_iter().flatten() {
            check_size(schema, limits)?;
        }
        let all = json!({
            "name": listed.name, "title": listed.title, "description": listed.description,
            "inputSchema": input_schema, "outputSchema": output_schema,
        });
        for schema in [Some(&mut input_schema), output_schema.as_mut()].into_iter().flatten() {
            clean_schema(schema)
                .map_err(|found| format!("`{found}` in its schema contains hidden characters"))?;
        }
        let hints = listed.annotations.map(|found| Hints {
            read_only: found.read_only_hint,
            idempotent: found.idempotent_hint,
        });
        declared::repair(&mut input_schema);
        output_schema.iter_mut().for_each(declared::repair_output);
        let mut offered = Self {
            name,
            description: clean(description),
            input_schema,
            output_schema,
            hints: hints.unwrap_or_default(),
            hash: canonical::hash(&all).to_string(),
        };
        let Err(problem) = check_spec(&offered.spec()) else { return Ok(offered) };
        // Patterns in a language that cannot be checked here, and then schemas of results, are left
        // to the server.
        declared::without_patterns(&mut offered.input_schema);
        offered.output_schema.iter_mut().for_each(declared::without_patterns);
        if check_spec(&offered.spec()).is_err() {
            offered.output_schema = None;
        }
        check_spec(&offered.spec()).map_err(|_| problem)?;
        Ok(offered)
    }

    /// A declaration with the strictest terms, to check what the server declares.
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.input_schema.clone(),
            output: self.output_schema.clone(),
            effect: Effect::ExternalSideEffect,
            on_unknown: UnknownOutcome::Ask,
            shown: Some(Vec::new()),
            examples: Vec::new(),
        }
    }
}

/// Checks a declaration as every tool box does: name, schemas and shown members.
pub(crate) fn check_spec(spec: &ToolSpec) -> Result<(), String> {
    let tools = ToolBox::new().with(Declared(spec.clone()));
    ToolRunner::new(tools, Policy::new()).map(drop).map_err(|problems| problems.to_string())
}

/// A declaration that is checked and never called.
#[derive(Debug)]
struct Declared(ToolSpec);

impl Tool for Declared {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _: Value, _: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async { Err(ToolError::unavailable("the tool is not allowed")) })
    }
}

fn check_size(schema: &Value, limits: &Limits) -> Result<(), String> {
    let bytes = schema.to_string().len();
    let max = limits.schema_bytes;
    if bytes > max {
        return Err(format!("a schema of it has {bytes} bytes, expected at most {max}"));
    }
    let depth = depth_of(schema);
    let max = limits.schema_depth;
    if depth > max {
        return Err(format!("a schema of it is {depth} levels deep, expected at most {max}"));
    }
    Ok(())
}

/// The depth of a value. Values from JSON text are at most 128 levels deep.
fn depth_of(value: &Value) -> usize {
    let inner = match value {
        Value::Object(members) => members.values().map(depth_of).max(),
        Value::Array(items) => items.iter().map(depth_of).max(),
        _ => None,
    };
    inner.map_or(1, |inner| inner + 1)
}
