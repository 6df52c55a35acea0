//! Servers as processes: shared, killed, restarted.

use crate::rig::{Rig, Talk, reads, results, run};
use crate::server::KIND;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_mcp::{LockFile, Output, Terms};
use weftwork_models::scripted::Step;
use weftwork_store::memory::MemoryStore;
use weftwork_tools::Policy;
use weftwork_types::tool::{Effect, UnknownOutcome};

fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// Waits until a process has ended.
async fn ended(process: &str) {
    for _ in 0..500 {
        if !is_alive(process) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {process} is still there");
}

#[tokio::test]
async fn fifty_calls_use_one_process_that_ends_with_the_servers() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/pid", "plain/child"], &reads()).await;
    let calls: Vec<(&str, Value)> = (0..50).map(|_| ("plain__pid", json!({}))).collect();
    let mut said = run(&servers, &calls).await;
    said.dedup();
    assert_eq!(said.len(), 1, "one process: {said:?}");
    let child = run(&servers, &[("plain__child", json!({}))]).await;
    let [process, child] =
        [&said[0], &child[0]].map(|said| said.ok().as_str().expect("an id").to_owned());
    assert!(is_alive(&process) && is_alive(&child));
    drop(servers);
    ended(&process).await;
    ended(&child).await;
    assert_eq!(rig.calls().len(), 51);
}

#[tokio::test]
async fn calls_at_once_share_the_start_of_a_process() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/pid"], &reads()).await;
    let both = [("plain__pid", json!({}))];
    let (a, b) = tokio::join!(run(&servers, &both), run(&servers, &both));
    assert_eq!(a, b);
    servers.shutdown().await;
    ended(a[0].ok().as_str().expect("an id")).await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again_and_not_for_ever() {
    let rig = Rig::with("plain").limits(|limits| limits.starts = 3);
    let servers = rig.allowing(&["plain/exit", "plain/pid"], &reads()).await;
    let pid = ("plain__pid", json!({}));
    let exit = ("plain__exit", json!({}));
    let calls = [pid.clone(), exit.clone(), pid.clone(), exit.clone(), pid.clone(), exit.clone()];
    let calls: Vec<_> = calls.into_iter().chain([exit.clone(), pid, exit]).collect();
    let said = run(&servers, &calls).await;
    for died in [&said[1], &said[3], &said[5]] {
        assert_eq!(died.failure().0, "W0906", "{died:?}");
    }
    let pids: BTreeSet<&str> =
        [0, 2, 4].iter().map(|at| said[*at].ok().as_str().expect("an id")).collect();
    assert_eq!(pids.len(), 3, "each death has a new process");
    // The tool is not called any more; others of its server are.
    for refused in [&said[6], &said[8]] {
        let (code, message) = refused.failure();
        assert_eq!(code, "W0905", "{said:?}");
        assert!(message.contains("tool `plain/exit` is not called now"), "{message}");
    }
    assert!(said[7].ok().is_string(), "{said:?}");
    assert_eq!(rig.calls().len(), 7, "no call was made twice");
}

#[tokio::test]
async fn secret_arguments_are_those_that_the_operator_names() {
    let rig = Rig::with("plain");
    let terms = Terms { secret: vec!["text".to_owned()], shown: Vec::new(), ..reads() };
    let servers = rig.allowing(&["plain/echo"], &terms).await;
    let spec = servers.lock().get("plain/echo").expect("allowed").spec("plain/echo");
    assert_eq!(spec.parameters["properties"]["text"]["x-secret"], json!(true));
    let steps = vec![
        Step::call("plain__echo", json!({"text": "CANARY-4711"})),
        Step::call("plain__echo", json!({"text": "a", "CANARY-4711": "CANARY-4711"})),
        Step::text("Done."),
    ];
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(SystemClock::new());
    let policy = Policy::new().allow("plain/*").expect("a pattern");
    let talk = Talk::open(store, clock, &servers, policy, steps).await;
    let outcome = talk.say().await;
    let text = format!("{outcome:?}");
    assert!(!text.contains("CANARY") && text.contains("[secret]"), "{text}");
    assert!(text.contains("W0402"), "unknown arguments are refused: {text}");
    assert_eq!(rig.calls(), ["echo"]);
    let terms = Terms { secret: vec!["pin".to_owned()], ..terms };
    let error = rig.try_allowing(&["plain/echo"], &terms).await.expect_err("no such argument");
    assert!(error.to_string().contains("declares no argument `pin`, only: text"), "{error}");
}

#[tokio::test]
async fn the_text_of_a_failure_is_shown_only_where_whole_results_are() {
    let rig = Rig::with("plain");
    let hidden = Terms { shown: Vec::new(), ..reads() };
    let servers = rig.allowing(&["plain/fails", "plain/breaks"], &hidden).await;
    let said = run(&servers, &[("plain__fails", json!({})), ("plain__breaks", json!({}))]).await;
    for failed in &said {
        let (_, message) = failed.failure();
        assert!(message.ends_with("text is for the model alone"), "{message}");
    }
}

#[tokio::test]
async fn a_connection_lost_in_a_call_with_an_effect_leaves_its_outcome_unknown() {
    for idempotent in [false, true] {
        let rig = Rig::with("plain");
        let terms = Terms { effect: Effect::ExternalSideEffect, idempotent, ..reads() };
        let servers = rig.allowing(&["plain/exit"], &terms).await;
        let policy = Policy::new().allow("plain/*").expect("a pattern");
        let steps = vec![Step::call("plain__exit", json!({})), Step::text("Done.")];
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(SystemClock::new());
        let talk = Talk::open(store, clock, &servers, policy, steps).await;
        let mut outcome = talk.say().await;
        if !idempotent {
            let (id, question) = talk.question(&outcome).await;
            assert!(question.contains("tool_outcome_unknown"), "a person decides: {question}");
            outcome = talk.answer(id, json!({"answer": "give_up"})).await;
        }
        let said = results(&outcome);
        let (code, message) = said[0].failure();
        let expected = if idempotent { "W0906" } else { "W0413" };
        assert_eq!(code, expected, "{message}");
        assert_eq!(rig.calls(), ["exit"], "it is not made again");
    }
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_to_the_operator_and_not_to_the_model() {
    let rig = Rig::with("plain").limits(|limits| limits.start = Duration::from_secs(2));
    rig.allowing(&["plain/echo"], &reads()).await;
    for (kind, code, words) in
        [("dies-at-start", "W0904", "no licence key red"), ("silent", "W0907", "first request")]
    {
        let broken = Rig::with("x").server("plain", kind).limits(|limits| *limits = rig.limits);
        std::fs::copy(rig.path("mcp.lock"), broken.path("mcp.lock")).expect("copied");
        let servers = broken.servers();
        let error = servers.offer("plain").await.expect_err("cannot be used");
        assert_eq!(error.code().0, code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        let said = run(&servers, &[("plain__echo", json!({}))]).await;
        let (found, message) = said[0].failure();
        assert_eq!(found, code);
        assert!(!message.contains("licence"), "{message}");
    }
    let missing = Rig::with("plain").servers();
    let error = missing.offer("other").await.expect_err("unknown");
    assert_eq!(error.code().0, "W0903");
    assert!(error.to_string().contains("the file has: plain"), "{error}");
}

#[tokio::test]
async fn the_environment_has_only_what_the_file_says() {
    let servers = Rig::with("plain").servers();
    let config = format!("{:?}", servers.file().servers);
    assert!(config.contains(KIND), "{config}");
    assert!(!config.contains("CARGO"), "tests run with many such variables: {config}");
}

#[tokio::test]
async fn terms_are_recorded_and_hold() {
    let rig = Rig::with("plain");
    let writes = Terms { effect: Effect::ExternalSideEffect, shown: Vec::new(), ..reads() };
    let servers = rig.allowing(&["plain/echo"], &writes).await;
    let allowed = servers.lock().get("plain/echo").expect("allowed").clone();
    assert_eq!((allowed.output, allowed.on_unknown), (Output::Opaque, UnknownOutcome::Ask));
    assert_eq!(allowed.wire_name, "plain__echo");
    let schema = Terms { output: Some(Output::Schema), ..reads() };
    let error = rig.try_allowing(&["plain/pid"], &schema).await.expect_err("no schema");
    assert_eq!(error.code().0, "W0910", "{error}");
    let error = rig.try_allowing(&["plain/none"], &reads()).await.expect_err("no such tool");
    assert_eq!(error.code().0, "W0911", "{error}");

    let mut lock = servers.lock().clone();
    assert!(lock.deny("plain/echo") && !lock.deny("plain/echo"));
    lock.write().expect("written");
    assert_eq!(LockFile::beside(servers.file()).expect("read").tools().count(), 0);
    for bad in ["{", r#"{"version": 3, "tools": {}}"#, r#"{"version": 1, "tools": {}, "x": 1}"#] {
        std::fs::write(lock.path(), bad).expect("written");
        let error = LockFile::beside(servers.file()).expect_err("invalid");
        assert_eq!(error.code().0, "W0901", "{error}");
    }
}

#[tokio::test]
async fn tools_of_two_servers_with_one_wire_name_are_not_both_allowed() {
    let rig = Rig::new().server("a.b", "plain").server("a-b", "plain");
    let error = rig.try_allowing(&["a.b/echo", "a-b/echo"], &reads()).await.expect_err("collide");
    assert_eq!(error.code().0, "W0910");
    let text = error.to_string();
    assert!(text.contains("a.b/echo") && text.contains("a-b/echo"), "{text}");
}

#[tokio::test]
async fn an_answer_in_an_odd_form_is_the_result_of_its_call() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/answers"], &reads()).await;
    let forms = [
        (json!("sent"), "sent"),
        (json!(null), ""),
        (json!({"status": "sent"}), r#"{"status":"sent"}"#),
        (json!({"error": "x"}), r#"{"error":"x"}"#),
        (
            json!({"resultType": "complete", "resources": []}),
            r#"{"resultType":"complete","resources":[]}"#,
        ),
    ];
    let calls: Vec<_> = forms
        .iter()
        .map(|form| {
            let answer = json!({"jsonrpc": "2.0", "id": "ID", "result": form.0}).to_string();
            ("plain__answers", json!({"text": answer.replace("\"ID\"", "ID")}))
        })
        .collect();
    for (said, (form, expected)) in run(&servers, &calls).await.iter().zip(&forms) {
        assert_eq!(said.ok(), &json!(expected), "{form}");
    }
}

#[tokio::test]
async fn secrets_of_an_entry_are_hidden_in_errors_of_its_server() {
    let program = std::env::current_exe().expect("this program");
    let rig = Rig::new();
    let entry = |kind: &str| {
        json!({
            "command": program, "args": crate::server::ARGS,
            "env": {KIND: kind, crate::server::FOLDER: rig.path(""), "API_KEY": "key-of-a-person"},
        })
    };
    let starts = entry("leaks-at-start");
    let calls = entry("leaks");
    let rig = rig.entry("starts", starts).entry("calls", calls);
    let error = rig.servers().offer("starts").await.expect_err("it ends");
    assert!(error.to_string().contains("bad key ***"), "{error}");
    let servers = rig.allowing(&["calls/fails", "calls/breaks", "calls/echo"], &reads()).await;
    let said = run(
        &servers,
        &[
            ("calls__fails", json!({})),
            ("calls__breaks", json!({})),
            ("calls__echo", json!({"text": "key-of-a-person"})),
        ],
    )
    .await;
    for failed in &said[..2] {
        assert!(failed.failure().1.contains("bad key ***"), "{failed:?}");
    }
    assert_eq!(said[2].ok(), &json!("key-of-a-person"), "a result stays as it is");
}

#[tokio::test]
async fn a_failure_that_a_server_reports_is_the_result_of_the_call() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/fails", "plain/breaks", "plain/echo"], &reads()).await;
    let said = run(
        &servers,
        &[
            ("plain__fails", json!({})),
            ("plain__breaks", json!({})),
            ("plain__echo", json!({"text": "a"})),
            ("plain__echo", json!({"text": 1})),
        ],
    )
    .await;
    assert_eq!(said[0].failure(), ("W0406", "no such page"));
    let (code, message) = said[1].failure();
    assert_eq!(code, "W0909");
    assert!(message.ends_with("with an error: broken (code -32000)"), "{message}");
    assert_eq!(said[2].ok(), &json!("a"));
    assert_eq!(said[3].failure().0, "W0402");
    assert_eq!(rig.calls(), ["fails", "breaks", "echo"], "invalid arguments reach no server");
}
