//! Tests of `weft usage`.

use crate::home::Home;
use serde_json::{Value, json};

#[test]
fn usage_is_reported_by_agent_and_model_as_a_table_json_and_csv() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let none = home.weft(&["usage"]);
    assert!(none.status == Some(0) && none.errors.contains("no usage"), "{none:?}");
    let said = ["run", "desk", "--thread", "t", "--input", "Where is order A1001?"];
    assert_eq!(home.weft(&said).status, Some(0));

    let by = ["usage", "--by", "agent,model", "--json"];
    let lines = home.weft(&by);
    assert_eq!(lines.status, Some(0), "{lines:?}");
    let lines: Vec<Value> =
        lines.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [line] = &lines[..] else { panic!("one agent and one model: {lines:?}") };
    assert_eq!(line["attempts"], 2, "the call of the tool, and the answer: {line}");
    assert!(line["input_tokens"].as_u64() > Some(0), "{line}");
    assert_eq!(home.weft(&by).out, format!("{line}\n"), "a second report moves nothing");

    let table = home.weft(&["usage", "--by", "agent,version,day", "--zone", "Asia/Kathmandu"]).out;
    let head: Vec<_> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head[..4], ["AGENT", "VERSION", "DAY", "ATTEMPTS"], "{table}");
    let by_version = ["usage", "--by", "version", "--json"];
    let version = |home: &Home| -> Value {
        serde_json::from_str(&home.weft(&by_version).out).expect("one line")
    };
    let built = version(&home)["version"].as_str().expect("a version").to_owned();
    assert!(built.trim_end_matches("-dirty").len() == 12 || built.starts_with("build-"), "{built}");
    let csv = home.weft(&["usage", "--by", "account,key", "--csv"]).out;
    assert!(csv.starts_with("account,key,attempts,"), "{csv}");
    assert!(csv.contains("local,local,2,0,"), "{csv}");
    let before = home.weft(&["usage", "--until", "2020-12-31", "--json"]);
    assert_eq!((before.status, before.out.as_str()), (Some(0), ""));

    let reverse = ["--from", "2026-03-29", "--until", "2026-03-28"];
    for (args, expected) in [
        (&["--zone", "Mars"][..], "`zone` is \"Mars\""),
        (&["--from", "soon"], "`from` is \"soon\""),
        (&["--by", "user"], "`by` is \"user\""),
        (&reverse, "`until` is \"2026-03-28\"; expected a day that is not before `from`"),
    ] {
        let refused = home.weft(&[&["usage"], args].concat());
        assert!(refused.status == Some(2) && refused.errors.contains(expected), "{refused:?}");
    }
    assert_eq!(line["agent"], json!("builtin:desk"));
}

#[test]
fn transcripts_are_what_the_model_was_asked_in_full() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_TRANSCRIPTS", "transcripts");
    let said = ["run", "desk", "--thread", "t", "--input", "Where is order A1001?"];
    assert_eq!(home.weft(&said).status, Some(0));
    let files = std::fs::read_dir(home.path("transcripts")).expect("a folder");
    let texts: Vec<_> = files
        .map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a text"))
        .collect();
    assert_eq!(texts.len(), 2, "the call of the tool, and the answer: {texts:?}");
    assert!(texts.iter().all(|text| text.contains("Where is order A1001?")), "{texts:?}");
    let refused = Home::new().set("WEFT_TRANSCRIPTS", "/dev/null/transcripts").weft(&["doctor"]);
    assert!(refused.errors.contains("WEFT_TRANSCRIPTS"), "{refused:?}");
}

#[test]
fn a_person_is_erased_from_the_bill() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(&["run", "desk", "--input", "Where is order A1001?"]).status, Some(0));
    let by = ["usage", "--by", "account,key", "--csv"];
    let before = home.weft(&by).out;
    let unsure = home.weft(&["store", "erase", "account:local"]);
    assert!(unsure.status == Some(2) && unsure.errors.contains("--yes"), "{unsure:?}");
    let wrong = home.weft(&["store", "erase", "local", "--yes"]);
    assert!(wrong.status == Some(2) && wrong.errors.contains("`account:ID`"), "{wrong:?}");
    let erased = home.weft(&["store", "erase", "account:local", "--yes"]);
    assert!(erased.status == Some(0) && erased.errors.contains("2 attempts"), "{erased:?}");
    let nobody = "00000000-0000-0000-0000-000000000000";
    assert_eq!(home.weft(&by).out, before.replace("local", nobody));
}
