//! Definitions: their keys, how they are read, and their problems.

mod file;
mod folder;
mod lift;
mod openapi;
mod outline;
mod planned;
mod problem;
mod requests;
mod rules;
mod schema;
mod source;
mod steps;
mod transform;
mod transport;
mod write;
mod yaml;

pub use file::{
    AgentCard, AgentType, Definition, Deliverable, DeliverableFormat, Execution, Llm,
    Orchestration, Plan, PlanFormat, Planning, RunBudget, ToolMode,
};
pub(crate) use folder::{DEFINITIONS_MAX, check_among};
pub use folder::{
    DefinitionFolder, Definitions, FileText, ToolSize, is_within, read_definitions, read_folder,
    read_texts,
};
pub(crate) use openapi::{
    Operation, OperationBody, ParameterForm, ParameterLocation, operation_tool,
};
pub(crate) use outline::{AgentWork, CheckpointWork, Items, OnReject, Outline, OutlineStep, Work};
pub(crate) use planned::{PlanRules, plan_to_yaml};
pub(crate) use problem::nearest;
pub use problem::{Location, Problem, ProblemKind};
pub use schema::schema;
pub(crate) use source::parse_duration;
pub use source::{Source, SourceKind};
pub use steps::{
    Checkpoint, ForEach, OnError, OnTimeout, OrchestrationMode, OrchestrationStep, StepRetry, Undo,
};
pub(crate) use transform::{Transform, at_path, fill_address, fill_in, fill_value};
pub(crate) use transport::ExternalForm;
pub use transport::{
    ApiTransport, Authentication, AuthenticationType, BodyEncoding, ExternalProtocol,
    ExternalTransport, FunctionTransport, Grant, HealthCheck, HealthThresholds, Pagination,
    PaginationKind, Transport, TransportKind,
};
pub use write::diff_lines;

use rules::Rules;
use yaml::{Content, Node};

/// Reads YAML as JSON, within the limits of definitions.
pub(crate) fn read_yaml(text: &str) -> Result<serde_json::Value, Box<Problem>> {
    Node::read(text).map(|node| node.to_json())
}

/// Reads a definition from the text of an `agent.yaml`.
///
/// ```
/// let text = "type: context\ncontext: You know the rules of golf.\n";
/// let definition = weftwork_platform::read_definition(text).expect("sound");
/// assert_eq!(definition.modes().len(), 3);
///
/// let problems = weftwork_platform::read_definition("type: contxt\n").unwrap_err();
/// assert_eq!(problems[0].kind.code().0, "W1006");
/// assert_eq!(problems[0].nearest.as_deref(), Some("context"));
/// ```
///
/// # Errors
/// All problems, by their places; of the first kind that prevents further checks: syntax, then
/// keys and types, then rules between keys.
pub fn read_definition(text: &str) -> Result<Definition, Vec<Problem>> {
    read(text, Vec::new(), Usual::default()).map(|read| read.definition)
}

/// Reads the members of a definition, without checks of them.
fn read_members(text: &str) -> Result<serde_json::Value, Vec<Problem>> {
    let node = Node::read(text).map_err(|problem| vec![*problem])?;
    lift::lift_members(node, text).map(|node| node.to_json())
}

/// A key of a definition that is a file of its own.
struct Beside {
    key: &'static str,
    file: &'static str,
    text: String,
}

/// A definition with the places of its keys.
struct Read {
    definition: Definition,
    node: Node,
}

/// Values of keys that a definition does not have.
#[derive(Debug, Clone, Copy, Default)]
struct Usual<'a> {
    slug: Option<&'a str>,
    organization: Option<&'a str>,
}

/// Reads a definition from its text and the files beside it.
fn read(text: &str, beside: Vec<Beside>, usual: Usual<'_>) -> Result<Read, Vec<Problem>> {
    let node = Node::read(text).map_err(|problem| vec![*problem])?;
    if !matches!(node.content, Content::Mapping(_)) {
        // The value of an empty file is at its end.
        let is_empty = node.content == Content::Scalar(serde_json::Value::Null);
        let location = if is_empty { Location::START } else { node.location };
        let problem = Problem::new(ProblemKind::WrongType, location);
        let found = schema::describe(&node);
        return Err(vec![problem.found(found).expected("a mapping with the key `type`")]);
    }
    let mut node = lift::lift_members(node, text)?;
    let mut problems = Vec::new();
    for Beside { key, file, text } in beside {
        match node.entry(key) {
            Some(entry) => problems.push(
                Problem::new(ProblemKind::Twice, entry.location)
                    .path(key)
                    .expected("the key, or the file beside the definition, and not both")
                    .other(file, Location::START),
            ),
            None => node.insert(key, text),
        }
    }
    for (key, value) in [("slug", usual.slug), ("organization", usual.organization)] {
        if let Some(value) = value.filter(|_| node.entry(key).is_none()) {
            node.insert(key, value.to_owned());
        }
    }
    problems.extend(schema::problems_of(&node));
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    let definition: Definition = node.parse().map_err(|error| {
        vec![Problem::new(ProblemKind::WrongType, node.location).found(error.to_string())]
    })?;
    let mut rules = Rules { definition: &definition, node: &node, problems: Vec::new() };
    rules.check();
    let problems = rules.problems;
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    Ok(Read { definition, node })
}

/// Sorts problems by their places, and leaves out those beyond the limit.
fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|a, b| (&a.file, a.location, &a.path).cmp(&(&b.file, b.location, &b.path)));
    problems.truncate(schema::PROBLEMS_MAX);
    problems
}
