//! Answers to lines.

use serde_json::{Value as Json, json};
use std::io::Cursor;
use weftwork_conformance::{Profile, answer, batch};

fn lines(input: &str) -> Vec<Json> {
    let mut output = Vec::new();
    batch(Cursor::new(input), &mut output, Profile::LangGraph).unwrap();
    let text = String::from_utf8(output).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn spec() -> Json {
    json!({
        "state": {"log": "append"},
        "nodes": {"a": {"do": [["set", "log", ["a"]], ["set", "zz", 1]]}},
        "edges": [["START", "a"]],
        "script": [{"input": {"log": []}}],
    })
}

#[test]
fn each_line_is_answered_and_bad_ones_end_nothing() {
    let input = format!("{}\n\nno json\n[]\n{}", spec(), spec());
    let answers = lines(&input);
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["trace"][0]["state"]["values"], json!({"log": ["a"]}));
    let error = |index: usize| answers[index]["harness_error"].as_str().unwrap();
    assert!(error(1).starts_with("W0714: the spec is not JSON: "), "{}", error(1));
    assert_eq!(error(2), "W0714: the spec has [] at `/`; expected an object");
    assert!(answers[3].get("trace").is_some());
}

#[test]
fn bytes_that_are_no_text_are_answered() {
    let mut output = Vec::new();
    let input = Cursor::new(b"\xff\xfe\n".to_vec());
    batch(input, &mut output, Profile::LangGraph).unwrap();
    assert!(output.starts_with(b"{\"harness_error\":"));
}

#[test]
fn the_profile_decides_about_unknown_names() {
    let text = spec().to_string();
    let updates = json!([[], "updates", {"a": {"log": ["a"]}}]);
    let lenient = answer(&text, Profile::LangGraph);
    assert!(lenient["trace"][0]["events"].as_array().unwrap().contains(&updates));
    let strict = answer(&text, Profile::Weft);
    let error = strict["trace"][0]["error"][1].as_str().unwrap();
    assert!(error.contains("`zz`"), "{error}");
}

#[test]
fn a_graph_that_cannot_be_built_is_a_compile_error() {
    let mut spec = spec();
    spec["edges"] = json!([["START", "nowhere"]]);
    let answer = answer(&spec.to_string(), Profile::LangGraph);
    assert_eq!(answer["compile_error"][0], json!("ValueError"));
}
