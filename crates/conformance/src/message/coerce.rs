//! Conversion, as in Python, of values that are written to a conversation and are no messages.

use super::{is_record, put, removal, role_of};
use crate::expr;
use crate::python::{self, Raised};
use serde_json::{Map, Value as Json};

/// The changes that a write to a conversation denotes, as the product reads them.
pub(crate) fn coerced(write: &Json) -> Result<Json, Raised> {
    match write {
        Json::Null => {
            let message = "Must specify non-null arguments for both 'left' and 'right'";
            Err(Raised::new("ValueError", message))
        }
        Json::Array(items) => items.iter().map(one).collect(),
        value => one(value).map(|value| Json::Array(vec![value])),
    }
}

fn one(value: &Json) -> Result<Json, Raised> {
    match value {
        value if is_record(value) => Ok(value.clone()),
        Json::String(text) => made("human", &text.as_str().into(), None),
        Json::Array(pair) => match pair.as_slice() {
            [Json::String(role), content] => made(role, content, None),
            [role, _] => Err(unexpected(&python::text(role))),
            _ => {
                let message = "Message as a sequence must be (role string, template)";
                Err(Raised::new("NotImplementedError", message))
            }
        },
        Json::Object(members) if expr::as_send(value).is_none() => object(members),
        other => {
            let message = format!("Unsupported message type: {}", python::type_name(other));
            Err(Raised::new("NotImplementedError", message))
        }
    }
}

fn object(members: &Map<String, Json>) -> Result<Json, Raised> {
    let role = members.get("role").or_else(|| members.get("type"));
    let Some((role, content)) = role.zip(members.get("content")) else {
        let message = "Message dict must contain 'role' and 'content' keys";
        return Err(Raised::new("ValueError", message));
    };
    let id = match members.get("id") {
        None | Some(Json::Null) => None,
        Some(Json::String(id)) => Some(id.clone()),
        Some(Json::Number(id)) => Some(id.to_string()),
        Some(_) => return Err(invalid("message")),
    };
    let nothing = Json::from("");
    let content = if python::truth(content) { content } else { &nothing };
    match role.as_str() {
        Some("tool") if !members.contains_key("tool_call_id") => Err(invalid("ToolMessage")),
        Some(role) => made(role, content, id.as_deref()),
        None => Err(unexpected(&python::text(role))),
    }
}

fn made(role: &str, content: &Json, id: Option<&str>) -> Result<Json, Raised> {
    let name = match role {
        "user" => "human",
        "assistant" => "ai",
        "developer" => "system",
        "remove" => return Ok(removal(id)),
        role => role,
    };
    let role = role_of(name).ok_or_else(|| unexpected(role))?;
    check_content(content, name)?;
    Ok(put(role, content, id))
}

/// Refuses contents that are neither a text nor a list of texts and objects.
pub(crate) fn check_content(content: &Json, role: &str) -> Result<(), Raised> {
    let is_part = |part: &Json| part.is_string() || part.is_object();
    let fits = match content {
        Json::String(_) => true,
        Json::Array(parts) => parts.iter().all(is_part),
        _ => false,
    };
    fits.then_some(()).ok_or_else(|| invalid(role))
}

fn invalid(role: &str) -> Raised {
    Raised::new("ValidationError", format!("validation errors for a message of {role}"))
}

fn unexpected(role: &str) -> Raised {
    Raised::new("ValueError", format!("Unexpected message type: '{role}'"))
}

#[cfg(test)]
mod tests {
    use super::coerced;
    use crate::message::shown;
    use serde_json::{Value as Json, json};

    fn class(write: Json) -> String {
        coerced(&write).unwrap_err().class
    }

    #[test]
    fn texts_pairs_and_objects_are_messages() {
        let write = json!(["a", ["ai", "b"], {"role": "user", "content": "c", "id": "c"},
            {"type": "system", "content": null, "id": 5}]);
        let expected = json!([
            {"$msg": ["human", "a", null]}, {"$msg": ["ai", "b", null]},
            {"$msg": ["human", "c", "c"]}, {"$msg": ["system", "", "5"]},
        ]);
        assert_eq!(shown(coerced(&write).unwrap()), expected);
        assert_eq!(shown(coerced(&json!("a")).unwrap())[0]["$msg"][0], json!("human"));
    }

    #[test]
    fn what_python_refuses_is_refused_with_its_class() {
        assert_eq!(class(json!(null)), "ValueError");
        assert_eq!(class(json!({"a": 1})), "ValueError");
        assert_eq!(class(json!({"role": "boss", "content": "x"})), "ValueError");
        assert_eq!(class(json!({"role": "ai", "content": 5})), "ValidationError");
        for value in [json!(5), json!([null]), json!([true]), json!([["ai"]]), json!([[]])] {
            assert_eq!(class(value), "NotImplementedError");
        }
        assert_eq!(class(json!({"$send": ["a", 1]})), "NotImplementedError");
    }
}
