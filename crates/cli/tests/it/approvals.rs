//! Tests of `weft approvals` and of decisions given on the command line.

use crate::home::{Came, Home};
use serde_json::Value;

const RULES: &str = r#"{"version": 1, "rules": [
    {"tool": "refund_order", "when": "args.amount < 10.0", "decision": "ask_human",
     "reason": "it moves money", "expires_after_s": 1}
]}"#;

fn asks(home: &Home, thread: &str, amount: u32) {
    let said = format!("Refund order A1001, amount {amount}.");
    let came = home.weft(&["run", "desk", "--thread", thread, "--input", &said]);
    assert_eq!(came.status, Some(3), "{came:?}");
}

fn listed(home: &Home, more: &[&str]) -> Vec<Value> {
    let came = home.weft(&[&["approvals", "list", "--json"], more].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    came.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn refused(came: &Came, code: &str) {
    assert!(came.status == Some(2) && came.errors.contains(code), "{code}: {came:?}");
}

#[test]
fn decisions_and_refused_answers_are_on_record() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_POLICY", "rules.json");
    std::fs::write(home.path("rules.json"), RULES).expect("written");
    let none = home.weft(&["approvals", "list"]);
    assert!(none.status == Some(0) && none.errors.contains("no approvals"), "{none:?}");
    asks(&home, "edit", 25);
    let open = listed(&home, &[]);
    let [open] = open.as_slice() else { panic!("one call waits: {open:?}") };
    assert_eq!((&open["type"], &open["thread"]), (&"waiting".into(), &"edit".into()));
    let question = open["question"].as_str();
    let binding = &open["request"]["binding"];
    let by_id = |decision: &str, binding: &str| {
        let decision = decision.replace("BINDING", binding);
        format!("{}={decision}", question.expect("an id"))
    };
    let resume = ["threads", "resume", "edit"];
    let with = |more: &[&str]| home.weft(&[&resume, more].concat());

    let yes = r#"{"approved":true,"binding":"BINDING"}"#;
    refused(&with(&["--answer-json", &by_id(yes, &"0".repeat(64))]), "W0127");
    refused(&with(&["--edit", r#"{"order_id":"A1001","amount":"all"}"#]), "W0127");
    let edited = r#"{"approved":true,"binding":"BINDING","args":{"order_id":"A1001","amount":20}}"#;
    let edited = by_id(edited, binding.as_str().expect("a hash"));
    let came = with(&["--answer-json", &edited]);
    assert!(came.status == Some(0) && came.out.contains("20"), "{came:?}");
    refused(&with(&["--answer-json", &edited]), "W0204");
    let records = listed(&home, &["--thread", "edit"]);
    let outcomes: Vec<&Value> = records.iter().map(|record| &record["outcome"]).collect();
    assert_eq!(outcomes[0]["refused"], "other_call");
    assert_eq!(outcomes[1]["refused"], "invalid");
    let decided = &outcomes[2]["decided"];
    assert_eq!(decided["args"], serde_json::json!({"order_id": "A1001", "amount": 20}));
    assert_eq!(outcomes[3]["refused"], "already_answered");
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record["by"] == "local" && record["at"].is_u64()));

    asks(&home, "late", 5);
    let late = listed(&home, &["--thread", "late"]);
    let id = &late[0]["question"];
    let binding = &late[0]["request"]["binding"];
    // The thread resumes once the time is over.
    for _ in 0..600 {
        if home.weft(&["threads", "resume", "late"]).status == Some(0) {
            break;
        }
    }
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let answer = format!("{}={}", text(id), yes.replace("BINDING", &text(binding)));
    refused(&home.weft(&["threads", "resume", "late", "--answer-json", &answer]), "W0127");
    is_listed(&home);
}

fn is_listed(home: &Home) {
    asks(home, "open", 30);
    let shown = home.weft(&["approvals", "list"]);
    for words in [
        "THREAD",
        "never",
        "refused: the time for the decision was over",
        "lapsed",
        "nobody",
        r#""amount":20"#,
        "the question was answered before",
    ] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    let first = home.weft(&["approvals", "list", "--limit", "4"]);
    let next = first.errors.split_once("--after ").expect("a cursor").1.trim();
    let rest = listed(home, &["--after", next]);
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(rest.iter().all(|record| record["thread"] == "late"), "{rest:?}");
    let wrong = home.weft(&["approvals", "list", "--after", "x"]);
    assert!(wrong.status == Some(2) && wrong.errors.contains("cursor `x`"), "{wrong:?}");
    refused(&home.weft(&["approvals", "list", "--thread", "none"]), "W0201");
}

#[test]
fn a_terminated_instance_waits_for_no_approval() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(&["instances", "create", "desk", "--id", "front"]).status, Some(0));
    let ask = ["instances", "send", "front", "--message", "Refund order A1002, amount 40."];
    assert_eq!(home.weft(&ask).status, Some(3));
    let state = || home.weft(&["threads", "list"]).out;
    assert!(state().contains("waits for an answer"), "{}", state());
    for thread in [&[][..], &["--thread", "front"]] {
        assert_eq!(listed(&home, thread).len(), 1);
    }
    assert_eq!(home.weft(&["instances", "terminate", "front"]).status, Some(0));
    assert!(state().contains("cancelled") && !state().contains("waits"), "{}", state());
    for thread in [&[][..], &["--thread", "front"]] {
        assert_eq!(listed(&home, thread), Vec::<Value>::new());
    }
}
