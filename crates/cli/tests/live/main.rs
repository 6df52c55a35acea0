//! A test of the order desk on a language model behind llama.cpp's server: a tool call, a kill
//! while the refund waits for approval, the approval in another process, exactly one refund, and
//! the final answer.
//!
//! Without a server the answers come from a recording, and the requests must equal the recorded
//! ones. `make test-live` runs the test against the real server; `scripts/test-live.sh --record`
//! records it, which is needed when the desk's tools or instructions change.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]
#![expect(clippy::print_stdout, reason = "the transcript is part of the result")]

mod cassette;
mod desk;

use desk::Desk;
use std::path::{Path, PathBuf};

/// Environment variable for the base URL of a server that replaces the recording.
const SERVER: &str = "WEFT_TEST_LIVE_URL";
/// Environment variable; if set, the recording is replaced by the answers of the server.
const RECORD: &str = "WEFT_TEST_LIVE_RECORD";
const MODEL: &str = "smollm2-135m";

fn recording() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a root");
    root.join("tests/cassettes/desk-llamacpp.json")
}

#[test]
fn the_story_plays_on_a_real_language_model_or_its_recording() {
    let server = std::env::var(SERVER).ok();
    let record = server.is_some() && std::env::var_os(RECORD).is_some();
    let model = match &server {
        Some(_) => format!("llamacpp:{MODEL}"),
        None => format!("replay:{}", recording().display()),
    };
    println!(
        "model {model}{}",
        server.as_deref().map_or(String::new(), |url| format!(" at {url}"))
    );
    let desk = Desk::new(server.as_deref());

    // The first process: two requests, and a kill while the second waits for an approval.
    let first = record.then(|| desk.file("first.json"));
    let said = ["Where is order A1001?", "Refund order A1001, amount 25."];
    desk.killed_while_it_waits(&model, &said, first.as_deref());
    let before = desk.calls();
    assert_eq!(desk.refunds(), (0, 0), "nothing is refunded before the approval");
    let tools = ["lookup_order"];
    assert_eq!(tools_of(&before), tools, "the refund waits: {before:#?}");
    assert_eq!(before.len(), 4, "model, tool, model, model: {before:#?}");

    // The second process is given only the thread.
    let second = record.then(|| desk.file("second.json"));
    let answer = desk.approve(second.as_deref());
    let after = desk.calls();
    assert_eq!(desk.refunds(), (1, 2_500), "refunded once");
    assert_eq!(tools_of(&after), ["lookup_order", "refund_order"]);
    assert_eq!(after[..before.len()], before, "no call was made again");
    assert!(after.iter().all(|call| call.made == 1 && call.settled), "{after:#?}");
    let told = answer.to_lowercase();
    assert!(told.contains("refund") && told.contains("a1001"), "it mentions the refund: {answer}");

    figures(&after);
    match (first, second) {
        (Some(first), Some(second)) => cassette::join(&[first, second], &recording()),
        _ if server.is_none() => assert_eq!(
            after.iter().filter(|call| call.kind == "model").count(),
            cassette::exchanges(&recording()),
            "the whole recording was played"
        ),
        _ => {}
    }
}

fn tools_of(calls: &[desk::Call]) -> Vec<&str> {
    calls.iter().filter(|call| call.kind == "tool").map(|call| call.name.as_str()).collect()
}

fn figures(calls: &[desk::Call]) {
    for call in calls.iter().filter(|call| call.kind == "model") {
        let (tokens_in, tokens_out, ms) = call.usage;
        println!("model call: {tokens_in} tokens read, {tokens_out} written, {ms} ms");
    }
    let models = calls.iter().filter(|call| call.kind == "model").count();
    println!("model calls: {models}, repeated after the kill: 0; refunds: 1");
}
