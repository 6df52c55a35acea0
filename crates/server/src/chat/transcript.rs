//! Messages of a state as messages of a chat.

use super::message::ChatMessage;
use super::ui_message::{self, UiMessage};
use serde_json::Value;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::id::InvalidId;
use weftwork_types::message::{Message, Role};
use weftwork_types::run::RunRef;
use weftwork_types::{RunId, ThreadId};

/// Returns messages of a state in the shape of the AI SDK. An answer with its calls, their results
/// and what follows up to the next message of the user is one message.
///
/// # Errors
/// [`InvalidId`] for a message with an id that runs cannot have.
pub(crate) fn of_state(thread: &ThreadId, messages: Vec<Message>) -> Result<Vec<Value>, InvalidId> {
    let mut found = Vec::new();
    let mut answer: Option<ChatMessage> = None;
    for message in messages {
        if message.role == Role::User {
            found.extend(answer.take().map(finished));
            found.push(ui_message::of_user(message.id.as_str(), &message.joined_text()));
            continue;
        }
        if answer.is_none() {
            // The message is of no run, and has an id of its own.
            let run = RunId::new(message.id.as_str())?;
            let at = RunRef { thread: thread.clone(), run };
            let mut begun = ChatMessage::new(&at);
            begun.begin_response(&at);
            answer = Some(begun);
        }
        if let Some(answer) = &mut answer {
            answer.event(&RunEvent::placeless(AiEvent::MessageFinal { message }));
        }
    }
    found.extend(answer.map(finished));
    Ok(found)
}

fn finished(mut message: ChatMessage) -> Value {
    message.finish();
    let mut whole = UiMessage::default();
    whole.add(message.take());
    whole.into_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_and_results_are_parts_of_the_answer_between_two_texts_of_the_user() {
        let messages = json!([
            {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Where?"}]},
            {"id": "a1", "role": "assistant", "parts": [
                {"type": "tool_call", "id": "c1", "name": "look", "args": {"of": 1}}]},
            {"id": "t1", "role": "tool", "parts": [
                {"type": "tool_result", "tool_call_id": "c1", "name": "look", "value": "here"}]},
            {"id": "a2", "role": "assistant", "parts": [{"type": "text", "text": "Here."}]},
            {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks"}]},
        ]);
        let messages = serde_json::from_value(messages).expect("messages");
        let thread = ThreadId::new("t").expect("valid");
        let found = of_state(&thread, messages).expect("valid ids");
        let roles: Vec<_> =
            found.iter().map(|message| (&message["id"], &message["role"])).collect();
        assert_eq!(
            json!(roles),
            json!([["u1", "user"], ["a1", "assistant"], ["u2", "user"]]),
            "{found:?}"
        );
        let parts = found[1]["parts"].as_array().expect("parts");
        let call = parts.iter().find(|part| part["toolCallId"] == "c1").expect("a call");
        assert_eq!((&call["state"], &call["output"]), (&json!("output-available"), &json!("here")));
        assert_eq!(parts.last().expect("a text")["text"], "Here.");
        assert_eq!(found[1]["metadata"]["finishReason"], "stop");
    }
}
