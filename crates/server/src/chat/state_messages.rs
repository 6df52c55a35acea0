//! Messages of a state as messages of a chat.

use super::message::ChatMessage;
use super::ui_message::{self, UiMessage};
use serde_json::Value;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::message::{Message, Role};
use weftwork_types::run::RunRef;
use weftwork_types::{RunId, ThreadId};

/// Returns messages of a state in the shape of the AI SDK. An answer with its calls, their results
/// and what follows up to the next message of the user is one message. Messages of the system are not
/// part of a conversation.
pub(crate) fn of_state(thread: &ThreadId, messages: Vec<Message>) -> Vec<Value> {
    let mut found = Vec::new();
    let mut answer: Option<ChatMessage> = None;
    for message in messages {
        match message.role {
            Role::System => {}
            Role::User => {
                found.extend(answer.take().map(finish_message));
                found.push(ui_message::of_user(message.id.as_str(), &message.parts));
            }
            Role::Assistant | Role::Tool => {
                let answer =
                    answer.get_or_insert_with(|| begin_message(thread, message.id.to_string()));
                answer.event(&RunEvent::placeless(AiEvent::MessageFinal { message }));
            }
        }
    }
    found.extend(answer.map(finish_message));
    found
}

/// Begins a message that is of no run.
fn begin_message(thread: &ThreadId, id: String) -> ChatMessage {
    let at = RunRef { thread: thread.clone(), run: RunId::from_uuid(uuid::Uuid::nil()) };
    let mut begun = ChatMessage::new(&at).with_id(id);
    begun.begin_response(&at);
    begun
}

fn finish_message(mut message: ChatMessage) -> Value {
    message.finish();
    let mut whole = UiMessage::default();
    whole.add(message.take());
    let mut value = whole.into_value();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.shift_remove("runId");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_and_results_are_parts_of_the_answer_between_two_texts_of_the_user() {
        let messages = json!([
            {"id": "s1", "role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
            {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Where?"}]},
            {"id": "a1", "role": "assistant", "parts": [
                {"type": "tool_call", "id": "c1", "name": "look", "args": {"of": 1}}]},
            {"id": "t1", "role": "tool", "parts": [
                {"type": "tool_result", "tool_call_id": "c1", "name": "look", "value": "here"}]},
            {"id": "a2", "role": "assistant", "parts": [{"type": "text", "text": "Here."}]},
            {"id": "s2", "role": "system", "parts": [{"type": "text", "text": "Be kind."}]},
            {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks"}]},
        ]);
        let messages = serde_json::from_value(messages).expect("messages");
        let thread = ThreadId::new("t").expect("valid");
        let found = of_state(&thread, messages);
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
        assert_eq!(found[1]["metadata"].get("runId"), None, "no run made it");
    }
}
