//! Forms of requests and answers: values with placeholders, and programs of jq.
//!
//! `{{a.b.0}}` is the value at a path of the scope. A text that is one placeholder becomes the value
//! itself; in a longer text, a value is inserted as text. There are no conditions and no loops, so that a
//! form does work in proportion to its size.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Most bytes of a value that a form makes, as JSON.
const BYTES_MAX: usize = 1 << 20;

/// The key of a program.
const JQ: &str = "jq";

/// A form that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Transform {
    /// A mapping, or a text with placeholders.
    Form(Form),
    /// A program of jq, which a sandbox executes.
    Jq(String),
}

/// A value with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form(Value);

impl Transform {
    /// Reads a form; the error is the reason why it is none. The program of `{jq: …}` is not read.
    ///
    /// A text that is JSON is read as its value before anything is inserted: a value with a quotation
    /// mark or a line break does not break it.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let Value::String(text) = value else {
            return match value {
                Value::Object(members) if members.len() == 1 && members.contains_key(JQ) => {
                    let program = members.get(JQ).and_then(Value::as_str);
                    let program = program.ok_or("the program of `jq` is no text")?;
                    Ok(Self::Jq(program.to_owned()))
                }
                Value::Object(_) | Value::Array(_) => Ok(Self::of(value.clone())),
                other => Err(format!("{other} is no mapping and no text")),
            };
        };
        if text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("{{") {
            let read = serde_json::from_str(text).map(Self::of);
            return read.map_err(|error| {
                format!("the text begins as JSON and is none ({error}); write a mapping, or placeholders in quotation marks")
            });
        }
        match text.contains("{{") {
            true => Ok(Self::of(value.clone())),
            false => Err("the text has no placeholder such as `{{message}}`; write a program of jq as `{jq: PROGRAM}`".to_owned()),
        }
    }

    fn of(value: Value) -> Self {
        Self::Form(Form(value))
    }
}

impl Form {
    /// Returns the value that the form makes of a scope; the error is the reason why there is none.
    pub(crate) fn apply(&self, scope: &Value) -> Result<Value, String> {
        let mut left = BYTES_MAX;
        fill(&self.0, scope, &mut left)
    }
}

/// Fills in the texts of the members of a query.
pub(crate) fn fill_in(
    members: &BTreeMap<String, Value>,
    scope: &Value,
) -> Result<Map<String, Value>, String> {
    let mut left = BYTES_MAX;
    fill_members(members, scope, &mut left)
}

/// Fills in an address. A text that is one placeholder is an address itself; in a longer one, values are
/// encoded. The error is the reason why there is none.
pub(crate) fn fill_address(
    text: &str,
    scope: &Value,
    encode: fn(&str) -> String,
) -> Result<String, String> {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((path, behind)) = after.split_once("}}") else { break };
        let path = path.trim();
        let value = match at_path(scope, path) {
            Value::String(value) => value.clone(),
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            _ => return Err(format!("`{path}` is no text and no number")),
        };
        if before.is_empty() && behind.is_empty() && made.is_empty() {
            return Ok(value);
        }
        made.push_str(before);
        if value.is_empty() && !made.contains('?') {
            return Err(format!("`{path}` is empty, and a part of the path"));
        }
        made.push_str(&encode(&value));
        rest = behind;
    }
    made.push_str(rest);
    let path = made.split(['?', '#']).next().unwrap_or_default();
    // The address that is read from it would be one without these segments.
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(format!("the path of `{made}` leads to another one"));
    }
    Ok(made)
}

/// Fills in one form, which may be any value.
pub(crate) fn fill_value(form: &Value, scope: &Value) -> Result<Value, String> {
    let mut left = BYTES_MAX;
    fill(form, scope, &mut left)
}

/// Returns the paths of the placeholders of a form.
pub(crate) fn paths_of(form: &Value) -> Vec<&str> {
    match form {
        Value::String(text) => paths_of_text(text),
        Value::Array(items) => items.iter().flat_map(paths_of).collect(),
        Value::Object(members) => members.values().flat_map(paths_of).collect(),
        _ => Vec::new(),
    }
}

/// Returns the paths of the placeholders of a text.
pub(crate) fn paths_of_text(text: &str) -> Vec<&str> {
    let opened = text.split("{{").skip(1);
    opened.filter_map(|after| Some(after.split_once("}}")?.0.trim())).collect()
}

fn fill(form: &Value, scope: &Value, left: &mut usize) -> Result<Value, String> {
    Ok(match form {
        Value::String(text) => fill_text(text, scope, left)?,
        Value::Array(items) => {
            let items = items.iter().map(|item| fill(item, scope, left));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => Value::Object(fill_members(members, scope, left)?),
        other => other.clone(),
    })
}

fn fill_members<'m>(
    members: impl IntoIterator<Item = (&'m String, &'m Value)>,
    scope: &Value,
    left: &mut usize,
) -> Result<Map<String, Value>, String> {
    let filled = members.into_iter().map(|(name, value)| {
        take(left, name.len())?;
        Ok((name.clone(), fill(value, scope, left)?))
    });
    filled.collect()
}

fn fill_text(text: &str, scope: &Value, left: &mut usize) -> Result<Value, String> {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((path, behind)) = after.split_once("}}") else { break };
        let value = at_path(scope, path.trim());
        if before.is_empty() && behind.is_empty() && made.is_empty() {
            take(left, value.to_string().len())?;
            return Ok(value.clone());
        }
        made.push_str(before);
        match value {
            Value::String(inner) => made.push_str(inner),
            Value::Null => {}
            other => made.push_str(&other.to_string()),
        }
        if made.len() > *left {
            return Err(too_large());
        }
        rest = behind;
    }
    made.push_str(rest);
    take(left, made.len())?;
    Ok(Value::String(made))
}

fn take(left: &mut usize, bytes: usize) -> Result<(), String> {
    *left = left.checked_sub(bytes).ok_or_else(too_large)?;
    Ok(())
}

fn too_large() -> String {
    format!("it makes a value of more than {BYTES_MAX} bytes")
}

/// Returns the value at a path; null if there is none. Of a list, `-1` is the last item.
pub(crate) fn at_path<'v>(scope: &'v Value, path: &str) -> &'v Value {
    let step = |at: &'v Value, name: &str| match at {
        Value::Array(items) => match name.strip_prefix('-') {
            None => items.get(name.parse::<usize>().ok()?),
            Some(back) => items.get(items.len().checked_sub(back.parse().ok()?)?),
        },
        other => other.get(name),
    };
    let mut names = path.split('.');
    names.try_fold(scope, step).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn apply(form: Value) -> Result<Value, String> {
        let scope = json!({"message": "pay {{input.n}}", "input": {"n": 7, "list": ["a", {"b": true}], "none": null}});
        form_of(&form)?.apply(&scope)
    }

    fn form_of(form: &Value) -> Result<Form, String> {
        match Transform::read(form)? {
            Transform::Form(form) => Ok(form),
            Transform::Jq(program) => Err(format!("jq: {program}")),
        }
    }

    #[test]
    fn a_placeholder_alone_is_the_value_and_within_a_text_its_text() {
        let made = apply(json!({
            "n": "{{input.n}}", "list": "{{ input.list }}", "b": "{{input.list.1.b}}",
            "text": "n={{input.n}}, b={{input.list.1.b}}, none={{input.none}}{{input.missing}}",
            "last": ["{{input.list.-1.b}}", "{{input.list.-2}}", "{{input.list.-3}}", "{{input.list.-0}}"],
            "missing": "{{input.missing.deep}}", "fixed": 3, "open": "{{ and }} and {{x",
        }));
        let expected = json!({
            "n": 7, "list": ["a", {"b": true}], "b": true, "last": [true, "a", null, null], "text": "n=7, b=true, none=",
            "missing": null, "fixed": 3, "open": " and {{x",
        });
        assert_eq!(made, Ok(expected));
    }

    #[test]
    fn a_text_of_json_is_read_before_its_values_are_inserted() {
        let scope = json!({"message": "say \"hi\"\nand \\ go", "input": {"n": 7}});
        let form = json!(
            r#"{"chatInput": "{{message}}", "n": "{{input.n}}", "to": ["{{input.n}} times"]}"#
        );
        let made = form_of(&form).and_then(|form| form.apply(&scope));
        let expected = json!({"chatInput": scope["message"], "n": 7, "to": ["7 times"]});
        assert_eq!(made, Ok(expected));
        let open = Transform::read(&json!(r#"{"n": {{input.n}}}"#));
        assert!(open.is_err_and(|reason| reason.contains("in quotation marks")));
    }

    #[test]
    fn a_mapping_with_the_one_key_jq_is_a_program() {
        let read = |form: Value| Transform::read(&form);
        assert_eq!(read(json!({"jq": ".input"})), Ok(Transform::Jq(".input".to_owned())));
        assert_eq!(read(json!({"jq": "{{x}}"})), Ok(Transform::Jq("{{x}}".to_owned())));
        assert!(read(json!({"jq": 3})).is_err_and(|reason| reason.contains("no text")));
        let others = [json!({"jq": ".", "query": "{{message}}"}), json!([{"jq": "."}]), json!({})];
        for other in others {
            assert_eq!(read(other.clone()), Ok(Transform::Form(Form(other))));
        }
    }

    #[test]
    fn data_is_no_template() {
        assert_eq!(apply(json!("{{message}}")), Ok(json!("pay {{input.n}}")));
        assert_eq!(apply(json!(["-{{message}}-"])), Ok(json!(["-pay {{input.n}}-"])));
    }

    #[test]
    fn what_is_no_form_is_refused_and_what_it_makes_is_bounded() {
        assert!(apply(json!(".input | .n")).is_err_and(|reason| reason.contains("jq")));
        assert!(apply(json!(3)).is_err());
        let large = json!({"input": {"x": "x".repeat(600_000)}});
        let twice = Form(json!(["{{input.x}}", "{{input.x}}"]));
        assert!(twice.apply(&large).is_err_and(|reason| reason.contains("1048576")));
        let within = Form(json!("{{input.x}}{{input.x}}"));
        assert!(within.apply(&large).is_err());
        // Forms that are made to do harm: many placeholders, deep and wide forms, long paths.
        let large = json!({"input": {"x": "x".repeat(1_000), "{{input.x}}": "{{input.x}}"}});
        let bombs = [
            json!("{{input.x}}".repeat(2_000)),
            json!(vec!["{{input.x}}"; 2_000]),
            json!({"a": vec![json!({"b": "{{input}}"}); 2_000]}),
            json!(vec![json!(vec!["{{input.x}}"; 50]); 50]),
        ];
        for bomb in bombs {
            let made = form_of(&bomb).and_then(|form| form.apply(&large));
            assert!(made.is_err_and(|reason| reason.contains("1048576")));
        }
        let harmless = [
            (json!("{{".repeat(200_000)), json!("{{".repeat(200_000))),
            (json!(format!("{{{{{}}}}}", "input.".repeat(200_000))), Value::Null),
            (json!("{{input.{{input.x}}}}"), json!("}}")),
        ];
        for (form, expected) in harmless {
            assert_eq!(form_of(&form).and_then(|form| form.apply(&large)), Ok(expected));
        }
    }
}
