//! Tests of `weft models` and of prompt hashes on the command line.

use crate::home::Home;
use serde_json::{Value, json};

#[test]
fn what_a_model_can_do_is_shown_without_a_key() {
    let home = Home::new();
    let shown = |id: &str| {
        let came = home.weft(&["models", "show", id, "--json"]);
        assert_eq!(came.status, Some(0), "{came:?}");
        serde_json::from_str::<Value>(&came.out).expect("JSON")
    };
    let sonnet = shown("anthropic:claude-sonnet-4-5");
    assert_eq!(sonnet["protocol"], "anthropic");
    assert_eq!(sonnet["cannot"], json!(["audio", "video", "seed"]));
    assert_eq!(
        (&sonnet["context_tokens"], &sonnet["output_tokens"]),
        (&json!(200_000), &json!(64_000))
    );
    assert_eq!(sonnet["price_usd"], json!(["3", "15"]));
    let embedded = shown("scripted");
    assert_eq!((&embedded["protocol"], &embedded["price_usd"]), (&Value::Null, &json!(["0", "0"])));
    let came = home.weft(&["models", "show", "gemini:gemini-3-flash"]);
    assert!(came.out.contains("cannot    parallel_tool_calls = false"), "{came:?}");
    let came = home.weft(&["models", "show", "nobody:x"]);
    assert_eq!(came.status, Some(2), "{came:?}");
}

#[test]
fn prompt_hashes_are_compared_with_the_last_run_of_the_agent() {
    let home = Home::new();
    let run = |thread: &str, input: &str| {
        let args = ["run", "desk", "--model", "scripted", "--thread", thread, "--input", input];
        let came = home.weft(&args);
        assert_eq!(came.status, Some(0), "{came:?}");
    };
    let results = |thread: &str| {
        let came = home.weft(&["threads", "journal", thread, "--hashes", "--json"]);
        assert_eq!(came.status, Some(0), "{came:?}");
        let lines = came.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines
            .map(|call| call["comparison"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    run("one", "What is 6 times 7?");
    run("two", "What is 6 times 7?");
    run("three", "What is 6 times 8?");
    assert_eq!(results("one"), ["first", "first"]);
    assert_eq!(results("two"), ["same", "same"]);
    assert_eq!(results("three"), ["differs", "differs"]);
    let came = home.weft(&["threads", "journal", "three", "--hashes"]);
    assert!(came.out.contains("PROMPT HASH") && came.out.contains("differs"), "{came:?}");
}
