use super::*;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use weftwork_types::message::Role;

fn id(n: u8) -> MessageId {
    MessageId::new(format!("m{n}")).expect("an id")
}

fn put(n: u8, text: u8) -> MessageWrite {
    MessageWrite::Put(Message::text(id(n), Role::User, text.to_string()))
}

fn remove(n: u8) -> MessageWrite {
    MessageWrite::Remove { remove: id(n) }
}

fn apply(current: Option<Value>, writes: Vec<Vec<MessageWrite>>) -> Result<Value, Refused> {
    let writes: Vec<_> = writes.into_iter().map(|items| Write::typed(Items::from(items))).collect();
    Messages.apply(current, &writes).map(|value| value.expect("always has a value"))
}

fn shown(value: &Value) -> Vec<String> {
    let list = value.get::<List<Message>>().expect("a list of messages");
    list.iter().map(|m| format!("{} {}", m.id, m.joined_text())).collect()
}

/// Reference implementation: applies a write to a plain vector as the documentation describes it.
fn model(messages: &mut Vec<(u8, u8)>, changes: &[Change]) -> bool {
    let from = changes.iter().rposition(|change| *change == Change::Clear);
    let mut next = if from.is_some() { Vec::new() } else { messages.clone() };
    let mut gone = Vec::new();
    for change in changes.iter().skip(from.map_or(0, |at| at + 1)) {
        let at = |n: &u8| next.iter().position(|(known, _)| known == n);
        match change {
            Change::Put(n, text) => {
                gone.retain(|known| known != n);
                match at(n) {
                    Some(at) => next[at].1 = *text,
                    None => next.push((*n, *text)),
                }
            }
            Change::Remove(n) if at(n).is_some() => gone.push(*n),
            Change::Remove(_) => return false,
            Change::Clear => unreachable!("the last one was skipped"),
        }
    }
    next.retain(|(n, _)| !gone.contains(n));
    *messages = next;
    true
}

#[derive(Debug, Clone, PartialEq)]
enum Change {
    Put(u8, u8),
    Remove(u8),
    Clear,
}

impl From<&Change> for MessageWrite {
    fn from(change: &Change) -> Self {
        match change {
            Change::Put(n, text) => put(*n, *text),
            Change::Remove(n) => remove(*n),
            Change::Clear => MessageWrite::remove_all(),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        60 => (0u8..90, any::<u8>()).prop_map(|(n, text)| Change::Put(n, text)),
        4 => (0u8..90).prop_map(Change::Remove),
        1 => Just(Change::Clear),
    ]
}

proptest! {
    #[test]
    fn does_what_a_plain_vector_does(
        writes in prop::collection::vec(prop::collection::vec(change(), 0..12), 0..60),
    ) {
        let mut plain = Vec::new();
        let mut value = Messages.initial();
        for changes in writes {
            let before = value.clone().expect("always has a value");
            let unchanged = shown(&before);
            let fits = model(&mut plain, &changes);
            let write = changes.iter().map(MessageWrite::from).collect();
            match apply(value.clone(), vec![write]) {
                Ok(next) => {
                    prop_assert!(fits, "{:?} must be refused", changes);
                    value = Some(next);
                }
                Err(refused) => prop_assert!(!fits, "{:?}: {:?}", changes, refused),
            }
            prop_assert_eq!(shown(&before), unchanged, "who held the value sees no change");
            let expected: Vec<_> = plain.iter().map(|(n, text)| format!("m{n} {text}")).collect();
            prop_assert_eq!(shown(value.as_ref().expect("always has a value")), expected);
        }
    }
}

#[test]
fn the_changes_of_one_write_are_one() {
    let start = apply(None, vec![vec![put(1, 1), put(2, 2), put(3, 3)]]).expect("fits");
    let again = apply(Some(start.clone()), vec![vec![remove(1), remove(1), put(1, 9), remove(2)]]);
    assert_eq!(shown(&again.expect("fits")), ["m1 9", "m3 3"]);
    let two = apply(Some(start.clone()), vec![vec![remove(1)], vec![put(1, 9)]]);
    assert_eq!(shown(&two.expect("fits")), ["m2 2", "m3 3", "m1 9"]);
    let gone_before = apply(Some(start), vec![vec![remove(1)], vec![remove(1)]]);
    let reason = "there is no message `m1` to remove".to_owned();
    assert_eq!(gone_before.err(), Some(Refused::Bad { index: 1, reason }));
}

#[test]
fn a_removal_of_all_voids_what_came_before_it() {
    let start = apply(None, vec![vec![put(1, 1), put(2, 2)]]).expect("fits");
    let changes = vec![put(3, 3), remove(77), MessageWrite::remove_all(), put(4, 4), put(2, 5)];
    let next =
        apply(Some(start.clone()), vec![changes]).expect("what came before is not looked at");
    assert_eq!(shown(&next), ["m4 4", "m2 5"]);
    let after = apply(Some(start.clone()), vec![vec![MessageWrite::remove_all(), remove(1)]]);
    assert!(after.is_err(), "nothing is left to remove");
    let json = Write::json(json!([{"remove": "__remove_all__"}]));
    let empty = Messages.apply(Some(start), &[json]).expect("fits").expect("has a value");
    assert!(shown(&empty).is_empty());
}

#[test]
fn a_removal_takes_every_message_with_its_id() {
    let twice =
        |n: &str| json!({"id": "a", "role": "user", "parts": [{"type": "text", "text": n}]});
    let whole = Json::Array(vec![twice("1"), twice("2")]);
    let value = Messages.apply(None, &[Write::overwrite(whole)]).expect("fits");
    let put = Messages.apply(value.clone(), &[Write::json(twice("3"))]).expect("fits");
    assert_eq!(shown(&put.expect("has a value")), ["a 1", "a 3"]);
    let gone = Messages.apply(value, &[Write::json(json!({"remove": "a"}))]).expect("fits");
    assert!(shown(&gone.expect("has a value")).is_empty());
}

fn result(value: serde_json::Value, shown: Option<serde_json::Value>) -> Message {
    let tool_call_id = weftwork_types::ToolCallId::new("c").expect("an id");
    let name = "t".to_owned();
    let result =
        weftwork_types::message::ToolResult { tool_call_id, name, value, shown, is_error: false };
    Message::tool_result(MessageId::new("m1").expect("an id"), result)
}

#[test]
fn a_message_in_its_shown_form_changes_nothing() {
    let whole = result(json!({"id": 1, "card": "4111"}), Some(json!({"id": 1})));
    let stored = json!([whole]);
    let shown = json!(whole.clone().into_shown());
    let other = json!(result(json!({"id": 2}), None));
    let all = json!({"remove": REMOVE_ALL});
    for (write, expected) in [
        (Write::json(shown.clone()), stored.clone()),
        (Write::json(json!([all, shown])), stored.clone()),
        (Write::overwrite(json!([shown])), stored.clone()),
        (Write::json(json!(whole)), stored),
        (Write::json(other.clone()), json!([other])),
        (Write::overwrite(json!([other])), json!([other])),
        (Write::overwrite(json!([])), json!([])),
    ] {
        let before = Messages.decode(&json!([whole])).expect("messages");
        let after = Messages.apply(Some(before), &[write]).expect("fits").expect("a value");
        assert_eq!(Messages.encode(&after).expect("JSON"), expected);
    }
}
