//! The laws of channels, for every kind.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use weftwork_engine::channel::{
    Append, Channel, Ephemeral, LastValue, Messages, Reduce, Topic, Untracked,
};
use weftwork_engine::{Value, Write};

type Make = fn(u8) -> Json;

fn kinds() -> Vec<(Box<dyn Channel>, Make)> {
    fn number(n: u8) -> Json {
        json!(n)
    }
    fn list(n: u8) -> Json {
        json!([n, n])
    }
    fn message(n: u8) -> Json {
        let parts = json!([{"type": "text", "text": format!("say {n}")}]);
        json!([{"id": format!("m{}", n % 5), "role": "user", "parts": parts}])
    }
    vec![
        (Box::new(LastValue::<u64>::new()), number as Make),
        (Box::new(LastValue::<u64>::starting_with(|| 7)), number),
        (Box::new(Reduce::<u64>::new(|| 0, |a, b| a + b)), number),
        (Box::new(Append::<u64>::new()), list),
        (Box::new(Messages), message),
        (Box::new(Ephemeral::<u64>::one()), number),
        (Box::new(Ephemeral::<u64>::any()), number),
        (Box::new(Topic::<u64>::new()), list),
        (Box::new(Untracked::<u64>::new()), number),
    ]
}

/// Applies one write per superstep.
fn run(channel: &dyn Channel, writes: &[Json]) -> Option<Value> {
    writes.iter().fold(channel.initial(), |current, write| {
        channel.apply(current, &[Write::json(write.clone())]).expect("the write fits")
    })
}

fn shown(channel: &dyn Channel, value: Option<&Value>) -> Option<Json> {
    value.map(|value| channel.encode(value).expect("it can be written"))
}

proptest! {
    #[test]
    fn a_value_survives_its_json(numbers in prop::collection::vec(any::<u8>(), 1..20)) {
        for (channel, make) in kinds() {
            let writes: Vec<_> = numbers.iter().map(|n| make(*n)).collect();
            let value = run(channel.as_ref(), &writes);
            let json = shown(channel.as_ref(), value.as_ref()).expect("written");
            let back = channel.decode(&json).expect("it reads back");
            prop_assert_eq!(channel.encode(&back).expect("writes again"), json, "{:?}", channel);
        }
    }

    #[test]
    fn a_text_is_written_as_json_has_it(text in "[a-z\"\\\\\u{0}-\u{20}\u{7f}ü\u{2028}]{0,80}") {
        let channel = LastValue::<String>::new();
        let value = Value::new(text.clone());
        let mut written = Vec::new();
        channel.write_value(&value, &mut written).expect("a text");
        prop_assert_eq!(String::from_utf8(written).expect("text"), json!(text).to_string());
        let channel = LastValue::<Option<String>>::new();
        let value = Value::new(Some(text.clone()));
        let mut written = Vec::new();
        channel.write_value(&value, &mut written).expect("a text");
        prop_assert_eq!(String::from_utf8(written).expect("text"), json!(text).to_string());
    }

    /// The law that makes storing the changes of lists correct: a patch leads from any older value
    /// to the newer one.
    #[test]
    fn a_value_survives_its_text_and_its_patch(
        numbers in prop::collection::vec(any::<u8>(), 2..120),
        older in any::<usize>(),
    ) {
        for (channel, make) in kinds() {
            let writes: Vec<_> = numbers.iter().map(|n| make(*n)).collect();
            let older = run(channel.as_ref(), &writes[..older % writes.len()]);
            let value = run(channel.as_ref(), &writes).expect("written");
            let text = |value: &Value| {
                let mut text = Vec::new();
                channel.write_value(value, &mut text).expect("it can be written");
                text
            };
            let back = channel.read_value(&text(&value)).expect("it reads back");
            prop_assert_eq!(text(&back), text(&value), "{:?}", channel);
            let mut patch = Vec::new();
            if let Some(older) = older
                && channel.write_patch(&older, &value, &mut patch).expect("it can be written")
            {
                prop_assert!(channel.items(&value).is_some());
                let patched = channel.patched(older, &patch).expect("it reads back");
                prop_assert_eq!(text(&patched), text(&value), "{:?}", channel);
            }
        }
    }

    #[test]
    fn an_overwrite_wins_and_two_contradict(n in any::<u8>()) {
        for (channel, make) in kinds() {
            let whole = match channel.kind() {
                "append" | "topic" => json!([n]),
                "messages" => make(n),
                _ => json!(n),
            };
            let over = || Write::overwrite(whole.clone());
            let mixed = channel.apply(channel.initial(), &[Write::json(make(3)), over()]);
            let value = mixed.expect("one overwrite is fine");
            prop_assert_eq!(shown(channel.as_ref(), value.as_ref()), Some(whole.clone()));
            prop_assert!(channel.apply(channel.initial(), &[over(), over()]).is_err());
        }
    }
}

#[test]
fn a_write_of_another_type_is_refused_with_what_was_found() {
    for (channel, _) in kinds() {
        let wrong = channel.apply(channel.initial(), &[Write::json(json!({"x": 1}))]);
        let refused = format!("{:?}", wrong.expect_err("refused"));
        assert!(refused.contains("found"), "{channel:?}: {refused}");
        let other = channel.apply(channel.initial(), &[Write::typed("text")]);
        assert!(other.is_err(), "{channel:?}");
    }
}
