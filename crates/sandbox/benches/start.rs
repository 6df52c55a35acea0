//! Measures calls of the sandbox against the start of a program that does nothing, in turns.
//!
//! Arguments are the program whose processes are measured, such as `target/release/weft
//! sandbox-process`; by default that of the tests.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock, prints its figures, and fails by panicking"
)]

use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use weftwork_graph::SystemClock;
use weftwork_sandbox::{CodeKind, NoHost, Sandbox, Script};

/// Number of rounds that are measured.
const ROUNDS: usize = 500;
/// Number of rounds before them.
const UNMEASURED: usize = 20;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let mut args = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let program = args.next().unwrap_or_else(|| env!("CARGO_BIN_EXE_weft-sandbox").to_owned());
    let sandbox = Sandbox::new(program, args);
    let function = Script {
        code: "async function handler(input) { return input.n + 1; }".to_owned(),
        input: json!({"n": 1}),
        ..Script::default()
    };
    let jq = Script { code_kind: CodeKind::Jq, code: ".n + 1".to_owned(), ..function.clone() };
    let mut nothing = Vec::new();
    let mut functions = Vec::new();
    let mut programs = Vec::new();
    for _ in 0..UNMEASURED + ROUNDS {
        let began = Instant::now();
        start_nothing().await;
        nothing.push(began.elapsed());
        for (script, times) in [(&function, &mut functions), (&jq, &mut programs)] {
            let began = Instant::now();
            let found = sandbox.run(script, &NoHost, &SystemClock::new()).await;
            times.push(began.elapsed());
            assert_eq!(found.expect("runs"), json!(2));
        }
    }
    let nothing = p50(nothing);
    println!("/bin/true: p50 {nothing:?}");
    for (what, times) in [("a function", functions), ("jq", programs)] {
        let p50 = p50(times);
        let ratio = p50.as_secs_f64() / nothing.as_secs_f64();
        let difference = p50.saturating_sub(nothing);
        println!("{what}: p50 {p50:?}, {ratio:.1} times /bin/true, {difference:?} more");
    }
}

async fn start_nothing() {
    let mut command = Command::new("/bin/true");
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    assert!(command.status().await.expect("starts").success());
}

fn p50(mut times: Vec<Duration>) -> Duration {
    let mut measured = times.split_off(UNMEASURED);
    measured.sort();
    measured[ROUNDS / 2]
}
