//! Operations in the tree of an OpenAPI file.

use super::super::problem::{Location, Problem, ProblemKind};
use super::super::schema::describe;
use super::super::transport::BodyEncoding;
use super::super::yaml::{Content, Entry, Node};
use super::{Operation, OperationBody, Parameter, ParameterForm, ParameterLocation};
use serde_json::{Map, Value as Json, json};
use weftwork_schema::Checker;
use weftwork_types::port::Method;

/// Most characters of the description of a tool.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// Most characters of the name of an argument, as providers take it.
const ARGUMENT_CHARS_MAX: usize = 64;
/// Maximum size of the schema of the arguments of a tool, in bytes.
pub(super) const SCHEMA_BYTES_MAX: usize = 128 << 10;
/// Headers that are no parameters: the definition and the program set them.
const NO_PARAMETERS: [&str; 10] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "proxy-authorization",
    "transfer-encoding",
    "upgrade",
];

/// A reader of a file, which gathers its problems.
pub(super) struct Reader<'n> {
    pub(super) root: &'n Node,
    file: &'n str,
    pub(super) problems: Vec<Problem>,
    /// Bytes left for the schema of the operation that is read.
    pub(super) left: usize,
}

/// An operation in the file.
pub(super) struct Found<'n> {
    pub(super) id: &'n str,
    /// Place of its id.
    location: Location,
    path: &'n Entry,
    item: &'n Node,
    method: Method,
    node: &'n Node,
}

/// A parameter in the file.
struct Declared<'n> {
    location: ParameterLocation,
    name: &'n str,
    node: &'n Node,
}

/// The schema of arguments that is made.
#[derive(Default)]
struct Arguments {
    properties: Map<String, Json>,
    required: Vec<Json>,
}

impl<'n> Reader<'n> {
    pub(super) fn new(root: &'n Node, file: &'n str) -> Self {
        Self { root, file, problems: Vec::new(), left: 0 }
    }

    pub(super) fn report(&mut self, kind: ProblemKind, location: Location, expected: &str) {
        self.report_found(kind, location, "", expected);
    }

    pub(super) fn report_found(
        &mut self,
        kind: ProblemKind,
        location: Location,
        found: &str,
        expected: &str,
    ) {
        let problem = Problem::new(kind, location).in_file(self.file);
        let problem = problem.found(found).expected(expected);
        // A part that several operations refer to is reported once.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    pub(super) fn check_version(&mut self) {
        const EXPECTED: &str = "an OpenAPI file of the version 3.0 or 3.1, with the key `openapi`";
        let Some(version) = self.root.entry("openapi") else {
            let found = describe(self.root);
            self.report_found(ProblemKind::MissingKey, self.root.location, &found, EXPECTED);
            return;
        };
        let text = version.node.text().unwrap_or_default();
        if !text.starts_with("3.0.") && !text.starts_with("3.1.") {
            let found = describe(&version.node);
            self.report_found(ProblemKind::BadValue, version.node.location, &found, EXPECTED);
        }
    }

    pub(super) fn report_twice(&mut self, first: &Found<'_>, again: &Found<'_>) {
        let problem = Problem::new(ProblemKind::Twice, again.location).in_file(self.file);
        let problem = problem.found(again.id).expected("each `operationId` once");
        self.problems.push(problem.other(self.file, first.location));
    }

    /// Returns the operations of the file that have an id.
    pub(super) fn find_operations(&mut self) -> Vec<Found<'n>> {
        let root = self.root;
        let paths = root.entry("paths").map(|paths| paths.node.entries()).unwrap_or_default();
        let mut found = Vec::new();
        for path in paths {
            let Some(item) = self.resolve(&path.node) else { continue };
            for (key, method) in METHODS {
                let Some(operation) = item.entry(key) else { continue };
                let Some(id) = operation.node.entry("operationId") else { continue };
                let Some(text) = id.node.text() else { continue };
                let location = id.node.location;
                let node = &operation.node;
                found.push(Found { id: text, location, path, item, method, node });
            }
        }
        found
    }

    /// Reads an operation; `None` if it has problems.
    pub(super) fn read(&mut self, of: &Found<'n>) -> Option<Operation> {
        let before = self.problems.len();
        self.left = SCHEMA_BYTES_MAX;
        let mut arguments = Arguments::default();
        let parameters = self.read_parameters(of, &mut arguments);
        self.check_path(of, &parameters);
        let body = self.read_body(of, &mut arguments);
        let Arguments { properties, required } = arguments;
        let arguments = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        if self.problems.len() == before
            && let Err(error) = Checker::compile(&arguments)
        {
            let expected = format!("a JSON Schema ({error})");
            self.report_found(ProblemKind::BadSchema, of.location, of.id, &expected);
        }
        (self.problems.len() == before).then(|| Operation {
            id: of.id.to_owned(),
            method: of.method,
            path: of.path.key.clone(),
            description: description_of(of.node),
            parameters,
            body,
            arguments,
        })
    }

    /// Checks that the path has the parameters which it names, and leads nowhere else.
    fn check_path(&mut self, of: &Found<'_>, parameters: &[Parameter]) {
        let Entry { key: path, location, .. } = of.path;
        let named = names_in(path);
        let is_sound = path.starts_with('/')
            && !path.contains(['?', '#', '\\'])
            && path.split('/').all(|part| !matches!(part, "." | ".."));
        let Some(named) = named.filter(|_| is_sound) else {
            let expected = "a path such as `/orders/{id}`";
            self.report_found(ProblemKind::BadValue, *location, path, expected);
            return;
        };
        let of_path = |parameter: &&Parameter| parameter.location == ParameterLocation::Path;
        let known: Vec<_> = parameters.iter().filter(of_path).map(|of| of.name.as_str()).collect();
        for name in &named {
            if !known.contains(name) {
                let expected = format!("a parameter `{name}` with `in: path`");
                self.report_found(ProblemKind::MissingKey, of.location, of.id, &expected);
            }
        }
        for name in known.iter().filter(|name| !named.contains(*name)) {
            let expected =
                format!("`{{{name}}}`, which is a parameter of the operation `{}`", of.id);
            self.report_found(ProblemKind::BadValue, *location, path, &expected);
        }
    }

    /// Returns the parameters of a path and of its operation, which replaces those of one name and
    /// location.
    fn declared_parameters(&mut self, of: &Found<'n>) -> Vec<Declared<'n>> {
        let mut all: Vec<Declared<'n>> = Vec::new();
        for list in [of.item, of.node] {
            let Some(list) = list.entry("parameters") else { continue };
            for node in list.node.items() {
                let Some(node) = self.resolve(node) else { continue };
                let Some(name) = node.entry("name").and_then(|name| name.node.text()) else {
                    self.report(ProblemKind::MissingKey, node.location, "the key `name`, a text");
                    continue;
                };
                let Some(location) = self.location_of(node, name) else { continue };
                all.retain(|other| other.location != location || other.name != name);
                all.push(Declared { location, name, node });
            }
        }
        all
    }

    fn read_parameters(&mut self, of: &Found<'n>, arguments: &mut Arguments) -> Vec<Parameter> {
        let has_body = of.node.entry("requestBody").is_some();
        let mut parameters: Vec<Parameter> = Vec::new();
        for Declared { location, name, node } in self.declared_parameters(of) {
            let form = form_of(node, location);
            let schema = self.schema_of_parameter(node);
            let clean = argument_name(name);
            let is_taken = |name: &String| {
                arguments.properties.contains_key(name) || has_body && name == "body"
            };
            let longer = argument_name(&format!("{}_{clean}", location.name()));
            let Some(argument) = [clean, longer].into_iter().find(|name| !is_taken(name)) else {
                let expected = "parameters whose names differ in letters and digits";
                self.report_found(ProblemKind::Twice, node.location, name, expected);
                continue;
            };
            if location == ParameterLocation::Path || is_true(node, "required") {
                arguments.required.push(argument.clone().into());
            }
            arguments.properties.insert(argument.clone(), schema);
            parameters.push(Parameter { name: name.to_owned(), argument, location, form });
        }
        parameters
    }

    /// Returns the location of a parameter; `None` if it is no argument.
    fn location_of(&mut self, node: &Node, name: &str) -> Option<ParameterLocation> {
        let location = node.entry("in").and_then(|of| of.node.text()).unwrap_or_default();
        match location {
            "path" => Some(ParameterLocation::Path),
            "query" => Some(ParameterLocation::Query),
            "header" if NO_PARAMETERS.contains(&name.to_lowercase().as_str()) => None,
            "header"
                if name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') =>
            {
                Some(ParameterLocation::Header)
            }
            "cookie" if !is_true(node, "required") => None,
            _ => {
                let expected = "`in: path`, `query` or `header`, the latter with a name of letters, digits and `-`";
                let found = format!("`{name}` in `{location}`");
                self.report_found(ProblemKind::BadValue, node.location, &found, expected);
                None
            }
        }
    }

    fn schema_of_parameter(&mut self, node: &'n Node) -> Json {
        let of_content = || Some(&node.entry("content")?.node.entries().first()?.node);
        let holder = if node.entry("schema").is_some() { Some(node) } else { of_content() };
        let schema = holder.and_then(|holder| holder.entry("schema"));
        let mut schema = schema.map_or_else(|| json!({}), |schema| self.schema(&schema.node));
        if let Some(about) = node.entry("description").and_then(|about| about.node.text())
            && let Json::Object(members) = &mut schema
        {
            self.take(about.len());
            members.entry("description").or_insert_with(|| about.into());
        }
        schema
    }

    /// Reads the body: the first of its forms that can be sent.
    fn read_body(&mut self, of: &Found<'n>, arguments: &mut Arguments) -> Option<OperationBody> {
        let entry = of.node.entry("requestBody")?;
        if matches!(of.method, Method::Get | Method::Head) {
            return None;
        }
        let body = self.resolve(&entry.node)?;
        let is_required = is_true(body, "required");
        let forms = body.entry("content").map(|content| content.node.entries());
        let forms = forms.unwrap_or_default();
        let of_encoding =
            |wanted: BodyEncoding| forms.iter().find(|form| encoding_of(&form.key) == Some(wanted));
        let order =
            [BodyEncoding::Json, BodyEncoding::Form, BodyEncoding::Multipart, BodyEncoding::Text];
        let chosen =
            order.into_iter().find_map(|encoding| Some((encoding, of_encoding(encoding)?)));
        let Some((encoding, form)) = chosen else {
            if is_required {
                let expected = "a body in JSON, as a form, with parts, or text";
                let types: Vec<_> = forms.iter().map(|form| form.key.as_str()).collect();
                let found = types.join(", ");
                self.report_found(ProblemKind::BadValue, body.location, &found, expected);
            }
            return None;
        };
        let schema = form.node.entry("schema");
        let schema = schema.map_or_else(|| json!({}), |schema| self.schema(&schema.node));
        arguments.properties.insert("body".to_owned(), schema);
        if is_required {
            arguments.required.push("body".into());
        }
        let members = form.node.entry("encoding").map(|of| of.node.entries()).unwrap_or_default();
        let is_deep = |node: &Node| {
            node.entry("style").is_some_and(|style| style.node.text() == Some("deepObject"))
        };
        let deep = members.iter().filter(|member| is_deep(&member.node));
        let with_indices = deep.map(|member| member.key.clone()).collect();
        Some(OperationBody { encoding, media_type: form.key.clone(), with_indices })
    }
}

/// Methods that are read, by their keys.
const METHODS: [(&str, Method); 6] = [
    ("get", Method::Get),
    ("head", Method::Head),
    ("post", Method::Post),
    ("put", Method::Put),
    ("patch", Method::Patch),
    ("delete", Method::Delete),
];

pub(super) fn is_true(node: &Node, key: &str) -> bool {
    node.entry(key).is_some_and(|entry| entry.node.content == Content::Scalar(Json::Bool(true)))
}

/// Returns the encoding of a media type that can be sent.
fn encoding_of(media_type: &str) -> Option<BodyEncoding> {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_lowercase();
    // It becomes a header.
    if media_type.chars().any(char::is_control) {
        return None;
    }
    match name.as_str() {
        "application/x-www-form-urlencoded" => Some(BodyEncoding::Form),
        "multipart/form-data" => Some(BodyEncoding::Multipart),
        "text/plain" => Some(BodyEncoding::Text),
        "application/json" => Some(BodyEncoding::Json),
        name if name.starts_with("application/") && name.ends_with("+json") => {
            Some(BodyEncoding::Json)
        }
        _ => None,
    }
}

fn form_of(node: &Node, location: ParameterLocation) -> ParameterForm {
    if node.entry("schema").is_none() && node.entry("content").is_some() {
        return ParameterForm::Json;
    }
    let style = node.entry("style").and_then(|style| style.node.text());
    let explodes = node.entry("explode").map(|_| is_true(node, "explode"));
    match (location, style) {
        (ParameterLocation::Query, Some("deepObject")) => ParameterForm::Members,
        (ParameterLocation::Query, Some("spaceDelimited")) => ParameterForm::Joined(' '),
        (ParameterLocation::Query, Some("pipeDelimited")) => ParameterForm::Joined('|'),
        (ParameterLocation::Query, _) if explodes.unwrap_or(true) => ParameterForm::Pairs,
        _ => ParameterForm::Joined(','),
    }
}

/// Returns the name of an argument: providers take letters, digits, `_` and `-`.
fn argument_name(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let plain = name.chars().map(|char| if is_plain(char) { char } else { '_' });
    plain.take(ARGUMENT_CHARS_MAX).collect()
}

/// Returns the names between braces; `None` if they are not closed, or one has no name.
pub(crate) fn names_in(path: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = path;
    while let Some(start) = rest.find(['{', '}']) {
        let inner = rest.get(start..)?.strip_prefix('{')?;
        let (name, after) = inner.split_once('}')?;
        if name.is_empty() || name.contains(['{', '/']) {
            return None;
        }
        names.push(name);
        rest = after;
    }
    Some(names)
}

fn description_of(operation: &Node) -> String {
    let text = |key: &str| operation.entry(key).and_then(|entry| entry.node.text());
    let parts: Vec<_> = ["summary", "description"].into_iter().filter_map(text).collect();
    parts.join("\n").trim().chars().take(DESCRIPTION_CHARS_MAX).collect()
}
