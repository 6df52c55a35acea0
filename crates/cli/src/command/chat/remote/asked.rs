//! Messages of a thread as a server lists them: what was said, and the questions that are open.

use serde_json::{Value, json};
use weftwork::types::TaskId;
use weftwork::types::interrupt::{Ask, Interrupt};
use weftwork::types::message::Role;

/// An open question with the part of the message that stands for it.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) interrupt: Interrupt,
    part: Value,
}

impl Asked {
    /// Returns the part with the answer as its result.
    pub(super) fn answered(&self, answer: &Value) -> Value {
        // A value that is an object with one member would be taken for the form of an answer.
        let output = match &self.interrupt.ask {
            Ask::Value { .. } => json!({"answer": answer}),
            _ => answer.clone(),
        };
        let mut part = self.part.clone();
        part["state"] = json!("output-available");
        part["output"] = output;
        part
    }
}

/// Returns the questions that are open in the last message of a list.
///
/// # Errors
/// A description of a part that cannot be read.
pub(super) fn open_questions(messages: &[Value]) -> Result<Vec<Asked>, String> {
    let last = messages.last().filter(|message| message["role"] == "assistant");
    let parts = last.and_then(|message| message["parts"].as_array());
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let facts = parts.iter().filter(|part| part["type"] == "data-question");
    let mut open = Vec::new();
    for fact in facts.map(|part| &part["data"]) {
        let waits = |part: &&&Value| {
            part["toolCallId"] == fact["toolCallId"]
                && matches!(part["state"].as_str(), Some("input-available" | "approval-requested"))
        };
        if let Some(part) = parts.iter().find(waits) {
            open.push(Asked { interrupt: read_interrupt(fact, part)?, part: (*part).clone() });
        }
    }
    Ok(open)
}

fn read_interrupt(fact: &Value, part: &Value) -> Result<Interrupt, String> {
    let args = &part["input"];
    if args.get("cut").is_some() {
        return Err(
            "a question is larger than a message; answer it at the page of the server".into()
        );
    }
    let of = |value: Value, what: &str| {
        serde_json::from_value::<Interrupt>(value)
            .map_err(|error| format!("a question of the kind {what} cannot be read: {error}"))
    };
    let kind = fact["kind"].as_str().unwrap_or_default();
    let ask = match kind {
        "question" | "tool_question" => json!({
            "kind": "question", "question": args["question"], "tool_call_id": part["toolCallId"],
            "tool": args["tool"],
        }),
        "approval" => json!({
            "kind": "approval", "tool_call_id": args["toolCallId"], "tool": args["action"],
            "args": args["args"], "effect": args["effect"], "binding": args["binding"],
            "reason": args["reason"],
        }),
        "value" => json!({"kind": "value", "value": args["value"]}),
        other => return Err(format!("a question has the unknown kind `{other}`")),
    };
    of(
        json!({
            "id": fact["interruptId"], "task": TaskId(0), "node": fact["node"], "graph": fact["graph"],
            "ask": ask, "answer_schema": args["schema"], "expires_at": fact["expiresAt"],
        }),
        kind,
    )
}

/// Returns what was said in a list of messages, the oldest first.
pub(super) fn read_messages(messages: &[Value]) -> Vec<(Role, String)> {
    let said = messages.iter().filter_map(|message| {
        let role = match message["role"].as_str()? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => return None,
        };
        let texts = message["parts"].as_array()?.iter().filter(|part| part["type"] == "text");
        let texts = texts.filter_map(|part| part["text"].as_str());
        Some((role, texts.collect::<String>()))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::{open_questions, read_messages};
    use serde_json::{Value, json};
    use weftwork::types::interrupt::Ask;
    use weftwork::types::message::Role;

    const ID: &str = "0000000000000000000000000000002a";

    fn messages(kind: &str, call: &str, name: &str, input: Value) -> Vec<Value> {
        vec![
            json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "Refund it."}]}),
            json!({"id": "a", "role": "assistant", "parts": [
                {"type": "step-start"},
                {"type": "text", "text": "I will."},
                {"type": "tool-pay", "toolCallId": "c", "state": "approval-requested", "input": {}},
                {"type": format!("tool-{name}"), "toolCallId": call, "state": "input-available",
                    "input": input},
                {"type": "data-question", "data": {"interruptId": ID, "kind": kind,
                    "toolCallId": call, "node": "tool", "graph": "payments", "expiresAt": null}},
            ]}),
        ]
    }

    #[test]
    fn an_approval_is_read_with_its_binding_and_answered_in_its_part() {
        let binding = "07".repeat(32);
        let input = json!({
            "action": "pay", "args": {"cents": 5}, "toolCallId": "c",
            "effect": "external_side_effect", "reason": "it pays", "binding": binding,
            "allowed": ["approve"], "interruptId": ID, "schema": {"oneOf": []},
        });
        let list = messages("approval", ID, "request_approval", input);
        let [asked] = &open_questions(&list).expect("read")[..] else { panic!("one is open") };
        let Ask::Approval(request) = &asked.interrupt.ask else { panic!("{asked:?}") };
        assert_eq!((request.tool.as_str(), &request.args), ("pay", &json!({"cents": 5})));
        assert_eq!(json!(request.binding), json!(binding));
        assert_eq!(asked.interrupt.graph.as_deref(), Some("payments"));
        let part = asked.answered(&json!({"approved": true, "binding": binding}));
        assert_eq!((&part["toolCallId"], &part["output"]["approved"]), (&json!(ID), &json!(true)));
        assert_eq!(part["input"]["args"], json!({"cents": 5}), "the server compares it");
        let said = read_messages(&list);
        assert_eq!(said[1], (Role::Assistant, "I will.".to_owned()));
    }

    #[test]
    fn a_value_is_answered_in_the_form_that_keeps_it_whole() {
        let list = messages("value", ID, "ask_human", json!({"question": "?", "value": {"a": 1}}));
        let asked = open_questions(&list).expect("read");
        let part = asked[0].answered(&json!({"answer": "call_again"}));
        assert_eq!(part["output"], json!({"answer": {"answer": "call_again"}}));
    }

    #[test]
    fn answered_questions_are_not_open_and_unknown_ones_are_errors() {
        let mut list = messages("question", "q", "ask_human", json!({"question": "Who?"}));
        assert_eq!(open_questions(&list).expect("read").len(), 1);
        list[1]["parts"][3]["state"] = json!("output-available");
        assert_eq!(open_questions(&list).expect("read"), []);
        let list = messages("riddle", "q", "ask_human", json!({"question": "Who?"}));
        open_questions(&list).expect_err("an unknown kind");
        let list = messages("approval", "q", "request_approval", json!({"cut": {"of": 100_000}}));
        open_questions(&list).expect_err("a question that is cut");
    }
}
