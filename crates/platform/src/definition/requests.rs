//! Requests of steps to the agents that they ask.

use super::file::{AgentType, Orchestration};
use super::folder::{ByName, DefinitionFolder, find};
use super::outline::{AskedAgent, agents_of};
use super::problem::{Problem, ProblemKind};
use super::transform::paths_of;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use weftwork_schema::{Checker, Violation, ViolationKind};
use weftwork_types::task::{Mode, Payload};

/// Maximum number of reported problems of an input.
const PROBLEMS_MAX: usize = 20;

/// Returns the steps whose agents do not take what the steps ask of them: a mode or a tool that they do
/// not have, or an input that does not fit their schema.
pub(super) fn unfit_requests(folder: &DefinitionFolder, by_name: &ByName<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let steps = folder.definition.orchestration.iter().map(|of| of.steps.as_slice());
    for asked in steps.flat_map(agents_of) {
        let Some(agent) = find(by_name, folder, asked.agent) else { continue };
        let request = StepRequest { folder, asked, agent };
        problems.extend(request.unknown_mode());
        problems.extend(request.missing_input());
        problems.extend(request.unfit_input());
        problems.extend(request.unfit_payload());
    }
    problems
}

/// A step of a definition with the agent that it asks.
struct StepRequest<'a> {
    folder: &'a DefinitionFolder,
    asked: AskedAgent<'a>,
    agent: &'a DefinitionFolder,
}

impl StepRequest<'_> {
    fn problem(&self, kind: ProblemKind, key: &str) -> Problem {
        self.folder.problem(kind, &format!("{}{key}", self.asked.pointer))
    }

    fn mode(&self) -> Mode {
        self.asked.mode.unwrap_or(Mode::Build)
    }

    fn unknown_mode(&self) -> Option<Problem> {
        let modes = self.agent.definition.modes();
        if modes.contains(&self.mode()) {
            return None;
        }
        let key = if self.asked.mode.is_some() { "/mode" } else { "/agent" };
        let names: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
        let expected = format!("a mode of agent {}: {}", self.agent.slug, names.join(", "));
        let problem = self.problem(ProblemKind::BadValue, key).found(self.mode().name());
        Some(problem.expected(expected))
    }

    /// Returns the schema of the input that the step has to give.
    fn input_schema(&self) -> Option<&Map<String, Json>> {
        let schema = self.agent.definition.input_schema.as_ref();
        schema.filter(|_| self.mode() != Mode::Converse)
    }

    fn missing_input(&self) -> Vec<Problem> {
        let given = match self.asked.input {
            None => &Map::new(),
            Some(Json::Object(given)) => given,
            // A placeholder, whose value is not known here.
            Some(_) => return Vec::new(),
        };
        let required = self.input_schema().and_then(|schema| schema.get("required")?.as_array());
        let required = required.into_iter().flatten().filter_map(Json::as_str);
        let missing = required.filter(|name| !given.contains_key(*name)).map(|name| {
            let key = if self.asked.input.is_some() { "/input" } else { "" };
            let agent = &self.agent.slug;
            let expected = format!("`input` with `{name}`, which agent {agent} requires");
            self.problem(ProblemKind::MissingKey, key).expected(expected)
        });
        missing.collect()
    }

    /// Checks the values of the input that are known before the step begins.
    fn unfit_input(&self) -> Vec<Problem> {
        let Some(input) = self.asked.input else { return Vec::new() };
        let Some(schema) = self.input_schema() else { return Vec::new() };
        // Reading the definition of the agent has compiled it before.
        let Ok(checker) = Checker::compile(&Json::Object(schema.clone())) else {
            return Vec::new();
        };
        let violations = checker.violations(input, PROBLEMS_MAX);
        violations.iter().filter_map(|violation| self.unfit_value(input, violation)).collect()
    }

    fn unfit_value(&self, input: &Json, violation: &Violation) -> Option<Problem> {
        let Violation { at, kind, .. } = violation;
        let value = input.pointer(at)?;
        let is_known = paths_of(value).is_empty();
        let expected = match kind {
            // Reported as missing.
            ViolationKind::MissingMember(_) if at.is_empty() && input.is_object() => return None,
            ViolationKind::MissingMember(name) => format!("the member `{name}`"),
            ViolationKind::UnknownMembers(names) => format!("no `{}`", names.join("`, `")),
            _ if !is_known => return None,
            ViolationKind::Type(of) => format!("a value of the type {of}"),
            ViolationKind::NoneOf(values) => format!("one of {}", Json::Array(values.clone())),
            ViolationKind::Other(text) => format!("a value of the schema ({text})"),
            _ => "a value of the schema".to_owned(),
        };
        let problem = self.problem(ProblemKind::BadValue, &format!("/input{at}"));
        let agent = &self.agent.slug;
        let problem = problem.expected(format!("{expected}, by `input_schema` of agent {agent}"));
        Some(if value.is_object() || value.is_array() {
            problem
        } else {
            problem.found(value.to_string())
        })
    }

    /// Checks the members of the payload that are known before the step begins.
    fn unfit_payload(&self) -> Option<Problem> {
        let payload = Json::Object(self.asked.payload.clone());
        if paths_of(&payload).is_empty()
            && let Err(error) = serde_json::from_value::<Payload>(payload)
        {
            let problem = self.problem(ProblemKind::BadValue, "/payload");
            return Some(problem.expected(format!("the members of a request ({error})")));
        }
        let tool = self.asked.payload.get("tool").and_then(Json::as_str)?;
        let agent = &self.agent.definition;
        let takes_tools = agent.agent_type == AgentType::Tool || agent.openapi.is_some();
        let known = agent.tool_names(&self.agent.slug);
        if !takes_tools || tool.contains("{{") || known.iter().any(|name| name == tool) {
            return None;
        }
        let listed = format!("a tool of agent {}: {}", self.agent.slug, known.join(", "));
        let problem = self.problem(ProblemKind::BadValue, "/payload/tool").found(tool);
        let problem = problem.expected(listed);
        Some(problem.nearest_of(tool, known.iter().map(String::as_str)))
    }
}

/// Returns the steps behind which agents ask one another more deeply than they may, in an orchestration
/// that begins at a depth.
pub(super) fn too_deep(
    folder: &DefinitionFolder,
    depth: u64,
    by_name: &ByName<'_>,
) -> Vec<Problem> {
    let Some(orchestration) = &folder.definition.orchestration else { return Vec::new() };
    let limit = orchestration.depth_max();
    let mut depths = Depths { by_name, seen: BTreeMap::new() };
    let mut problems = Vec::new();
    for asked in agents_of(&orchestration.steps) {
        let is_nested = orchestrates(&asked);
        let nested = find(by_name, folder, asked.agent).filter(|_| is_nested);
        let is_within = depth < u64::from(limit)
            && nested.is_none_or(|agent| depths.are_within(orchestration, agent, depth));
        if !is_within {
            let key = if is_nested { "/payload/orchestrate" } else { "/agent" };
            let problem = folder.problem(ProblemKind::TooLarge, &format!("{}{key}", asked.pointer));
            let expected = "agents that ask one another no more deeply than their `maxDepth`";
            problems.push(problem.found(asked.agent).expected(expected));
        }
    }
    problems
}

/// Returns `true` for a step whose agent runs its own orchestration.
fn orchestrates(asked: &AskedAgent<'_>) -> bool {
    let is_action = |action: &Json| action.as_str() == Some("execute");
    asked.payload.get("orchestrate") == Some(&Json::Bool(true))
        || asked.payload.get("orchestrationAction").is_some_and(is_action)
}

/// The depths of the orchestrations behind others.
struct Depths<'a, 'b> {
    by_name: &'b ByName<'a>,
    /// Results by definition and depth: many steps may lead to the same agent.
    seen: BTreeMap<(*const DefinitionFolder, u64), bool>,
}

impl<'a> Depths<'a, '_> {
    /// Returns `true` if all steps of an orchestration may ask their agents that another one asks for at
    /// a depth.
    fn are_within(
        &mut self,
        asking: &Orchestration,
        folder: &'a DefinitionFolder,
        depth: u64,
    ) -> bool {
        let Some(orchestration) = &folder.definition.orchestration else { return true };
        let depth = asking.depth_of_asked(depth, orchestration);
        let Orchestration { steps, planning, .. } = orchestration;
        if steps.is_empty() && planning.is_none() {
            return true;
        }
        if depth >= u64::from(orchestration.depth_max()) {
            return false;
        }
        let key = (std::ptr::from_ref(folder), depth);
        if let Some(known) = self.seen.get(&key) {
            return *known;
        }
        let all = agents_of(steps).into_iter().filter(orchestrates).all(|of| {
            let agent = find(self.by_name, folder, of.agent);
            agent.is_none_or(|agent| self.are_within(orchestration, agent, depth))
        });
        self.seen.insert(key, all);
        all
    }
}
