//! A page that applies events as the client of the protocol does.

use crate::rules::kind;
use serde_json::{Value, json};

/// The messages and the state of a page.
#[derive(Debug, Default, Clone)]
pub(crate) struct Page {
    pub(crate) messages: Vec<Value>,
    pub(crate) state: Value,
}

impl Page {
    /// A page with what the events make of nothing.
    pub(crate) fn of(events: &[Value]) -> Self {
        let mut page = Self::default();
        page.apply(events);
        page
    }

    pub(crate) fn apply(&mut self, events: &[Value]) {
        events.iter().for_each(|event| self.apply_one(event));
    }

    fn apply_one(&mut self, event: &Value) {
        let id = event["messageId"].clone();
        match kind(event) {
            "TEXT_MESSAGE_START" => {
                self.message(&id, "assistant");
            }
            "TEXT_MESSAGE_CONTENT" => {
                let message = self.message(&id, "assistant");
                let text = message["content"].as_str().unwrap_or_default();
                message["content"] = format!("{text}{}", event["delta"].as_str().expect("a text")).into();
            }
            "TOOL_CALL_START" => {
                let call = event["toolCallId"].clone();
                let parent = event.get("parentMessageId").unwrap_or(&call).clone();
                let message = self.message(&parent, "assistant");
                let function = json!({"name": event["toolCallName"], "arguments": ""});
                let call = json!({"id": call, "type": "function", "function": function});
                match message["toolCalls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => message["toolCalls"] = json!([call]),
                }
            }
            "TOOL_CALL_ARGS" => {
                let calls = self.messages.iter_mut().filter_map(|message| message["toolCalls"].as_array_mut());
                let call = calls.flatten().find(|call| call["id"] == event["toolCallId"]);
                let text = &mut call.expect("the call")["function"]["arguments"];
                let now = text.as_str().expect("a text").to_owned();
                *text = format!("{now}{}", event["delta"].as_str().expect("a text")).into();
            }
            "TOOL_CALL_RESULT" => self.messages.push(json!({
                "id": id, "role": "tool", "toolCallId": event["toolCallId"], "content": event["content"],
            })),
            "STATE_SNAPSHOT" => self.state = event["snapshot"].clone(),
            "STATE_DELTA" => {
                for op in event["delta"].as_array().expect("a list") {
                    let name = &op["path"].as_str().expect("a path")[1..];
                    match op["op"].as_str() {
                        Some("remove") => drop(self.state.as_object_mut().expect("an object").remove(name)),
                        _ => self.state[name] = op["value"].clone(),
                    }
                }
            }
            "MESSAGES_SNAPSHOT" => self.replace(event["messages"].as_array().expect("a list")),
            _ => {}
        }
    }

    /// Replaces messages by those of a snapshot. Those that it does not have are removed.
    fn replace(&mut self, snapshot: &[Value]) {
        let of = |message: &Value| snapshot.iter().find(|of| of["id"] == message["id"]).cloned();
        let mut messages: Vec<_> = self.messages.iter().filter_map(of).collect();
        for message in snapshot {
            if !messages.iter().any(|of| of["id"] == message["id"]) {
                messages.push(message.clone());
            }
        }
        self.messages = messages;
    }

    fn message(&mut self, id: &Value, role: &str) -> &mut Value {
        let index = self.messages.iter().position(|message| message["id"] == *id);
        let index = index.unwrap_or_else(|| {
            self.messages.push(json!({"id": id, "role": role}));
            self.messages.len() - 1
        });
        &mut self.messages[index]
    }

    /// Roles with contents, or names of calls.
    pub(crate) fn shown(&self) -> Vec<String> {
        let shown = self.messages.iter().map(|message| {
            let role = message["role"].as_str().expect("a role");
            match message["toolCalls"][0]["function"]["name"].as_str() {
                Some(name) => format!("{role} calls {name}"),
                None => format!("{role}: {}", message["content"].as_str().unwrap_or("parts")),
            }
        });
        shown.collect()
    }
}
