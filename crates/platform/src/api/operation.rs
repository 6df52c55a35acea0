//! Requests of the operations of an OpenAPI file.

use super::address::climbs;
use super::body::{Encoded, add, encode, encode_pairs, pairs_of, text_of};
use crate::definition::{BodyEncoding, Operation, OperationBody, ParameterForm, ParameterLocation};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use url::Url;

/// The parts of a request that the arguments of an operation make.
pub(super) struct OperationParts {
    pub(super) url: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Encoded,
}

/// Makes the request of an operation at an endpoint. The error is what is wrong with the arguments.
pub(super) fn parts_of(
    operation: &Operation,
    endpoint: &Url,
    args: &Value,
    boundary: &str,
) -> Result<OperationParts, String> {
    let mut url = endpoint.clone();
    let base = endpoint.path().trim_end_matches('/');
    let path = format!("{base}{}", fill_path(operation, args)?);
    url.set_path(&path);
    // The path is the one that was made: nothing in it leads to another one.
    if url.path() != path || url.origin() != endpoint.origin() {
        return Err(format!("the path `{path}` would be requested as `{}`", url.path()));
    }
    let mut headers = Vec::new();
    let mut pairs = Vec::new();
    for parameter in &operation.parameters {
        let Some(value) = args.get(&parameter.argument).filter(|value| !value.is_null()) else {
            continue;
        };
        match parameter.location {
            ParameterLocation::Path => {}
            ParameterLocation::Query => {
                add_pairs(&parameter.name, parameter.form, value, &mut pairs)?
            }
            ParameterLocation::Header => {
                let text = joined(value, ',', parameter.form);
                if text.chars().any(char::is_control) {
                    return Err(format!("`{}` has a line break", parameter.argument));
                }
                headers.push((parameter.name.to_lowercase(), text));
            }
        }
    }
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    let body = match &operation.body {
        None => Encoded::default(),
        Some(of) => {
            let mut body = match (of.encoding, &args["body"]) {
                (BodyEncoding::Form | BodyEncoding::Multipart, Value::Object(members)) => {
                    encode_pairs(of.encoding, &form_pairs(of, members), boundary)?
                }
                (encoding, body) => encode(encoding, body, boundary)?,
            };
            if of.encoding == BodyEncoding::Json && body.content_type.is_some() {
                body.content_type = Some(of.media_type.clone());
            }
            body
        }
    };
    Ok(OperationParts { url, headers, body })
}

/// Returns the names and texts of a form as OpenAPI has them: a list has its name once for each item,
/// unless the file says otherwise.
fn form_pairs(of: &OperationBody, members: &Map<String, Value>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in members {
        match value {
            Value::Array(items) if !of.with_indices.contains(name) => {
                pairs.extend(items.iter().map(|item| (name.clone(), text_of(item))));
            }
            value => add(name.clone(), value, &mut pairs),
        }
    }
    pairs
}

/// Fills in the parameters of a path. A value stays within its segment.
fn fill_path(operation: &Operation, args: &Value) -> Result<String, String> {
    let mut path = operation.path.clone();
    // A literal brace is no part of a path that was read.
    for parameter in operation.parameters.iter().filter(|of| of.location == ParameterLocation::Path)
    {
        let value = args.get(&parameter.argument).unwrap_or(&Value::Null);
        let text = joined(value, ',', parameter.form);
        if text.is_empty() {
            return Err(format!("`{}` is empty, and a part of the path", parameter.argument));
        }
        path = path.replace(&format!("{{{}}}", parameter.name), &encode_segment(&text));
    }
    // Some servers decode a value before they resolve `..` in it.
    if climbs(&path) || path.split('/').any(|segment| segment == ".") {
        return Err(format!("the path `{path}` leads to another one"));
    }
    Ok(path)
}

/// Encodes a value for a segment of a path: all but letters, digits, `-`, `.`, `_` and `~`.
pub(crate) fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            // A text takes every write.
            _ => write!(encoded, "%{byte:02X}").unwrap_or_default(),
        }
    }
    encoded
}

/// Returns a value as one text: items, or names and values, with a character between them.
fn joined(value: &Value, between: char, form: ParameterForm) -> String {
    if form == ParameterForm::Json {
        return value.to_string();
    }
    let parts: Vec<String> = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::Object(members) => {
            members.iter().flat_map(|(name, value)| [name.clone(), text_of(value)]).collect()
        }
        other => vec![text_of(other)],
    };
    parts.join(&between.to_string())
}

fn add_pairs(
    name: &str,
    form: ParameterForm,
    value: &Value,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), String> {
    match (form, value) {
        (ParameterForm::Members, Value::Object(_)) => {
            pairs.extend(pairs_of(&json!({name: value}))?);
        }
        (ParameterForm::Pairs, Value::Array(items)) => {
            pairs.extend(items.iter().map(|item| (name.to_owned(), text_of(item))));
        }
        (ParameterForm::Pairs, Value::Object(members)) => {
            pairs.extend(members.iter().map(|(name, value)| (name.clone(), text_of(value))));
        }
        (ParameterForm::Joined(between), value) => {
            pairs.push((name.to_owned(), joined(value, between, form)));
        }
        (form, value) => pairs.push((name.to_owned(), joined(value, ',', form))),
    }
    Ok(())
}
