//! Interrupts: questions as a client sees them, and the answers that it resumes with.

use crate::error::{AguiError, Result, shorten};
use crate::input::{ResumeEntry, ResumeStatus};
use serde_json::{Value, json};
use weftwork_types::Timestamp;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::run::AnswerTo;
use weftwork_types::tool::{Reply, UnknownAnswer};

/// Reason of a rejection whose entry has none.
const ABANDONED: &str = "the user gave no decision";
/// Answer to a question of the model that the user left.
const NO_ANSWER: &str = "The user gave no answer.";
/// Code of entries that do not fit the open interrupts.
const MISMATCH: &str = "interrupt_mismatch";
/// Code of a payload that does not fit.
const PAYLOAD: &str = "invalid_payload";

/// Returns a question as an interrupt, with the call that it is about.
pub(crate) fn shown(question: &Interrupt, call: Option<String>) -> Value {
    let reason = match (&question.ask, &call) {
        (Ask::Approval(_), Some(_)) => "tool_call",
        (Ask::Approval(_), None) => "confirmation",
        _ => "input_required",
    };
    let message = question.ask.to_string();
    let mut shown = json!({"id": question.id, "reason": reason, "message": message});
    if let Some(call) = call {
        shown["toolCallId"] = call.into();
    }
    // The protocol has no schemas but objects.
    if let Some(schema) = response_schema(question).filter(Value::is_object) {
        shown["responseSchema"] = schema;
    }
    if let Some(expires) = question.expires_at.and_then(to_text) {
        shown["expiresAt"] = expires.into();
    }
    shown
}

fn to_text(at: Timestamp) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(at.0).ok()?;
    Some(at.to_string())
}

fn response_schema(question: &Interrupt) -> Option<Value> {
    if question.approval().is_some() {
        return Some(json!({
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "editedArgs": {"type": "object", "description": "All arguments of the call"},
                "reason": {"type": "string", "description": "Reason of a rejection"},
            },
            "required": ["approved"],
        }));
    }
    if let Some(form) = question.unknown_form() {
        return Some(form);
    }
    let schema = question.answer_schema.as_ref()?;
    let content = schema.pointer("/oneOf/0/properties/content");
    Some(content.filter(|_| is_of_tool(question)).unwrap_or(schema).clone())
}

/// Returns `true` for the question of a tool, which may be declined.
fn is_of_tool(question: &Interrupt) -> bool {
    matches!(question.ask, Ask::Question { tool: Some(_), .. })
}

/// Returns the answers of a request to the open questions, all of which it answers.
///
/// # Errors
/// An error of the stream for entries that are not those of the open questions, and for payloads that do
/// not fit.
pub(crate) fn answers_to(questions: &[Interrupt], resume: &[ResumeEntry]) -> Result<Vec<AnswerTo>> {
    let asking: Vec<_> = questions.iter().filter(|question| question.asks()).collect();
    let mut answers = Vec::new();
    for entry in resume {
        let of = |question: &&&Interrupt| question.id.to_string() == entry.interrupt;
        let question = asking.iter().find(of).ok_or_else(|| not_open(&entry.interrupt))?;
        answers.push(answer_to(question, entry)?);
    }
    if answers.len() < asking.len() {
        let message = format!(
            "`resume` answers {} of {} open interrupts; answer all of them in one request",
            answers.len(),
            asking.len()
        );
        return Err(AguiError::resume(MISMATCH, message));
    }
    Ok(answers)
}

/// The error for an interrupt that is not open: it was answered, or there was none.
pub(crate) fn not_open(interrupt: &str) -> AguiError {
    let interrupt = shorten(interrupt);
    let message = format!("the conversation has no open interrupt `{interrupt}`");
    AguiError::resume(MISMATCH, message)
}

fn answer_to(question: &Interrupt, entry: &ResumeEntry) -> Result<AnswerTo> {
    match entry.status {
        ResumeStatus::Cancelled => abandon(question),
        ResumeStatus::Resolved if question.approval().is_some() => decide(question, &entry.payload),
        ResumeStatus::Resolved if question.unknown().is_some() => {
            match UnknownAnswer::read(&entry.payload) {
                Some(answer) => Ok(question.answer(json!(answer))),
                None => Err(misfit(
                    question,
                    &entry.payload,
                    r#"`{"answer": "happened", "value": RESULT}`, or the word `call_again` or `give_up`"#,
                )),
            }
        }
        ResumeStatus::Resolved => {
            let content = entry.payload.clone();
            Ok(question.answer(match is_of_tool(question) {
                true => json!(Reply::Accept { content }),
                false => content,
            }))
        }
    }
}

/// Returns the answer for a question that the user left without one.
fn abandon(question: &Interrupt) -> Result<AnswerTo> {
    let takes_text = |schema: &Value| schema["type"] == "string" && schema.get("enum").is_none();
    if question.approval().is_some() {
        return Ok(question.reject(ABANDONED));
    }
    if is_of_tool(question) {
        return Ok(question.answer(json!(Reply::Cancel)));
    }
    if question.answer_schema.as_ref().is_none_or(takes_text) {
        return Ok(question.answer(NO_ANSWER));
    }
    let message = format!(
        "the interrupt {} has no answer without a payload; send one that fits its `responseSchema`",
        question.id
    );
    Err(AguiError::resume(PAYLOAD, message))
}

/// Reads the decision about a call.
fn decide(question: &Interrupt, payload: &Value) -> Result<AnswerTo> {
    let approved = payload.as_bool().or_else(|| payload["approved"].as_bool());
    let reason = payload["reason"].as_str().unwrap_or_default();
    match (approved, &payload["editedArgs"]) {
        (Some(true), Value::Null) => Ok(question.approve()),
        (Some(true), args @ Value::Object(_)) => Ok(question.edit(args.clone())),
        (Some(false), _) => Ok(question.reject(reason)),
        _ => Err(misfit(
            question,
            payload,
            r#"`{"approved": true | false, "editedArgs": {…}, "reason": "…"}`"#,
        )),
    }
}

/// The error of a payload that does not fit.
fn misfit(question: &Interrupt, payload: &Value, expected: &str) -> AguiError {
    let found = shorten(&payload.to_string());
    let message =
        format!("the payload for the interrupt {} is {found}; expected {expected}", question.id);
    AguiError::resume(PAYLOAD, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::{InterruptId, TaskId};

    /// A question of a node with a schema of its answer.
    fn question(id: u128, answer_schema: Option<Value>) -> Interrupt {
        Interrupt {
            id: InterruptId(id),
            task: TaskId(1),
            node: "ask".to_owned(),
            graph: None,
            ask: Ask::Value { value: json!("Which?") },
            answer_schema,
            expires_at: Some(Timestamp(0)),
            default: None,
            key: None,
        }
    }

    fn entry(question: &Interrupt, status: ResumeStatus, payload: Value) -> ResumeEntry {
        ResumeEntry { interrupt: question.id.to_string(), status, payload }
    }

    #[test]
    fn all_open_questions_are_answered_at_once() {
        let questions = [question(1, None), question(2, None)];
        let entries = questions.each_ref().map(|question| {
            entry(question, ResumeStatus::Resolved, json!(question.id.to_string()))
        });
        let answers = answers_to(&questions, &entries).expect("both are answered");
        assert_eq!(answers.len(), 2);
        assert_eq!(answers[1].value, json!(questions[1].id.to_string()));
        let error = answers_to(&questions, &entries[..1]).expect_err("one is left");
        assert_eq!(error.code(), MISMATCH);
        let error = answers_to(&questions[..1], &entries).expect_err("one is not open");
        assert_eq!(error.code(), MISMATCH);
    }

    #[test]
    fn a_question_that_is_left_takes_a_text_if_it_takes_texts() {
        for (schema, is_answered) in [
            (None, true),
            (Some(json!({"type": "string"})), true),
            (Some(json!({"type": "string", "enum": ["a"]})), false),
            (Some(json!({"type": "object"})), false),
        ] {
            let question = question(1, schema.clone());
            let left = entry(&question, ResumeStatus::Cancelled, Value::Null);
            let answers = answers_to(std::slice::from_ref(&question), &[left]);
            match answers {
                Ok(answers) => assert!(is_answered && answers[0].value == NO_ANSWER, "{schema:?}"),
                Err(error) => assert!(!is_answered && error.code() == PAYLOAD, "{schema:?}"),
            }
        }
    }

    #[test]
    fn a_call_of_unknown_outcome_names_its_three_answers() {
        let value = json!({"kind": "once_outcome_unknown", "name": "pay", "input": null});
        let schema = Some(UnknownAnswer::schema(json!(true)));
        let asked = Interrupt { ask: Ask::Value { value }, ..question(1, schema) };
        let shown = shown(&asked, None);
        let names = json!(["happened", "call_again", "give_up"]);
        assert_eq!(shown["responseSchema"]["properties"]["answer"]["enum"], names);
        let message = shown["message"].as_str().expect("a text");
        assert!(message.starts_with("`pay` was begun and left no result"), "{message}");
        for (payload, expected) in [
            (json!("give_up"), Some(json!({"answer": "give_up"}))),
            (json!({"answer": "call_again"}), Some(json!({"answer": "call_again"}))),
            (
                json!({"answer": "happened", "value": 1}),
                Some(json!({"answer": "happened", "value": 1})),
            ),
            (json!({"answer": "happened"}), None),
            (json!("yes"), None),
        ] {
            let given = entry(&asked, ResumeStatus::Resolved, payload.clone());
            let answers = answers_to(std::slice::from_ref(&asked), &[given]);
            assert_eq!(answers.ok().map(|of| of[0].value.clone()), expected, "{payload}");
        }
    }

    #[test]
    fn an_interrupt_has_what_the_question_says_and_no_more() {
        let expected = json!({
            "id": InterruptId(1), "reason": "input_required", "message": "Which?",
            "responseSchema": {"type": "object"}, "expiresAt": "1970-01-01T00:00:00Z",
        });
        assert_eq!(shown(&question(1, Some(json!({"type": "object"}))), None), expected);
        let open = shown(&Interrupt { expires_at: None, ..question(1, Some(json!(true))) }, None);
        assert_eq!((open.get("responseSchema"), open.get("expiresAt")), (None, None));
    }
}
