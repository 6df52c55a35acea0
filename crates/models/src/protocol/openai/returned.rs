//! Parts of an answer that its provider expects back in later requests: its reasoning, and members
//! beyond the protocol, as it gave them.
//!
//! The protocol has no place for reasoning, so every provider has its own, and some refuse a
//! conversation without it. A message keeps it as the signature of a reasoning part: a JSON object,
//! with the model, the name of the member that has the text of the reasoning, further members of the
//! message, those of its calls by position, and those of a part of the content that is reasoning.

use super::response::Delta;
use crate::protocol::signature::Format;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weftwork_types::message::{Message, Part};

/// Members of messages that go back: OpenRouter, LiteLLM, GitHub Copilot, Gemini.
const OF_MESSAGES: [&str; 5] = [
    "reasoning_details",
    "thinking_blocks",
    "reasoning_opaque",
    "extra_content",
    "provider_specific_fields",
];
/// Members of calls that go back: Gemini, and gateways before it.
const OF_CALLS: [&str; 3] = ["extra_content", "provider_specific_fields", "thought_signature"];

/// The parts of an answer that go back.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Returned {
    /// The model that gave it.
    #[serde(default)]
    model: String,
    /// Member of the message that has the text of the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Members of the part of the content that has the text of the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<Map<String, Value>>,
    /// Further members of the message.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    message: Map<String, Value>,
    /// Further members of the calls, by their positions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    calls: BTreeMap<usize, Map<String, Value>>,
}

impl Returned {
    /// Adds what a fragment of a message has.
    pub(super) fn read(&mut self, delta: &Delta) {
        if let Some((name, _)) = delta.named_reasoning() {
            self.text.get_or_insert_with(|| name.to_owned());
        }
        if let Some(members) = delta.thinking_part() {
            self.thinking.get_or_insert_default().extend(members);
        }
        join(&mut self.message, &delta.rest, &OF_MESSAGES);
    }

    /// Adds what a fragment of a call has.
    pub(super) fn read_call(&mut self, position: usize, members: &Map<String, Value>) {
        if OF_CALLS.iter().any(|name| members.get(*name).is_some_and(|member| !member.is_null())) {
            join(self.calls.entry(position).or_default(), members, &OF_CALLS);
        }
    }

    /// Returns the form in which a message keeps it; `None` if nothing has to go back. Reasoning
    /// alone goes back after calls only.
    pub(super) fn issued(mut self, model: &str, has_calls: bool) -> Option<String> {
        let has_members =
            !self.message.is_empty() || !self.calls.is_empty() || self.thinking.is_some();
        if !has_members && (self.text.is_none() || !has_calls) {
            return None;
        }
        model.clone_into(&mut self.model);
        serde_json::to_string(&self).ok()
    }

    /// Returns what a message has for a provider and a model. Another model of the provider gets the
    /// text of the reasoning only.
    pub(super) fn of(message: &Message, provider: &str, model: &str) -> Self {
        let signatures = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning { signature, .. } => signature.as_deref(),
            _ => None,
        });
        let mut issued = signatures.filter_map(|text| Format::Chat.issued(Some(text), provider));
        let found: Option<Self> = issued.find_map(|issued| serde_json::from_str(issued).ok());
        let found = found.unwrap_or_default();
        match found.model == model {
            true => found,
            false => Self { text: found.text, ..Self::default() },
        }
    }

    /// Adds it to a message and its calls on the wire.
    pub(super) fn write(self, message: &Message, out: &mut Value) {
        let reasoning = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let reasoning: String = reasoning.collect();
        if let Some(mut part) = self.thinking.filter(|_| !reasoning.is_empty()) {
            part.insert("type".to_owned(), "thinking".into());
            part.insert("thinking".to_owned(), json!([{"type": "text", "text": reasoning}]));
            let text = out["content"].take();
            let text = (!text.is_null()).then(|| json!({"type": "text", "text": text}));
            out["content"] = [Value::Object(part)].into_iter().chain(text).collect();
        }
        if let Some(name) = self.text {
            out[name] = reasoning.into();
        }
        self.message.into_iter().for_each(|(name, value)| out[name] = value);
        for (position, members) in self.calls {
            if let Some(call) = out.pointer_mut(&format!("/tool_calls/{position}")) {
                members.into_iter().for_each(|(name, value)| call[name] = value);
            }
        }
    }
}

/// Adds members of a fragment to those before it.
fn join(so_far: &mut Map<String, Value>, members: &Map<String, Value>, names: &[&str]) {
    for name in names {
        match (so_far.get_mut(*name), members.get(*name)) {
            (_, None | Some(Value::Null)) => {}
            (None, Some(Value::Array(items))) => {
                let mut list = Vec::new();
                items.iter().for_each(|item| join_item(&mut list, item));
                so_far.insert((*name).to_owned(), list.into());
            }
            (None, Some(member)) => {
                so_far.insert((*name).to_owned(), member.clone());
            }
            (Some(Value::Array(list)), Some(Value::Array(items))) => {
                items.iter().for_each(|item| join_item(list, item));
            }
            (Some(Value::Object(known)), Some(Value::Object(more))) => {
                known.extend(more.clone());
            }
            (Some(known), Some(member)) => *known = member.clone(),
        }
    }
}

/// Adds an item of a list, or a fragment of its last item: one of the same type and index, unless a
/// signature or an id ended that.
fn join_item(list: &mut Vec<Value>, item: &Value) {
    let member = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
    let is_said = |value: &Value, name: &str| {
        member(value, name).as_str().is_some_and(|text| !text.is_empty())
    };
    let is_same = |last: &Value| {
        let has_ended = is_said(last, "signature") || is_said(last, "id") && is_said(item, "id");
        let is_whole = has_ended || is_said(item, "data");
        ["type", "index"].iter().all(|name| member(last, name) == member(item, name)) && !is_whole
    };
    let Some(more) = item.as_object() else { return list.push(item.clone()) };
    let Some(Value::Object(last)) = list.last_mut().filter(|last| is_same(last)) else {
        return list.push(item.clone());
    };
    for (name, value) in more {
        match (last.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(rest))
                if ["text", "summary", "thinking"].contains(&name.as_str()) =>
            {
                text.push_str(rest);
            }
            (Some(_), Value::Null) => {}
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
}
