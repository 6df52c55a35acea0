//! Recordings. Each process writes its own recording, and the test has several processes.

use serde_json::Value;
use std::path::{Path, PathBuf};

fn read(file: &Path) -> Value {
    let text = std::fs::read(file).expect("a recording");
    serde_json::from_slice(&text).expect("a recording in JSON")
}

fn exchanges_of(cassette: &Value) -> &Vec<Value> {
    cassette["exchanges"].as_array().expect("exchanges")
}

/// Returns the number of exchanges in a recording.
pub(crate) fn exchanges(file: &Path) -> usize {
    exchanges_of(&read(file)).len()
}

/// Joins the recordings of several processes, in their order.
pub(crate) fn join(parts: &[PathBuf], file: &Path) {
    let parts: Vec<Value> = parts.iter().map(|part| read(part)).collect();
    let mut whole = parts.first().expect("a part").clone();
    whole["exchanges"] = parts.iter().flat_map(exchanges_of).cloned().collect();
    let text = serde_json::to_string_pretty(&whole).expect("JSON");
    std::fs::write(file, text + "\n").expect("writes");
    println!("recorded {}: {} exchanges", file.display(), exchanges_of(&whole).len());
}
