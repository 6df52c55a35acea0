//! The JSON Schema of definitions, and the problems that it finds.

use super::file::Definition;
use super::problem::{Problem, ProblemKind};
use super::yaml::{Content, Node};
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use weftwork_schema::{Checker, Violation, ViolationKind};

/// Maximum number of reported problems of a file.
pub(super) const PROBLEMS_MAX: usize = 100;

/// Returns the JSON Schema of a definition, for editors and other programs.
#[must_use]
pub fn schema() -> Json {
    let mut schema = of_definition();
    schema["title"] = json!("Agent definition of Weftwork");
    // A mapping whose members are lifted, or the same as a text.
    schema["properties"]["yaml"] = json!({
        "description": "More keys of the definition, as a mapping or as a text; each key stands in one of the two.",
        "type": ["object", "string"],
    });
    schema
}

fn of_definition() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    let generator = settings.with_transform(Plain).into_generator();
    generator.into_root_schema_for::<Definition>().to_value()
}

/// Makes schemas plain: a value that may be absent is not null, and a word is one of a list.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(forms) = schema.get("anyOf").and_then(Json::as_array).cloned()
            && let [form, null] = forms.as_slice()
            && *null == json!({"type": "null"})
        {
            schema.remove("anyOf");
            let description = schema.get("description").cloned();
            for (key, value) in form.as_object().into_iter().flatten() {
                schema.insert(key.clone(), value.clone());
            }
            if let Some(description) = description {
                schema.insert("description".to_owned(), description);
            }
        }
        if let Some(words) = schema.get("oneOf").and_then(Json::as_array).cloned() {
            let words: Option<Vec<_>> =
                words.iter().map(|word| word.get("const").cloned()).collect();
            if let Some(words) = words {
                schema.remove("oneOf");
                schema.insert("enum".to_owned(), words.into());
            }
        }
        if let Some(Json::Array(types)) = schema.get("type")
            && let [Json::String(of), Json::String(null)] = types.as_slice()
            && null == "null"
        {
            let of = of.clone();
            schema.insert("type".to_owned(), of.into());
        }
        if schema.get("default").is_some_and(Json::is_null) {
            schema.remove("default");
        }
    }
}

/// The schema with its compiled form.
struct Compiled {
    schema: Json,
    checker: Result<Checker, String>,
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let schema = of_definition();
    let checker = Checker::compile(&schema);
    Compiled { schema, checker }
});

/// Returns the problems of a definition whose members are at the top level.
pub(super) fn problems_of(node: &Node) -> Vec<Problem> {
    let Compiled { schema, checker } = &*COMPILED;
    let checker = match checker {
        Ok(checker) => checker,
        Err(error) => {
            return vec![Problem::new(ProblemKind::BadSchema, node.location).found(error)];
        }
    };
    let violations = checker.violations(&node.to_json(), PROBLEMS_MAX);
    violations.iter().flat_map(|violation| problems(node, schema, violation)).collect()
}

fn problems(node: &Node, schema: &Json, violation: &Violation) -> Vec<Problem> {
    let Some(at) = node.at(&violation.at) else { return Vec::new() };
    let path = path_of(&violation.at);
    let new = |kind| Problem::new(kind, at.location).path(&path);
    match &violation.kind {
        ViolationKind::UnknownMembers(names) => {
            let known = known_names(schema, &violation.keyword);
            let problem = |name: &String| {
                let location = at.entry(name).map_or(at.location, |entry| entry.location);
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let known = known.iter().map(String::as_str);
                Problem::new(ProblemKind::UnknownKey, location)
                    .path(path)
                    .expected(list_of(known.clone()))
                    .nearest_of(name, known)
            };
            names.iter().map(problem).collect()
        }
        ViolationKind::MissingMember(name) => {
            vec![new(ProblemKind::MissingKey).expected(format!("the key `{name}`"))]
        }
        ViolationKind::Type(expected) => {
            let expected = expected.replace("object", "mapping").replace("array", "list");
            vec![new(ProblemKind::WrongType).found(describe(at)).expected(expected)]
        }
        ViolationKind::NoneOf(options) => {
            let words: Vec<&str> = options.iter().filter_map(Json::as_str).collect();
            let found = describe(at);
            let word = at.to_json().as_str().unwrap_or_default().to_owned();
            let problem = new(ProblemKind::UnknownWord).found(found);
            let problem = problem.expected(list_of(words.iter().copied()));
            vec![problem.nearest_of(&word, words.into_iter())]
        }
        ViolationKind::Other(text) => {
            // Credentials may stand where only their names belong.
            let is_secret = violation.at.contains("/authentication/");
            let found = if is_secret { String::new() } else { describe(at) };
            let expected = expected_by(schema, &violation.keyword);
            let expected = expected.unwrap_or_else(|| text.clone());
            vec![new(ProblemKind::BadValue).found(found).expected(expected)]
        }
        _ => vec![new(ProblemKind::BadValue).found(describe(at))],
    }
}

/// Describes a limit of the schema.
fn expected_by(schema: &Json, keyword: &str) -> Option<String> {
    let limit = at_keyword(schema, keyword)?;
    let name = keyword.rsplit('/').next()?;
    Some(match name {
        "minimum" => format!("at least {limit}"),
        "maximum" => format!("at most {limit}"),
        "minLength" => format!("at least {limit} characters"),
        "maxLength" => format!("at most {limit} characters"),
        "minItems" => format!("at least {limit} entries"),
        "maxItems" => format!("at most {limit} entries"),
        "pattern" => format!("the form `{}`", limit.as_str()?),
        _ => return None,
    })
}

/// Returns the part of the schema at a pointer that follows references, such as those of steps in steps.
fn at_keyword<'s>(schema: &'s Json, pointer: &str) -> Option<&'s Json> {
    let names = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    names.into_iter().try_fold(schema, |at, name| match at {
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => match (name.as_str(), other.get(&name)?) {
            ("$ref", Json::String(reference)) => schema.pointer(reference.strip_prefix('#')?),
            (_, found) => Some(found),
        },
    })
}

/// Returns the names that an object may have, from the location of the keyword that refuses others.
fn known_names(schema: &Json, keyword: &str) -> Vec<String> {
    let object = keyword.rsplit_once('/').map_or("", |(object, _)| object);
    let properties = at_keyword(schema, object).and_then(|object| object.get("properties"));
    properties.and_then(Json::as_object).into_iter().flat_map(|of| of.keys().cloned()).collect()
}

fn list_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "nothing here".to_owned(),
        1..=8 => names.join(", "),
        more => format!("{} and {} more", names[..8].join(", "), more - 8),
    }
}

/// Returns the path of a JSON pointer: `/a/0/b` is `a.0.b`.
pub(super) fn path_of(pointer: &str) -> String {
    let names = pointer.split('/').skip(1);
    let names: Vec<_> = names.map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    names.join(".")
}

/// Describes a value: its type, and the value itself if it is short.
pub(super) fn describe(node: &Node) -> String {
    match &node.content {
        Content::Scalar(Json::Null) => "no value".to_owned(),
        Content::Scalar(Json::Bool(value)) => format!("boolean {value}"),
        Content::Scalar(Json::Number(value)) => format!("number {value}"),
        Content::Scalar(value) => format!("string {value}"),
        Content::List(nodes) => format!("a list of {}", nodes.len()),
        Content::Mapping(entries) => format!("a mapping of {}", entries.len()),
    }
}
