//! Events of the protocol.

use serde_json::{Value, json};

/// The protocol that this server speaks.
const PROTOCOL: &str = "1.0";

pub(crate) fn run_started(thread: &str, run: &str) -> Value {
    json!({"type": "RUN_STARTED", "threadId": thread, "runId": run, "protocolVersion": PROTOCOL})
}

pub(crate) fn state_snapshot(state: &Value) -> Value {
    json!({"type": "STATE_SNAPSHOT", "snapshot": state})
}

pub(crate) fn state_delta(delta: &[Value]) -> Value {
    json!({"type": "STATE_DELTA", "delta": delta})
}

pub(crate) fn messages_snapshot(messages: &[Value]) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

pub(crate) fn step(kind: &str, name: &str) -> Value {
    json!({"type": kind, "stepName": name})
}

/// An event about a message, without further members.
pub(crate) fn of_message(kind: &str, id: &str) -> Value {
    json!({"type": kind, "messageId": id})
}

pub(crate) fn text_start(id: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
}

pub(crate) fn text_content(id: &str, delta: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})
}

pub(crate) fn reasoning_start(id: &str) -> Value {
    json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"})
}

pub(crate) fn reasoning_content(id: &str, delta: &str) -> Value {
    json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta})
}

/// A tool call, as events and messages have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// Arguments in their shown form.
    pub(crate) args: &'a Value,
}

impl Call<'_> {
    /// The arguments as a text. Those of a model that produced no JSON are one already.
    fn args(&self) -> String {
        match self.args {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Returns the events of a call, with the message that has it.
    pub(crate) fn events(&self, parent: Option<&str>) -> [Value; 3] {
        let Self { id, name, .. } = self;
        let mut start = json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name});
        if let Some(parent) = parent {
            start["parentMessageId"] = parent.into();
        }
        [
            start,
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": self.args()}),
            json!({"type": "TOOL_CALL_END", "toolCallId": id}),
        ]
    }

    /// Returns the call as a part of a message.
    pub(crate) fn in_message(&self) -> Value {
        let function = json!({"name": self.name, "arguments": self.args()});
        json!({"id": self.id, "type": "function", "function": function})
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallResult<'a> {
    pub(crate) call: &'a str,
    /// Result in its shown form, or an error object.
    pub(crate) value: &'a Value,
    pub(crate) is_error: bool,
}

impl CallResult<'_> {
    /// Id of the message with the result, which follows from that of the call.
    fn id(&self) -> String {
        format!("{}-result", self.call)
    }

    fn content(&self) -> String {
        match self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn event(&self) -> Value {
        json!({
            "type": "TOOL_CALL_RESULT",
            "messageId": self.id(),
            "toolCallId": self.call,
            "content": self.content(),
            "role": "tool",
        })
    }

    pub(crate) fn message(&self) -> Value {
        let content = self.content();
        let mut message =
            json!({"id": self.id(), "role": "tool", "toolCallId": self.call, "content": content});
        if self.is_error {
            message["error"] = message["content"].clone();
        }
        message
    }
}
