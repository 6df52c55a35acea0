//! Tests of the output of successful commands.

use crate::home::Home;
use std::io::Write;
use std::process::Stdio;

#[test]
fn help_says_what_there_is() {
    let home = Home::new();
    let mut text = String::new();
    for command in [
        &[][..],
        &["chat"],
        &["run"],
        &["threads"],
        &["threads", "resume"],
        &["threads", "check"],
        &["threads", "list"],
        &["threads", "state"],
        &["threads", "history"],
        &["threads", "update"],
        &["threads", "fork"],
        &["threads", "prune"],
        &["runs"],
        &["runs", "list"],
        &["runs", "show"],
        &["runs", "watch"],
        &["runs", "requeue"],
        &["runs", "cancel"],
        &["worker"],
        &["serve"],
        &["dev"],
        &["store"],
        &["store", "export"],
        &["graph", "show"],
        &["demo"],
    ] {
        let args = [command, &["--help"]].concat();
        let came = home.weft(&args);
        assert_eq!(came.status, Some(0), "{came:?}");
        text.push_str(&format!("$ weft {}\n{}\n", args.join(" "), came.out));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_chat_over_a_pipe_asks_and_takes_the_next_line_as_the_answer() {
    let home = Home::new();
    let lines = "Refund order A1001, amount 25.\nmaybe\nn, ask the boss\nRefund order A1001, amount 25.\nyes\n";
    let mut command = home.command(&["chat", "--thread", "t", "--model", "scripted"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_chat_that_ends_at_a_question_says_how_to_answer_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let mut command = home.command(&["chat", "--thread", "t"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let typed = b"Refund order A1001, amount 25.\n";
    child.stdin.take().expect("a pipe").write_all(typed).expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("answer with: weft threads resume t --approve"), "{errors}");
    // The next chat on the thread starts with the question.
    let mut command = home.command(&["chat", "--thread", "t"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"y\n").expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.starts_with("? refund_order needs"), "{out}");
    assert!(out.contains("status refunded"), "{out}");
}

#[test]
fn a_run_in_json_is_one_event_a_line_and_the_outcome_last() {
    let home = Home::new();
    let args = ["run", "desk", "--json", "--model", "scripted", "--thread", "t", "--input"];
    let came = home.weft(&[&args[..], &["What is 6 times 7?"]].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    let lines: Vec<serde_json::Value> =
        came.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "without gaps");
    assert_eq!(types.iter().filter(|kind| **kind == "done").count(), 1);
    let last = lines.last().expect("a line");
    assert_eq!(
        (last["type"].as_str(), last["outcome"].as_str()),
        (Some("outcome"), Some("completed"))
    );
    assert_eq!(last["thread"], "t");
    assert_eq!(last["label"], "scripted model: deterministic rules, not a language model");
    assert!(types.contains(&"tool_call_result") && types.contains(&"text_delta"), "{types:?}");
}

#[test]
fn graphs_agents_and_pages_are_shown() {
    let home = Home::new();
    let came = home.weft(&["graph", "show", "desk"]);
    assert!(came.out.starts_with("flowchart TD\n"), "{came:?}");
    let came = home.weft(&["graph", "show", "desk", "--format", "svg"]);
    assert!(came.out.starts_with("<svg ") && came.out.ends_with("</svg>\n"), "{came:?}");
    let came = home.weft(&["agents", "list"]);
    assert!(came.out.contains("builtin:desk"), "{came:?}");
    let came = home.weft(&["explain", "w0302"]);
    assert!(came.out.starts_with("W0302: "), "{came:?}");
    let came = home.weft(&["completions", "bash"]);
    assert!(came.out.contains("_weft()"), "{came:?}");
    let came = home.weft(&["--version"]);
    assert!(came.out.starts_with(concat!("weft ", env!("CARGO_PKG_VERSION"))), "{came:?}");
    assert!(!home.path(".local").exists(), "reading creates no files");
}

#[test]
fn a_thread_continues_with_its_model() {
    let home = Home::new();
    let said = ["run", "desk", "--thread", "t", "--input", "Refund order A1001, amount 25."];
    assert_eq!(home.weft(&[&said[..], &["--model", "scripted"]].concat()).status, Some(3));
    // The configuration now sets another model; the thread keeps its own.
    let home = home.config("model = \"openai:gpt-4o-mini\"\n");
    let came = home.weft(&["threads", "resume", "t", "--approve"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("[scripted model] Refund order"), "{came:?}");
    let came = home.weft(&["threads", "journal", "t"]);
    assert!(came.out.contains("calls made: 3, reused: 0, possibly paid: 0"), "{came:?}");
    let came = home.weft(&["threads", "state", "t"]);
    let state: serde_json::Value = serde_json::from_str(&came.out).expect("JSON");
    assert_eq!(state["messages"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_thread_is_forked_and_both_continue() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let ask = |thread: &str| {
        let came = home.weft(&["run", "desk", "--thread", thread, "--input", "Where is A1001?"]);
        assert_eq!(came.status, Some(0), "{came:?}");
    };
    let messages = |thread: &str| {
        let came = home.weft(&["threads", "state", thread]);
        let state: serde_json::Value = serde_json::from_str(&came.out).expect("JSON");
        state["messages"].as_array().map_or(0, Vec::len)
    };
    ask("a");
    let came = home.weft(&["threads", "fork", "a", "b"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("created thread b from a"), "{came:?}");
    let before = messages("a");
    assert_eq!(messages("b"), before);
    ask("b");
    assert_eq!((messages("a"), messages("b")), (before, 2 * before));
    for (args, code) in
        [(["threads", "fork", "a", "b"], "W0212"), (["threads", "fork", "nobody", "c"], "W0201")]
    {
        let came = home.weft(&args);
        assert!(came.status != Some(0) && came.errors.contains(code), "{came:?}");
    }
    let came = home.weft(&["threads", "fork", "a", "c", "--at", &"7".repeat(26)]);
    assert!(came.status != Some(0), "{came:?}");
    for command in ["show", "journal"] {
        let came = home.weft(&["threads", command, "b"]);
        assert_eq!(came.status, Some(0), "{came:?}");
    }
}

#[test]
fn the_same_refund_on_other_threads_is_another_refund() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let refund = |thread: &str| {
        let said = ["run", "desk", "--thread", thread, "--input", "Refund order A1001, amount 1."];
        assert_eq!(home.weft(&said).status, Some(3));
        let came = home.weft(&["threads", "resume", thread, "--approve"]);
        assert_eq!(came.status, Some(0), "{came:?}");
    };
    refund("a");
    refund("b");
    // A new thread with the id of a deleted one.
    assert_eq!(home.weft(&["threads", "delete", "a", "--yes"]).status, Some(0));
    refund("a");
    let came = home.weft(&["run", "desk", "--thread", "q", "--input", "Where is order A1001?"]);
    assert!(came.out.contains("refunded 3"), "{came:?}");
}

#[test]
fn specs_from_standard_input_are_played() {
    let spec = r#"{"state": {"log": "append"}, "nodes": {"a": {"do": [["set", "log", ["a"]]]}},
        "edges": [["START", "a"]], "checkpointer": false, "script": [{"input": {}}]}"#;
    let line = spec.replace('\n', " ");
    let home = Home::new();
    let answers = |args: &[&str], input: String| -> Vec<serde_json::Value> {
        let mut child = home.command(args).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(input.as_bytes()).expect("written");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let one = answers(&["conformance"], spec.to_owned());
    assert_eq!(one.len(), 1);
    assert_eq!(one[0]["trace"][0]["events"][0][1], "tasks");
    let many = answers(&["conformance", "--batch"], format!("{line}\nno spec\n{line}\n"));
    assert_eq!(many.len(), 3);
    let updates = |answer: &serde_json::Value| answer["trace"][0]["events"][1].to_string();
    assert_eq!(updates(&many[0]), r#"[[],"updates",{"a":{"log":["a"]}}]"#);
    assert_eq!(updates(&many[2]), updates(&many[0]));
    let refused = many[1]["harness_error"].as_str().expect("a refusal");
    assert!(refused.starts_with("W0714: "), "{refused}");
    assert!(!home.path(".local").exists(), "nothing is stored");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let mut child = home.command(&["explain"]).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_demo_plays_the_whole_story_on_the_scripted_model() {
    let home = Home::new();
    let came = home.weft(&["demo", "--model", "scripted", "--dir", "story"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    for line in [
        "→ refund_order {\"order_id\":\"A1001\",\"amount\":25}",
        "SIGKILL to process",
        "model calls: 4, repeated after the kill: 0",
        "refunds of order A1001 in desk.db: 1, 25.00 euros",
        "✓ the answer says when the order arrives",
        "✓ the order was looked up exactly once",
        "Everything with a ✓ was checked.",
    ] {
        assert!(came.out.contains(line), "{line}: {}", came.out);
    }
    let desk = rusqlite::Connection::open(home.path("story/desk.db")).expect("opens");
    let refunds: i64 = desk
        .query_row("SELECT sum(amount_cents) FROM refunds", [], |row| row.get(0))
        .expect("a sum");
    assert_eq!(refunds, 2_500);
}
