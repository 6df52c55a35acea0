//! Questions as forms of the protocol, and their answers.
//!
//! A form is an object of texts, numbers, truth values and choices. A question for something else asks for
//! JSON in a text. One about a call of unknown outcome asks what happened, and for the result if it did.

use crate::error::{McpError, Result};
use serde_json::{Value, json};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::run::AnswerTo;
use weftwork_types::tool::{Reply, UnknownAnswer};

/// Member of forms that ask for one value.
const ANSWER: &str = "answer";
/// Member of forms about a call of unknown outcome that has its result.
const VALUE: &str = "value";
/// Members of primitive schemas that forms have.
const FORM_MEMBERS: [&str; 15] = [
    "type",
    "title",
    "description",
    "minLength",
    "maxLength",
    "format",
    "minimum",
    "maximum",
    "enum",
    "enumNames",
    "oneOf",
    "default",
    "items",
    "minItems",
    "maxItems",
];
/// Formats of texts that forms have.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The effect of the response to a form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Response {
    Answer(AnswerTo),
    /// The person gives no answer, and the question has no other.
    Dismissed,
}

/// The form of a question.
#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// The decision about a call.
    Approval,
    /// The answer about a call of unknown outcome. The schema is that of the form.
    Unknown(Value),
    /// The content is the answer.
    Whole(Value),
    /// The member `answer` of the content is the answer.
    Member(Value),
    /// The member `answer` of the content is the JSON of the answer.
    Json,
}

impl Form {
    fn of(question: &Interrupt) -> Self {
        if question.approval().is_some() {
            return Self::Approval;
        }
        if let Some(form) = question.unknown_form() {
            return Self::Unknown(form_of_unknown(form));
        }
        let Some(schema) = schema_of(question) else {
            return Self::Member(json!({"type": "string"}));
        };
        match (form_of_object(schema), form_of_value(schema)) {
            (Some(form), _) => Self::Whole(form),
            (None, Some(form)) => Self::Member(form),
            (None, None) => Self::Json,
        }
    }

    /// Returns the schema for the client.
    fn schema(&self) -> Value {
        let with_answer = |schema: &Value| json!({"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]});
        match self {
            Self::Approval => json!({
                "type": "object",
                "properties": {
                    "decision": {"type": "string", "title": "Decision", "enum": ["approve", "reject"]},
                    "reason": {"type": "string", "title": "Reason of a rejection"},
                },
                "required": ["decision"],
            }),
            Self::Unknown(schema) | Self::Whole(schema) => schema.clone(),
            Self::Member(schema) => with_answer(schema),
            Self::Json => with_answer(&json!({"type": "string", "description": "JSON"})),
        }
    }
}

/// Returns a form about a call of unknown outcome as forms are: the JSON of a result that is no single
/// value is asked for.
fn form_of_unknown(mut form: Value) -> Value {
    let value = &mut form["properties"][VALUE];
    let json =
        || json!({"type": "string", "description": "Result of the call as JSON, if it happened"});
    *value = form_of_value(value).unwrap_or_else(json);
    form
}

/// Returns the schema of the answers to a question. That of a tool may also be declined.
fn schema_of(question: &Interrupt) -> Option<&Value> {
    let schema = question.answer_schema.as_ref();
    let content = schema.filter(|_| is_of_tool(question));
    content.and_then(|schema| schema.pointer("/oneOf/0/properties/content")).or(schema)
}

fn is_of_tool(question: &Interrupt) -> bool {
    matches!(question.ask, Ask::Question { tool: Some(_), .. })
}

/// Returns the schema of a flat object as forms have it.
fn form_of_object(schema: &Value) -> Option<Value> {
    let members = schema["properties"].as_object().filter(|_| schema["type"] == "object")?;
    let mut properties = serde_json::Map::new();
    for (name, member) in members {
        properties.insert(name.clone(), form_of_value(member)?);
    }
    let mut form = json!({"type": "object", "properties": properties});
    if let Some(required) = schema.get("required").filter(|list| list.is_array()) {
        form["required"] = required.clone();
    }
    Some(form)
}

/// Returns the schema of a single value as forms have it.
fn form_of_value(schema: &Value) -> Option<Value> {
    let members = schema.as_object()?;
    let choices = schema["enum"].as_array();
    let is_text = choices.is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string));
    let kind = match schema["type"].as_str() {
        Some(kind @ ("string" | "number" | "integer" | "boolean")) => kind,
        Some("array") if is_choice(&schema["items"]) => "array",
        None if is_text => "string",
        _ => return None,
    };
    if choices.is_some() && !is_text {
        return None;
    }
    let has = |name: &&String| FORM_MEMBERS.contains(&name.as_str());
    let mut form: serde_json::Map<_, _> =
        members.iter().filter(|(name, _)| has(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
    form.insert("type".to_owned(), kind.into());
    let is_format =
        form.get("format").and_then(Value::as_str).is_some_and(|f| FORMATS.contains(&f));
    if !is_format {
        form.shift_remove("format");
    }
    Some(Value::Object(form))
}

/// Returns `true` for the items of a list of choices.
fn is_choice(items: &Value) -> bool {
    let is_const = |choice: &Value| choice["const"].is_string();
    let all = |list: &Value, is: fn(&Value) -> bool| {
        list.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is))
    };
    all(&items["enum"], Value::is_string) || all(&items["anyOf"], is_const)
}

/// Returns the parameters of the request that puts a question to a person.
pub(crate) fn elicitation(question: &Interrupt) -> Value {
    json!({
        "mode": "form",
        "message": question.ask.to_string(),
        "requestedSchema": Form::of(question).schema(),
    })
}

/// Returns the answer to a question by a text alone; `None` if it takes none, or if a person has to decide.
pub(crate) fn answer_text(question: &Interrupt, text: &str) -> Option<AnswerTo> {
    let is_text = |schema: &Value| schema["type"] == "string" && schema.get("enum").is_none();
    let value = match Form::of(question) {
        Form::Member(schema) if is_text(&schema) => json!(text),
        Form::Whole(schema) => {
            let mut members = schema["properties"].as_object()?.iter();
            let (name, _) = members.next().filter(|(_, member)| is_text(member))?;
            if members.next().is_some() {
                return None;
            }
            json!({name: text})
        }
        Form::Member(_) | Form::Approval | Form::Unknown(_) | Form::Json => return None,
    };
    Some(question.answer(accept(question, value)))
}

fn accept(question: &Interrupt, content: Value) -> Value {
    match is_of_tool(question) {
        true => json!(Reply::Accept { content }),
        false => content,
    }
}

/// Reads the response to a form.
///
/// # Errors
/// An error for a response that is none, or lacks its content.
pub(crate) fn read_response(question: &Interrupt, response: &Value) -> Result<Response> {
    let form = Form::of(question);
    let reason = |text: &str| Ok(Response::Answer(question.reject(text)));
    match response["action"].as_str() {
        Some("accept") => read_content(question, &form, &response["content"]),
        Some("decline") if form == Form::Approval => reason("the person declined"),
        Some("cancel") if form == Form::Approval => reason("the person dismissed the question"),
        Some("decline") if is_of_tool(question) => {
            Ok(Response::Answer(question.answer(json!(Reply::Decline))))
        }
        Some("cancel") if is_of_tool(question) => {
            Ok(Response::Answer(question.answer(json!(Reply::Cancel))))
        }
        Some("decline" | "cancel") => Ok(Response::Dismissed),
        _ => Err(McpError::invalid(
            "the response to a question has no `action`; expected accept, decline or cancel",
        )),
    }
}

fn read_content(question: &Interrupt, form: &Form, content: &Value) -> Result<Response> {
    let lacks = |name: &str| {
        McpError::invalid(format!("the content of the response to a question has no `{name}`"))
    };
    let answer = || content.get(ANSWER).ok_or_else(|| lacks(ANSWER));
    let value = match form {
        Form::Approval => {
            let reason = content["reason"].as_str().unwrap_or_default();
            return match content["decision"].as_str() {
                Some("approve") => Ok(Response::Answer(question.approve())),
                Some("reject") => Ok(Response::Answer(question.reject(reason))),
                _ => Err(lacks("decision")),
            };
        }
        Form::Unknown(_) => return read_unknown(question, content),
        Form::Whole(_) if content.is_object() => content.clone(),
        Form::Whole(_) => {
            return Err(McpError::invalid("the response to a question has no content"));
        }
        Form::Member(_) => answer()?.clone(),
        Form::Json => {
            let text = answer()?.as_str().ok_or_else(|| lacks(ANSWER))?;
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
    };
    Ok(Response::Answer(question.answer(accept(question, value))))
}

/// Reads what happened to a call of unknown outcome.
fn read_unknown(question: &Interrupt, content: &Value) -> Result<Response> {
    let happened = |value: &Value| {
        let schema = question.answer_schema.as_ref().and_then(UnknownAnswer::result_in);
        let is_text = schema.is_some_and(|schema| form_of_value(schema).is_some());
        let json = value.as_str().filter(|_| !is_text);
        let read = json.and_then(|text| serde_json::from_str(text).ok());
        UnknownAnswer::Happened { value: read.unwrap_or_else(|| value.clone()) }
    };
    let answer = match (content[ANSWER].as_str(), content.get(VALUE)) {
        (Some("happened"), Some(value)) => Some(happened(value)),
        // A form has its fields, also those that are left empty.
        (Some(_), _) => UnknownAnswer::read(&content[ANSWER]),
        (None, _) => UnknownAnswer::read(content),
    };
    let answer = answer.ok_or_else(|| {
        McpError::invalid(
            "the content of the response does not say what happened to the call; expected `answer`: \
             happened, with the result in `value`, call_again, or give_up",
        )
    })?;
    Ok(Response::Answer(question.answer(json!(answer))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::{InterruptId, TaskId, ToolCallId};

    fn question(ask: Ask, schema: Option<Value>) -> Interrupt {
        Interrupt {
            id: InterruptId(1),
            task: TaskId(2),
            node: "n".to_owned(),
            graph: None,
            ask,
            answer_schema: schema,
            expires_at: None,
            default: None,
            key: None,
        }
    }

    fn value(schema: Value) -> Interrupt {
        question(Ask::Value { value: json!("Which?") }, Some(schema))
    }

    fn accepted(question: &Interrupt, content: Value) -> Value {
        let response = json!({"action": "accept", "content": content});
        match read_response(question, &response).expect("an answer") {
            Response::Answer(answer) => answer.value,
            Response::Dismissed => panic!("dismissed"),
        }
    }

    #[test]
    fn a_flat_object_is_a_form_and_other_values_are_its_answer() {
        let flat = value(json!({
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 1, "x-own": 1}, "c": {"enum": ["a"]}},
            "required": ["n"],
            "additionalProperties": false,
        }));
        let form = elicitation(&flat);
        assert_eq!(
            form["requestedSchema"],
            json!({
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 1},
                    "c": {"enum": ["a"], "type": "string"}},
                "required": ["n"],
            })
        );
        assert_eq!(accepted(&flat, json!({"n": 2})), json!({"n": 2}));
        for (schema, content, answer) in [
            (json!({"type": "boolean"}), json!({"answer": true}), json!(true)),
            (json!({"enum": ["a", "b"]}), json!({"answer": "b"}), json!("b")),
            (json!({"type": "string", "format": "own"}), json!({"answer": "x"}), json!("x")),
            (
                json!({"type": "array", "items": {"enum": ["a", "b"]}}),
                json!({"answer": ["a"]}),
                json!(["a"]),
            ),
            // No form has a list: its JSON is asked for.
            (json!({"type": "array"}), json!({"answer": "[1]"}), json!([1])),
            (json!({"enum": [1, 2]}), json!({"answer": "2"}), json!(2)),
            (json!({"type": "object"}), json!({"answer": "{\"a\":1}"}), json!({"a": 1})),
            (json!(true), json!({"answer": "text"}), json!("text")),
        ] {
            let question = value(schema.clone());
            let form = elicitation(&question);
            assert_eq!(form["requestedSchema"]["required"], json!(["answer"]), "{schema}");
            let shown = &form["requestedSchema"]["properties"]["answer"]["type"];
            assert!(shown.is_string(), "{schema}");
            assert_eq!(accepted(&question, content), answer, "{schema}");
        }
    }

    #[test]
    fn a_call_of_unknown_outcome_has_a_form_with_the_three_answers() {
        let about = |result: Value| {
            let value = json!({"kind": "tool_outcome_unknown", "tool": "pay", "reason": "it died"});
            question(Ask::Value { value }, Some(UnknownAnswer::schema(result)))
        };
        let asked = about(json!({"type": "object"}));
        let form = elicitation(&asked);
        let message = form["message"].as_str().expect("a text");
        assert!(message.starts_with("it died. It may have been made"), "{message}");
        let fields = &form["requestedSchema"]["properties"];
        assert_eq!(fields["answer"]["enum"], json!(["happened", "call_again", "give_up"]));
        assert_eq!(fields["value"]["type"], "string");
        for (content, answer) in [
            (json!({"answer": "give_up"}), json!({"answer": "give_up"})),
            (json!({"answer": "call_again", "value": ""}), json!({"answer": "call_again"})),
            (
                json!({"answer": "happened", "value": "{\"id\": 1}"}),
                json!({"answer": "happened", "value": {"id": 1}}),
            ),
            (
                json!({"answer": "happened", "value": "paid"}),
                json!({"answer": "happened", "value": "paid"}),
            ),
        ] {
            assert_eq!(accepted(&asked, content.clone()), answer, "{content}");
        }
        let number = about(json!({"type": "integer"}));
        let form = elicitation(&number);
        assert_eq!(form["requestedSchema"]["properties"]["value"]["type"], "integer");
        let text = about(json!({"type": "string"}));
        let happened = json!({"answer": "happened", "value": "7"});
        assert_eq!(accepted(&text, happened.clone()), happened);
        for wrong in [json!({}), json!({"answer": "happened"}), json!({"answer": "yes"})] {
            let response = json!({"action": "accept", "content": wrong});
            assert!(read_response(&asked, &response).is_err(), "{wrong}");
        }
        assert_eq!(answer_text(&asked, "give_up"), None, "a person decides");
    }

    #[test]
    fn a_response_without_an_answer_declines_or_dismisses() {
        let of_tool = Ask::Question {
            question: "Name?".to_owned(),
            tool_call_id: ToolCallId::new("c").expect("valid"),
            tool: Some("desk/name".to_owned()),
        };
        let of_tool = question(of_tool, None);
        let read = |question: &Interrupt, action: &str| {
            read_response(question, &json!({"action": action})).expect("is read")
        };
        assert_eq!(
            read(&of_tool, "decline"),
            Response::Answer(of_tool.answer(json!({"action": "decline"})))
        );
        assert_eq!(
            read(&of_tool, "cancel"),
            Response::Answer(of_tool.answer(json!({"action": "cancel"})))
        );
        let plain = value(json!({"type": "string"}));
        assert_eq!(read(&plain, "decline"), Response::Dismissed);
        let one = value(json!({"type": "object", "properties": {"n": {"type": "string"}}}));
        for (question, answer) in [(&plain, Some(json!("t"))), (&one, Some(json!({"n": "t"})))] {
            assert_eq!(answer_text(question, "t").map(|answer| answer.value), answer);
        }
        for schema in [
            json!({"type": "boolean"}),
            json!({"enum": ["t"]}),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        ] {
            assert_eq!(answer_text(&value(schema.clone()), "t"), None, "{schema}");
        }
        for wrong in [
            json!(12345),
            json!(null),
            json!({}),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "yes"}),
        ] {
            assert!(read_response(&plain, &wrong).is_err(), "{wrong}");
        }
    }
}
