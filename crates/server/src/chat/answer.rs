//! Answers of clients to questions: results of the calls that stand for them, typed text, and
//! decisions in the words of several front ends.

use super::question::allowed_decisions;
use super::unknown::read_answer;
use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::json;
use weftwork_types::tool::wire_name;

/// Members of a result in which front ends put the answer.
const ANSWERS: [&str; 4] = ["answer", "text", "content", "message"];
/// Members of a decision that have the comment of a person.
const COMMENTS: [&str; 5] = ["message", "comment", "reason", "feedback", "text"];

/// Returns the answer that a result of a question's call means.
///
/// # Errors
/// Status 422 for a value that is no answer, 409 for a decision about another call.
pub(crate) fn of_result(question: &Interrupt, value: &Value) -> Result<Value> {
    if let Some(call) = question.unknown() {
        return read_answer(call, value);
    }
    match &question.ask {
        Ask::Approval(request) => read_decision(question, request, value),
        Ask::Question { tool: None, .. } => answer_text(value),
        Ask::Question { .. } if value.get("action").is_some() => Ok(value.clone()),
        Ask::Question { .. } => Ok(json!({"action": "accept", "content": unwrap_answer(value)})),
        Ask::Value { .. } => Ok(unwrap_answer(value)),
        Ask::Timer { .. } => Err(ApiError::invalid("a timer asks nothing")),
    }
}

/// Returns the answer that a typed text means. An approval that is answered by a text other than a
/// verb is not given: the call is closed, and the model reads that it was not made, with the text.
///
/// # Errors
/// See [`of_result`].
pub(crate) fn of_text(question: &Interrupt, typed: &str) -> Result<Value> {
    let typed = typed.trim();
    if let Some(call) = question.unknown() {
        return read_answer(call, &json!(typed));
    }
    match &question.ask {
        Ask::Approval(request) => {
            let verdict = match verb_of_word(typed) {
                Some(Verb::Approve) => Verdict::Approve,
                Some(Verb::Reject) => Verdict::Reject,
                _ => Verdict::Respond { text: typed_response(&request.tool, typed) },
            };
            Ok(json!(ApprovalDecision::new(request.binding, verdict)))
        }
        Ask::Question { tool: Some(_), .. } => {
            let content = question.answer_schema.as_ref().and_then(|schema| {
                schema["oneOf"]
                    .as_array()?
                    .iter()
                    .find_map(|form| form.pointer("/properties/content"))
            });
            Ok(json!({"action": "accept", "content": typed_value(content, typed)}))
        }
        Ask::Value { .. } => Ok(typed_value(question.answer_schema.as_ref(), typed)),
        _ => of_result(question, &json!(typed)),
    }
}

/// Returns the result of a call in place of whose approval a person typed a text.
fn typed_response(tool: &str, typed: &str) -> String {
    format!(
        "`{tool}` was not called: it waited for approval, and instead of a decision the person said: \
         {typed}"
    )
}

/// Returns the value that a text stands for: the text, or its JSON if texts do not fit.
fn typed_value(schema: Option<&Value>, typed: &str) -> Value {
    let takes_text = match schema.and_then(|schema| schema.get("type")) {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string",
    };
    let value = (!takes_text).then(|| json::read(typed.as_bytes()).ok()).flatten();
    value.unwrap_or_else(|| json!(typed))
}

/// Returns the text of an answer to a question of the model.
fn answer_text(value: &Value) -> Result<Value> {
    let member = ANSWERS.iter().find_map(|name| value.get(name).filter(|text| text.is_string()));
    match (value, member) {
        (Value::String(_), _) => Ok(value.clone()),
        (_, Some(text)) => Ok(text.clone()),
        (Value::Number(_) | Value::Bool(_), _) => Ok(json!(value.to_string())),
        _ => Err(ApiError::invalid(format!(
            "the answer to the question is `{}`; expected a text, or an object with `answer`",
            shorten(value)
        ))),
    }
}

/// Returns the member `answer` of an object that has nothing else.
fn unwrap_answer(value: &Value) -> Value {
    let only = value.as_object().filter(|members| members.len() == 1);
    only.and_then(|members| members.get("answer")).unwrap_or(value).clone()
}

/// Reads a decision about a call.
///
/// # Errors
/// Status 422 for a value that is none, 409 for a decision about another call or other arguments.
pub(crate) fn read_decision(
    question: &Interrupt,
    request: &ApprovalRequest,
    value: &Value,
) -> Result<Value> {
    let verdict = match value {
        Value::String(word) => verdict_of_word(word),
        Value::Object(_) => {
            check_binding(request, value)?;
            verdict_of_object(request, value)?
        }
        _ => None,
    };
    let verdict = verdict.ok_or_else(|| {
        ApiError::invalid(format!(
            "`{}` is no decision about `{}`; expected `{{\"type\": …}}` with one of {}",
            shorten(value),
            request.tool,
            allowed_decisions(question).join(", ")
        ))
    })?;
    let comment = matches!(verdict, Verdict::Reject | Verdict::Approve | Verdict::Edit { .. })
        .then(|| member_text(value, &COMMENTS))
        .flatten();
    Ok(json!(ApprovalDecision { binding: request.binding, verdict, comment }))
}

/// Refuses a decision that names another binding.
fn check_binding(request: &ApprovalRequest, value: &Value) -> Result<()> {
    match value.get("binding") {
        Some(found) if *found != json!(request.binding) => Err(other_call(request)),
        _ => Ok(()),
    }
}

/// Refuses what a client shows of the call that is approved if it is another one.
///
/// # Errors
/// Status 409.
pub(crate) fn check_shown(question: &Interrupt, shown: &Value) -> Result<()> {
    let Ask::Approval(request) = &question.ask else { return Ok(()) };
    let same = |name: &str, own: &Value| shown.get(name).is_none_or(|found| is_same(found, own));
    let is_cut = shown.get("cut").is_some();
    let is_this_call = same("args", &request.args)
        && same("action", &json!(request.tool))
        && same("binding", &json!(request.binding));
    if is_this_call || is_cut { Ok(()) } else { Err(other_call(request)) }
}

/// Returns `true` if two values are the same to a client whose JSON writes `5.0` as `5`. Numbers are
/// compared exactly: one that a client has rounded is another one.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || whole(a).is_some_and(|a| Some(a) == whole(b))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has_same =
                |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(has_same)
        }
        _ => a == b,
    }
}

/// Returns the exact value of a number without a fraction.
fn whole(number: &serde_json::Number) -> Option<i128> {
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e38)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in the range")]
    let whole = float as i128;
    Some(whole)
}

fn other_call(request: &ApprovalRequest) -> ApiError {
    ApiError::conflict(format!(
        "the decision is about another call or other arguments than the call of `{}` that waits; \
         read the question again",
        request.tool
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Approve,
    Edit,
    Reject,
    Respond,
}

/// Returns the verb of a word of LangChain or of another front end.
fn verb_of_word(word: &str) -> Option<Verb> {
    Some(match word.to_ascii_lowercase().as_str() {
        "approve" | "accept" | "approved" | "yes" | "y" => Verb::Approve,
        "edit" => Verb::Edit,
        "reject" | "ignore" | "rejected" | "deny" | "no" | "n" => Verb::Reject,
        "respond" | "response" => Verb::Respond,
        _ => return None,
    })
}

fn verdict_of_word(word: &str) -> Option<Verdict> {
    match verb_of_word(word)? {
        Verb::Approve => Some(Verdict::Approve),
        Verb::Reject => Some(Verdict::Reject),
        Verb::Edit | Verb::Respond => None,
    }
}

fn verdict_of_object(request: &ApprovalRequest, value: &Value) -> Result<Option<Verdict>> {
    let word = ["type", "decision", "verdict"].iter().find_map(|name| value.get(name)?.as_str());
    let verb = match (word.and_then(verb_of_word), value.get("approved").and_then(Value::as_bool)) {
        (Some(verb), _) => verb,
        (None, Some(true)) if value.get("args").is_some() => Verb::Edit,
        (None, Some(true)) => Verb::Approve,
        (None, Some(false)) if value.get("respond").is_some() => Verb::Respond,
        (None, Some(false)) => Verb::Reject,
        (None, None) => return Ok(None),
    };
    let args = value.get("args").filter(|args| args.is_object());
    match verb {
        Verb::Approve if args.is_some_and(|args| !is_same(args, &request.args)) => {
            Err(other_call(request))
        }
        Verb::Approve => Ok(Some(Verdict::Approve)),
        Verb::Reject => Ok(Some(Verdict::Reject)),
        Verb::Edit => read_edit(request, value).map(Some),
        Verb::Respond => {
            let names = ["respond", "message", "text", "response", "args"];
            Ok(member_text(value, &names).map(|text| Verdict::Respond { text }))
        }
    }
}

/// Reads edited arguments. The tool stays the same.
fn read_edit(request: &ApprovalRequest, value: &Value) -> Result<Verdict> {
    let action = value.get("edited_action").or_else(|| value.get("action"));
    let name = action.and_then(|action| action.get("name")).and_then(Value::as_str);
    if name.is_some_and(|name| name != request.tool && name != wire_name(&request.tool)) {
        return Err(ApiError::invalid(format!(
            "the edited call is of `{}`; expected `{}`, whose arguments alone can be edited",
            shorten(&json!(name)),
            request.tool
        )));
    }
    let args = value.get("args").or_else(|| action.and_then(|action| action.get("args")));
    // The form of LangGraph's agent inbox has the action within the arguments.
    let is_tool = |name: &Value| {
        name.as_str().is_some_and(|name| name == request.tool || name == wire_name(&request.tool))
    };
    let inner = args.filter(|args| args.get("action").is_some_and(is_tool));
    let args = inner.and_then(|args| args.get("args")).or(args);
    let args = args.filter(|args| args.is_object()).ok_or_else(|| {
        ApiError::invalid("an edited call needs `args`, an object with all its arguments")
    })?;
    Ok(Verdict::Edit { args: args.clone() })
}

fn member_text(value: &Value, names: &[&str]) -> Option<String> {
    let text = names.iter().find_map(|name| value.get(name)?.as_str());
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the beginning of a value, for messages.
fn shorten(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::is_same;
    use serde_json::json;

    #[test]
    fn numbers_are_the_same_if_their_values_are() {
        for (call, shown) in [
            (json!({"amount": 5.0, "ids": [1.0, 2]}), json!({"ids": [1, 2.0], "amount": 5})),
            (json!(-0.0), json!(0)),
            (json!(1e21), json!(1e21)),
            (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0)),
        ] {
            assert!(is_same(&call, &shown) && is_same(&shown, &call), "{call} {shown}");
        }
        for (call, shown) in [
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)),
            (json!(5.1), json!(5)),
            (json!(5), json!("5")),
            (json!({"a": 1}), json!({"a": 1, "b": null})),
            (json!([1, 2]), json!([1])),
        ] {
            assert!(!is_same(&call, &shown) && !is_same(&shown, &call), "{call} {shown}");
        }
    }
}
