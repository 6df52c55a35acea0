//! Approvals in the shape of LangChain's middleware for humans in the loop.
//!
//! Source: `HITLRequest` and `HITLResponse` of `langchain` 1.

use crate::chat::question::allowed_decisions;
use serde_json::{Value, json};
use weftwork_types::approval::ApprovalRequest;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::tool::wire_name;

/// Returns the value of the interrupt of an approval. The answer has `decisions`, with one element.
pub(crate) fn request_to_json(request: &ApprovalRequest, question: &Interrupt) -> Value {
    let name = wire_name(&request.tool);
    let mut config = json!({"action_name": name, "allowed_decisions": allowed_decisions(question)});
    let forms = question.answer_schema.as_ref().and_then(|schema| schema["oneOf"].as_array());
    let schema = |form: &Value| form.pointer("/properties/args").cloned();
    if let Some(schema) = forms.and_then(|forms| forms.iter().find_map(schema)) {
        config["args_schema"] = schema;
    }
    json!({
        "action_requests": [{
            "name": name, "args": request.args, "description": request.reason,
        }],
        "review_configs": [config],
    })
}

/// Returns the schema of the answer to an approval: that of our own clients, or `decisions`.
pub(crate) fn response_schema(question: &Interrupt) -> Value {
    let mut schema = json!(question.answer_schema);
    if let Some(forms) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        let kind = json!({"enum": allowed_decisions(question)});
        let decision =
            json!({"type": "object", "properties": {"type": kind}, "required": ["type"]});
        forms.push(json!({
            "type": "object",
            "properties": {
                "decisions": {"type": "array", "items": decision, "minItems": 1, "maxItems": 1},
            },
            "required": ["decisions"],
            "additionalProperties": false,
        }));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::response_schema;
    use serde_json::{Value, json};
    use weftwork_types::interrupt::{Ask, Interrupt};
    use weftwork_types::{InterruptId, TaskId};

    fn question(schema: Option<Value>) -> Interrupt {
        Interrupt {
            id: InterruptId(1),
            task: TaskId(1),
            node: "tool".to_owned(),
            graph: None,
            ask: Ask::Value { value: json!("yes?") },
            answer_schema: schema,
            expires_at: None,
            default: None,
            key: None,
        }
    }

    #[test]
    fn only_schemas_with_alternatives_get_the_form_with_decisions() {
        for schema in [None, Some(json!(true)), Some(json!({"type": "string"}))] {
            assert_eq!(response_schema(&question(schema.clone())), json!(schema));
        }
        let ours = json!({"oneOf": [{"type": "object"}]});
        let forms = response_schema(&question(Some(ours)))["oneOf"].take();
        assert_eq!(forms.as_array().map(Vec::len), Some(2), "{forms}");
        assert_eq!(forms[1]["required"], json!(["decisions"]));
    }
}
