//! Calls of a conversation as a provider accepts them.
//!
//! A conversation has calls of any model, with ids in the form of its provider, names that no tool
//! has, and arguments that are no JSON object. Many servers refuse the whole request for one of them,
//! and so would refuse every later request of the conversation.

use crate::chat::ChatRequest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::canonical;
use weftwork_types::message::ToolCall;

/// Name of a call in place of an empty one.
pub(crate) const UNNAMED: &str = "unnamed";
/// Maximum length of a name on the wire.
const NAME_CHARS_MAX: usize = 64;

/// The ids that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdRule {
    /// Any characters, and at most as many.
    Length(usize),
    /// Letters, digits, `_` and `-`, and at most as many.
    Plain(usize),
    /// Exactly as many letters and digits.
    Exactly(usize),
}

impl IdRule {
    fn accepts(self, id: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match self {
            Self::Length(max) => (1..=max).contains(&id.len()),
            Self::Plain(max) => (1..=max).contains(&id.len()) && id.bytes().all(is_plain),
            Self::Exactly(count) => {
                id.len() == count && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
        }
    }

    /// Derives an id from another one; `nth` tells those of equal ids apart.
    fn derive(self, id: &str, nth: usize) -> String {
        let hash = canonical::hash(&json!([id, nth])).to_string();
        match self {
            Self::Exactly(count) => hash.chars().take(count).collect(),
            Self::Length(_) | Self::Plain(_) => format!("call_{}", &hash[..24]),
        }
    }
}

/// The calls of one request on the wire.
#[derive(Debug)]
pub(super) struct WireCalls {
    ids: BTreeMap<String, String>,
    offered: BTreeSet<String>,
}

impl WireCalls {
    pub(super) fn new(request: &ChatRequest, rule: IdRule) -> Self {
        let calls = request.messages.iter().flat_map(|message| message.tool_calls());
        let own: BTreeSet<&str> = calls.map(|call| call.id.as_str()).collect();
        let mut ids = BTreeMap::new();
        let mut given: BTreeSet<String> =
            own.iter().filter(|id| rule.accepts(id)).map(|id| (*id).to_owned()).collect();
        for id in own.into_iter().filter(|id| !rule.accepts(id)) {
            let mut derived = (0..).map(|nth| rule.derive(id, nth));
            let free = derived.find(|derived| given.insert(derived.clone()));
            ids.extend(free.map(|free| (id.to_owned(), free)));
        }
        let offered = request.tools.iter().map(|tool| tool.wire_name()).collect();
        Self { ids, offered }
    }

    /// The id of a call, and of its result.
    pub(super) fn id<'a>(&'a self, id: &'a str) -> &'a str {
        self.ids.get(id).map_or(id, String::as_str)
    }

    /// The name of a call: that of an offered tool, or its letters, digits, `_` and `-`.
    pub(super) fn name(&self, name: &str) -> String {
        if self.offered.contains(name) {
            return name.to_owned();
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
        match plain.take(NAME_CHARS_MAX).collect::<String>() {
            plain if plain.is_empty() => UNNAMED.to_owned(),
            plain => plain,
        }
    }
}

/// The arguments of a call, which have to be an object.
pub(super) fn input(call: &ToolCall) -> Value {
    match &call.args {
        Value::Object(_) => call.args.clone(),
        other => json!({ "invalid_arguments": other }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::MessageId;
    use weftwork_types::ToolCallId;
    use weftwork_types::message::{Message, Part, Role};

    fn request(ids: &[&str]) -> ChatRequest {
        let call = |id: &&str| {
            let id = ToolCallId::new(*id).expect("an id");
            Part::ToolCall(ToolCall { id, name: "f".to_owned(), args: json!({}), shown: None })
        };
        let id = MessageId::new("m").expect("an id");
        let messages = vec![Message::new(id, Role::Assistant, ids.iter().map(call).collect())];
        ChatRequest { messages, ..ChatRequest::default() }
    }

    #[test]
    fn ids_fit_their_rule_differ_and_stay_the_same() {
        let long = "x".repeat(90);
        let ids = ["call_abc", "a.b", "a:b", "abcDEF123", &long];
        for rule in [IdRule::Length(40), IdRule::Plain(64), IdRule::Exactly(9)] {
            let calls = WireCalls::new(&request(&ids), rule);
            let wire: Vec<&str> = ids.iter().map(|id| calls.id(id)).collect();
            assert!(wire.iter().all(|id| rule.accepts(id)), "{rule:?}: {wire:?}");
            assert_eq!(wire.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{rule:?}: {wire:?}");
            for (id, wire) in ids.iter().zip(&wire) {
                assert_eq!(rule.accepts(id), id == wire, "{rule:?}: {id} is {wire}");
            }
            // A longer conversation has the same ids.
            let fewer = WireCalls::new(&request(&ids[..2]), rule);
            assert_eq!(fewer.id(ids[1]), calls.id(ids[1]));
        }
    }

    #[test]
    fn names_have_plain_characters() {
        let calls = WireCalls::new(&request(&[]), IdRule::Length(40));
        for (name, plain) in [
            ("lookup_order", "lookup_order"),
            ("functions.lookup", "functions_lookup"),
            ("lookup<|channel|>json", "lookup__channel__json"),
            ("", UNNAMED),
        ] {
            assert_eq!(calls.name(name), plain);
        }
        assert_eq!(calls.name(&"n".repeat(99)).len(), NAME_CHARS_MAX);
    }
}
