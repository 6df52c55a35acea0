//! Plans: the steps of an orchestration that are no part of its definition.
//!
//! The text of a plan is the key `orchestration` as a definition has it, so that it can become a part of
//! one, and its problems have the lines of that text.

use super::file::{Definition, Orchestration, Planning};
use super::folder::{DefinitionFolder, check_at_depth};
use super::outline::{AskedAgent, Outline, agents_of};
use super::problem::{Location, Problem, ProblemKind};
use super::rules::Rules;
use super::schema;
use super::sorted;
use super::write::write_member;
use super::yaml::Node;
use serde_json::Value as Json;

/// Maximum number of steps of a plan, if the definition names none.
const STEPS_MAX: u32 = 8;
/// Key of a plan.
const KEY: &str = "orchestration";

impl Planning {
    /// Returns the maximum number of steps of a plan.
    pub(crate) fn step_limit(&self) -> usize {
        usize::try_from(self.steps_max.unwrap_or(STEPS_MAX)).unwrap_or(usize::MAX)
    }
}

impl Outline {
    /// Reads the steps of a plan that was checked; `None` for another text.
    pub(crate) fn of_plan(text: &str) -> Option<Self> {
        let node = Node::read(text).ok()?;
        node.entry(KEY)?.node.parse::<Orchestration>().ok().as_ref().map(Self::of)
    }
}

/// Writes an orchestration as the text of a plan.
pub(crate) fn plan_to_yaml(orchestration: &Json) -> String {
    let mut text = String::new();
    write_member(&mut text, KEY, orchestration, 0);
    text
}

/// The rules for the plans of an agent: those for written steps, and the limits of its definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanRules<'a> {
    pub(crate) slug: &'a str,
    pub(crate) definition: &'a Definition,
    /// Number of agents that asked one another before the one that plans.
    pub(crate) depth: u64,
    /// The agents that it can see.
    pub(crate) others: &'a [&'a DefinitionFolder],
}

impl PlanRules<'_> {
    /// Returns the problems of a plan, by their places; of the first kind that prevents further checks.
    pub(crate) fn check(&self, text: &str) -> Vec<Problem> {
        let (definition, node) = match self.read(text) {
            Ok(read) => read,
            Err(problems) => return problems,
        };
        let mut rules = Rules { definition: &definition, node: &node, problems: Vec::new() };
        rules.check();
        let mut problems = rules.problems;
        let slug = self.slug.to_owned();
        let folder = DefinitionFolder::of_plan(slug, definition.clone(), node);
        problems.extend(self.beyond_limits(&folder));
        problems.extend(check_at_depth(&folder, self.depth, self.others));
        problems = sorted(problems);
        problems.dedup_by(|a, b| (a.kind, &a.path) == (b.kind, &b.path));
        problems
    }

    /// Reads a plan as a definition that has its key alone.
    fn read(&self, text: &str) -> Result<(Definition, Node), Vec<Problem>> {
        let mut node = Node::read(text).map_err(|problem| vec![*problem])?;
        let is_plan = node.entries().len() == 1 && node.entry(KEY).is_some();
        if !is_plan {
            let problem = Problem::new(ProblemKind::WrongType, Location::START);
            let problem = problem.found(schema::describe(&node));
            return Err(vec![problem.expected("a mapping with the key `orchestration` alone")]);
        }
        node.insert("type", "context".to_owned());
        let problems = schema::problems_of(&node);
        if !problems.is_empty() {
            return Err(sorted(problems));
        }
        let definition: Definition = node.parse().map_err(|error| {
            let problem = Problem::new(ProblemKind::WrongType, node.location);
            vec![problem.found(error.to_string())]
        })?;
        let organization = self.definition.organization.clone();
        Ok((Definition { organization, ..definition }, node))
    }

    /// Checks what the definition of the agent allows its plans.
    fn beyond_limits(&self, plan: &DefinitionFolder) -> Vec<Problem> {
        let usual = Planning::default();
        let own = self.definition.orchestration.as_ref();
        let planning = own.and_then(|of| of.planning.as_ref()).unwrap_or(&usual);
        let available = own.map(|of| of.available_agents.as_slice()).unwrap_or_default();
        let depth_max = own.unwrap_or(&Orchestration::default()).depth_max();
        let Some(planned) = &plan.definition.orchestration else { return Vec::new() };
        let mut problems = Vec::new();
        let count = Outline::of(planned).steps.len();
        let limit = planning.step_limit();
        if count == 0 {
            let problem = plan.problem(ProblemKind::MissingKey, "/orchestration");
            problems.push(problem.expected("the key `steps` with a step"));
        }
        if count > limit {
            let problem = plan.problem(ProblemKind::TooLarge, "/orchestration/steps");
            let problem = problem.found(format!("{count} steps"));
            problems.push(problem.expected(format!("at most {limit} steps")));
        }
        if planned.planning.is_some() {
            let problem = plan.problem(ProblemKind::TypeMismatch, "/orchestration/planning");
            problems.push(problem.expected("no such key in a plan"));
        }
        if planned.max_depth.is_some_and(|depth| depth > depth_max) {
            let problem = plan.problem(ProblemKind::BadValue, "/orchestration/maxDepth");
            problems
                .push(problem.expected(format!("at most {depth_max}, as the definition has it")));
        }
        let unknown = |pointer: &str, slug: &str| {
            let problem = plan.problem(ProblemKind::UnknownAgent, pointer).found(slug);
            let problem = problem.expected("one of `availableAgents` of the definition");
            problem.nearest_of(slug, available.iter().map(String::as_str))
        };
        for (position, slug) in planned.available_agents.iter().enumerate() {
            if !available.contains(slug) {
                let pointer = format!("/orchestration/availableAgents/{position}");
                problems.push(unknown(&pointer, slug));
            }
        }
        for AskedAgent { pointer, agent, .. } in agents_of(&planned.steps) {
            if !available.iter().any(|slug| slug == agent) {
                problems.push(unknown(&format!("{pointer}/agent"), agent));
            }
        }
        problems
    }
}
