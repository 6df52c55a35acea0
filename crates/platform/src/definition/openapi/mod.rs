//! Operations of OpenAPI files, of which a definition names those that become tools.
//!
//! The small part of OpenAPI 3.0 and 3.1 is read that says how a request is made: paths, methods,
//! parameters, bodies and their schemas. Servers, credentials and answers are those of the definition.

mod read;
mod schema;
#[cfg(test)]
mod tests;

use super::problem::Problem;
use super::transport::BodyEncoding;
use super::yaml::Node;
use read::Reader;
use serde_json::Value;
use std::collections::BTreeSet;
use weftwork_types::port::Method;
use weftwork_types::tool::{WIRE_NAME_CHARS_MAX, snake_case};

/// Maximum length of the name of a tool in characters.
pub(super) const NAME_CHARS_MAX: usize = WIRE_NAME_CHARS_MAX;
/// Maximum number of values of a file.
const NODES_MAX: usize = 200_000;

/// An operation that is a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    /// Id, as the file has it.
    pub(crate) id: String,
    pub(crate) method: Method,
    /// Path with its parameters, such as `/orders/{id}`.
    pub(crate) path: String,
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<OperationBody>,
    /// JSON Schema of the arguments: a member for each parameter, and `body`.
    pub(crate) arguments: Value,
}

/// A parameter of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// Name in the request.
    pub(crate) name: String,
    /// Name in the arguments.
    pub(crate) argument: String,
    pub(crate) location: ParameterLocation,
    pub(crate) form: ParameterForm,
}

/// Locations of parameters in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    Header,
}

impl ParameterLocation {
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// Forms of lists and objects in parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterForm {
    /// A pair for each item, or for each member.
    Pairs,
    /// Items or members with a character between them.
    Joined(char),
    /// A pair such as `filter[name]` for each member.
    Members,
    /// JSON.
    Json,
}

/// The body of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperationBody {
    pub(crate) encoding: BodyEncoding,
    /// Media type of a body in JSON.
    pub(crate) media_type: String,
    /// Members of a form whose lists have names such as `tags[0]`. Others have the name once for each item.
    pub(crate) with_indices: BTreeSet<String>,
}

/// Returns the name of the tool of an operation.
pub(crate) fn operation_tool(slug: &str, id: &str) -> String {
    format!("api/{slug}/{}", snake_case(id))
}

/// A file with operations, and its problems.
pub(super) struct OperationFile<'t> {
    /// Path of the file in problems.
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

/// Problems of a file with operations.
pub(super) enum OperationProblems {
    /// The file has no operation of this id, at this position in the definition.
    Unknown { position: usize, known: Vec<String> },
    /// The file is wrong at these places.
    InFile(Vec<Problem>),
}

/// Reads the operations with these ids.
pub(super) fn read_operations(
    of: &OperationFile<'_>,
    ids: &[String],
) -> Result<Vec<Operation>, Vec<OperationProblems>> {
    let in_file = |problems| vec![OperationProblems::InFile(problems)];
    let root = Node::read_within(of.text, NODES_MAX);
    let root = root.map_err(|problem| in_file(vec![problem.in_file(of.file)]))?;
    let mut reader = Reader::new(&root, of.file);
    reader.check_version();
    if !reader.problems.is_empty() {
        return Err(in_file(reader.problems));
    }
    let found = reader.find_operations();
    let mut operations = Vec::new();
    let mut problems = Vec::new();
    for (position, id) in ids.iter().enumerate() {
        match found.iter().find(|operation| operation.id == *id) {
            Some(operation) => {
                if let Some(again) = found.iter().filter(|other| other.id == *id).nth(1) {
                    reader.report_twice(operation, again);
                }
                operations.extend(reader.read(operation));
            }
            None => {
                let known = found.iter().map(|operation| operation.id.to_owned()).collect();
                problems.push(OperationProblems::Unknown { position, known });
            }
        }
    }
    if !reader.problems.is_empty() {
        problems.push(OperationProblems::InFile(reader.problems));
    }
    if problems.is_empty() { Ok(operations) } else { Err(problems) }
}
