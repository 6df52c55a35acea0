//! Graphs as their authors write them, and runs of them in this process.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod behind;
mod drawings;
mod ends;
mod errors;
mod fields;
mod gated;
mod gated_runs;
mod keys;
mod messages;
mod once;
#[path = "../../../conformance/src/crash/pass_on.rs"]
mod pass_on;
mod peers;
mod questions;
mod resuming;
mod sim;
mod support;
mod timers;
mod ui;
mod unsound;
mod within;
mod wrong;
