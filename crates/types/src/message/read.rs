//! Deserialisation of message parts.
//!
//! In messages written by this program, `type` is the first member, and the rest is deserialised
//! directly into that variant. A derived deserialiser buffers the whole part first and takes twice
//! as long. Parts whose `type` comes later are buffered here too.

use super::{Media, Part, ToolCall, ToolResult};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Reasoning,
    Media,
    ToolCall,
    ToolResult,
}

#[derive(Deserialize)]
struct Words {
    text: String,
}

#[derive(Deserialize)]
struct Reasoning {
    text: String,
    #[serde(default)]
    signature: Option<String>,
}

/// A member name, borrowed where the format permits.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Kind {
    fn read<'de, M: MapAccess<'de>>(self, rest: M) -> Result<Part, M::Error> {
        let rest = MapAccessDeserializer::new(rest);
        Ok(match self {
            Self::Text => {
                let Words { text } = Words::deserialize(rest)?;
                Part::Text { text }
            }
            Self::Reasoning => {
                let Reasoning { text, signature } = Reasoning::deserialize(rest)?;
                Part::Reasoning { text, signature }
            }
            Self::Media => Part::Media(Media::deserialize(rest)?),
            Self::ToolCall => Part::ToolCall(ToolCall::deserialize(rest)?),
            Self::ToolResult => Part::ToolResult(ToolResult::deserialize(rest)?),
        })
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Parts)
    }
}

/// Deserialises the parts of a message. Most messages have one part, so capacity for exactly one is
/// reserved.
pub(super) fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    deserializer.deserialize_seq(All)
}

struct All;

impl<'de> Visitor<'de> for All {
    type Value = Vec<Part>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Vec<Part>, S::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            if parts.is_empty() {
                parts.reserve_exact(1);
            }
            parts.push(part);
        }
        Ok(parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a message, with its `type`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Part, M::Error> {
        let mut before = Map::new();
        while let Some(Name(name)) = map.next_key()? {
            if name != "type" {
                before.insert(name.into_owned(), map.next_value()?);
                continue;
            }
            let kind: Kind = map.next_value()?;
            if before.is_empty() {
                return kind.read(map);
            }
            while let Some((name, value)) = map.next_entry::<String, Value>()? {
                before.insert(name, value);
            }
            let rest = MapDeserializer::new(before.into_iter());
            return kind.read(rest).map_err(|error: serde_json::Error| M::Error::custom(error));
        }
        Err(M::Error::missing_field("type"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;
    use serde_json::json;

    fn parts() -> Vec<Value> {
        vec![
            json!({"type": "text", "text": "words"}),
            json!({"type": "reasoning", "text": "thought"}),
            json!({"type": "reasoning", "text": "thought", "signature": "s"}),
            json!({"type": "media", "media_type": "image/png", "url": "data:"}),
            json!({"type": "tool_call", "id": "c1", "name": "add", "args": {"a": [1, null]}}),
            json!({"type": "tool_result", "tool_call_id": "c1", "name": "add", "value": 3,
                   "is_error": true}),
            json!({"type": "tool_result", "tool_call_id": "c1", "name": "add", "value": 3,
                   "shown": null, "is_error": true}),
        ]
    }

    #[test]
    fn parts_come_back_wherever_their_kind_stands() {
        for part in parts() {
            let read: Part = serde_json::from_value(part.clone()).expect("a part");
            let Value::Object(members) = &part else { panic!("an object") };
            let last: Map<_, _> = members.clone().into_iter().rev().collect();
            for text in [part.to_string(), Value::Object(last).to_string()] {
                assert_eq!(serde_json::from_str::<Part>(&text).expect("a part"), read, "{text}");
                assert_eq!(serde_json::from_slice::<Part>(text.as_bytes()).expect("one"), read);
            }
            let written = serde_json::to_value(&read).expect("JSON");
            let of = |value: &Value, name: &str| value.get(name).cloned();
            for name in members.keys() {
                assert_eq!(of(&written, name), of(&part, name), "{part}");
            }
        }
    }

    #[test]
    fn names_with_escapes_and_members_that_nobody_knows_are_read() {
        let text = r#"{"ty\u0070e": "text", "more": {"a": 1}, "text": "words"}"#;
        let read: Part = serde_json::from_str(text).expect("a part");
        assert_eq!(read, Part::Text { text: "words".to_owned() });
        let text = r#"{"more": {"a": 1}, "type": "text", "text": "words"}"#;
        assert_eq!(serde_json::from_str::<Part>(text).expect("a part"), read);
    }

    #[test]
    fn a_message_has_room_for_its_parts_and_no_more() {
        let text = json!({"id": "m", "role": "user", "parts": [parts()[0]]}).to_string();
        let message: Message = serde_json::from_str(&text).expect("a message");
        assert_eq!((message.parts.len(), message.parts.capacity()), (1, 1));
        let text = json!({"id": "m", "role": "user", "parts": parts()}).to_string();
        let message: Message = serde_json::from_str(&text).expect("a message");
        assert_eq!(message.parts.len(), parts().len());
        let text = r#"{"id": "m", "role": "user", "parts": "words"}"#;
        let error = serde_json::from_str::<Message>(text).expect_err("no parts").to_string();
        assert!(error.contains("invalid type: string \"words\", expected a sequence"), "{error}");
    }

    #[test]
    fn what_is_no_part_is_named() {
        for (text, said) in [
            (r#"{"text": "words"}"#, "missing field `type`"),
            (r#"{"type": "dream"}"#, "unknown variant `dream`, expected one of `text`"),
            (r#"{"type": "text"}"#, "missing field `text`"),
            (r#"{"url": "x", "type": "media"}"#, "missing field `media_type`"),
            (r#"["text", "words"]"#, "expected a part of a message, with its `type`"),
        ] {
            let error = serde_json::from_str::<Part>(text).expect_err("no part").to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
