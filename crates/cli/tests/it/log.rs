//! Tests of the log.

use crate::home::{Came, Home};
use crate::trial;
use serde_json::Value;

/// A run that fails with a reason of several lines, which clears the screen of a terminal.
fn failed(home: &Home, more: &[&str]) -> Came {
    let args = [&["run", "failing", "--model", "scripted", "--input-json", "{}"], more].concat();
    let mut command = home.program(&trial::program(), &args);
    let came: Came =
        command.env("WEFT_TRIAL_FAILS", "no\nluck\x1b[2J").output().expect("starts").into();
    assert_eq!(came.status, Some(1), "{came:?}");
    came
}

#[test]
fn a_failed_run_is_a_line_of_the_log_with_code_and_reason() {
    let json = failed(&Home::new(), &["--log", "warn", "--log-format", "json"]);
    let events: Vec<Value> =
        json.errors.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [event] = &events[..] else { panic!("{json:?}") };
    assert_eq!(event["level"], "WARN", "{event}");
    assert_eq!(event["message"], "run failed", "{event}");
    assert!(event["code"].as_str().is_some_and(|code| code.starts_with('W')), "{event}");
    assert!(event["reason"].as_str().is_some_and(|text| text.contains("no\nluck")), "{event}");

    let text = failed(&Home::new(), &["--log", "weftwork_runtime=warn"]);
    let lines: Vec<_> = text.errors.lines().filter(|line| line.contains(" WARN ")).collect();
    let [line] = &lines[..] else { panic!("{text:?}") };
    assert!(line.contains("no\\nluck") && !line.contains('\x1b'), "{line}");
}

#[test]
fn the_least_level_is_that_of_the_flag_of_the_environment_or_of_the_command() {
    let logs = |home: &Home, more: &[&str]| failed(home, more).errors.contains(" WARN ");
    assert!(!logs(&Home::new(), &[]), "`run` prints the error itself");
    assert!(logs(&Home::new().set("RUST_LOG", "info,hyper=trace"), &[]));
    assert!(!logs(&Home::new().set("RUST_LOG", "trace"), &["--log", "off"]));
    for (levels, expected) in [
        ("loud", "expected off, error, warn, info, debug or trace"),
        ("info,hyper=trace", "`hyper` is no part of this program"),
    ] {
        let home = Home::new();
        let args = ["agents", "list", "--log", levels];
        let came: Came = home.program(&trial::program(), &args).output().expect("starts").into();
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains(expected), "{came:?}");
    }
}
