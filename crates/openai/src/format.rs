//! Formats of answers that clients ask for.
//!
//! The content of a build satisfies the `output_schema` of its agent, and nothing else is promised. A
//! client that asks for what is not promised is refused: it would read a text as data.

use crate::error::{ApiError, Result};
use crate::model::Model;
use serde_json::{Map, Value};

/// Members of schemas that say nothing about values.
const ANNOTATIONS: [&str; 6] = ["$schema", "$id", "title", "description", "default", "examples"];

/// A format as a client asks for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    /// Any JSON object.
    Object,
    /// JSON of a schema.
    Schema(Value),
}

impl Format {
    /// Reads a format. The members of a schema are in `json_schema` for chat completions, and beside the
    /// type for responses.
    ///
    /// # Errors
    /// Status 400 for an unknown format, and for one without its schema.
    pub(crate) fn read(format: &Value, param: &str) -> Result<Self> {
        match format["type"].as_str() {
            Some("text") => Ok(Self::Text),
            Some("json_object") => Ok(Self::Object),
            Some("json_schema") => {
                let schema = format.pointer("/json_schema/schema").or(format.get("schema"));
                let schema = schema.cloned().unwrap_or_default();
                match schema.is_object() {
                    true => Ok(Self::Schema(schema)),
                    false => {
                        let param = format!("{param}.schema");
                        Err(ApiError::wrong_type(&param, &schema, "a JSON Schema, as an object"))
                    }
                }
            }
            _ => {
                let param = format!("{param}.type");
                let expected = "text, json_object or json_schema";
                Err(ApiError::wrong_type(&param, &format["type"], expected))
            }
        }
    }

    /// Checks that the answers of a model have the format.
    ///
    /// # Errors
    /// Status 400 if they need not have it.
    pub(crate) fn check(&self, model: &Model, param: &str) -> Result<()> {
        let promised = model.output.as_ref();
        let message = match (self, promised) {
            (Self::Text, _) => return Ok(()),
            (Self::Object, Some(promised)) if promised["type"] == "object" => return Ok(()),
            (Self::Schema(asked), Some(promised)) if bare(asked) == bare(promised) => return Ok(()),
            (_, None) => format!(
                "`{param}` asks for JSON, and the model `{}` answers with a text; ask one whose agent \
                 makes builds with an `output_schema`",
                model.id
            ),
            (Self::Object, Some(_)) => format!(
                "`{param}` asks for a JSON object, and the `output_schema` of the model `{}` has another \
                 `type`",
                model.id
            ),
            (Self::Schema(_), Some(_)) => format!(
                "`{param}` has another schema than the `output_schema` of the model `{}`, which its \
                 answers satisfy; send that one, or `json_object`",
                model.id
            ),
        };
        Err(ApiError::invalid(param, message))
    }
}

/// Returns a schema without what says nothing about values.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let says = |(name, _): &(&String, &Value)| !ANNOTATIONS.contains(&name.as_str());
            let members = members.iter().filter(says).map(|(name, value)| {
                let is_names = ["properties", "$defs", "definitions"].contains(&name.as_str());
                let value = match value {
                    // The members of these are names, and not keywords.
                    Value::Object(named) if is_names => {
                        named.iter().map(|(name, value)| (name.clone(), bare(value))).collect()
                    }
                    // A value is as it is.
                    value if ["const", "enum"].contains(&name.as_str()) => value.clone(),
                    value => bare(value),
                };
                (name.clone(), value)
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(list) => list.iter().map(bare).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_make_no_difference_and_names_and_values_do() {
        let schema = json!({"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string"}, "kind": {"enum": [{"title": "a"}]},
        }});
        let mut noted = schema.clone();
        noted["title"] = "Club".into();
        noted["properties"]["title"]["description"] = "Its name".into();
        assert_eq!(bare(&noted), bare(&schema));
        for (path, value) in [
            ("/properties/title/type", json!("number")),
            ("/properties/kind/enum", json!([{}])),
            ("/required", json!([])),
        ] {
            let mut other = schema.clone();
            *other.pointer_mut(path).expect("is there") = value;
            assert_ne!(bare(&other), bare(&schema), "{path}");
        }
        let mut renamed = schema.clone();
        renamed["properties"].as_object_mut().expect("an object").shift_remove("title");
        assert_ne!(bare(&renamed), bare(&schema));
    }
}
