//! Tests of `weft instances`.

use crate::home::Home;
use serde_json::Value;

#[test]
fn an_instance_is_created_sent_to_shown_and_terminated() {
    let home = Home::new();
    let weft = |args: &[&str]| home.weft(&[&["--model", "scripted", "instances"], args].concat());
    let created = weft(&["create", "desk", "--id", "front"]);
    assert_eq!((created.status, created.out.as_str()), (Some(0), "front\n"), "{created:?}");
    let sent = weft(&["send", "front", "--message", "Hello"]);
    assert_eq!(sent.status, Some(0), "{sent:?}");
    let state: Value = serde_json::from_str(&sent.out).expect("the state");
    assert!(state["messages"].as_array().is_some_and(|all| all.len() >= 2), "{state}");
    let left = weft(&["send", "front", "--message", "Bye", "--leave"]);
    assert_eq!(left.status, Some(0), "{left:?}");

    let shown = weft(&["show", "front", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    let statistics = &shown["instance"]["statistics"];
    assert_eq!((&statistics["succeeded"], &statistics["waiting"]), (&1.into(), &1.into()));
    let listed = weft(&["list"]);
    assert!(listed.out.contains("front"), "{listed:?}");

    let ended = weft(&["terminate", "front", "--dead-letter"]);
    assert!(ended.out.contains("dead letter"), "{ended:?}");
    let refused = weft(&["send", "front", "1"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.errors.contains("W0641"), "{refused:?}");
    let missing = weft(&["show", "back"]);
    assert_eq!(missing.status, Some(2), "{missing:?}");
    assert!(missing.errors.contains("W0642"), "{missing:?}");
}
