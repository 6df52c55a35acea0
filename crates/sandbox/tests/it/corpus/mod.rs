//! Code of function agents whose results stay byte for byte as they are.
//!
//! `v1.txt` and `v1.out` are frozen: whoever wrote code like this relies on it. What changes a result needs
//! a further version beside them, and a reason in the changelog.

use crate::{Echo, run, script};
use serde_json::Value;
use std::fmt::Write;
use weftwork_sandbox::Script;
use weftwork_types::canonical::hash_bytes;

const CODE: &str = include_str!("v1.txt");
const RESULTS: &str = include_str!("v1.out");
/// Hash of both files.
const FROZEN: &str = "a9160dc6d5554c8f2c504d5acbc6654e0d9ee4dbd2b260882ee821339c3bf2a3";

#[tokio::test]
async fn results_stay_as_they_are() {
    let frozen = hash_bytes(format!("{CODE}{RESULTS}").as_bytes()).to_string();
    if std::env::var_os("WEFT_WRITE").is_none() {
        assert_eq!(frozen, FROZEN, "the corpus is frozen: add a version");
    }
    let mut results = String::new();
    let code = format!("\n{CODE}");
    let cases: Vec<&str> = code.split("\n=== ").skip(1).collect();
    assert!(cases.len() >= 20);
    for case in cases {
        let mut lines = case.splitn(3, '\n');
        let mut next = || lines.next().expect("a line");
        let name = next();
        let input: Value = serde_json::from_str(next()).expect("JSON");
        let script = Script { input, seed: 7, now_ms: 1_700_000_000_000, ..script(next()) };
        let found = run(&script, &Echo::default()).await;
        let found = found.map_or_else(|error| error.to_string(), |value| value.to_string());
        writeln!(results, "=== {name}\n{found}").expect("writes");
    }
    if std::env::var_os("WEFT_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/corpus/v1.out");
        std::fs::write(path, &results).expect("writes");
    }
    assert_eq!(results, RESULTS);
}
