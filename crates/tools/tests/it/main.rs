//! Tests of tools through the public API.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod approval;
mod asking;
mod builtin;
mod calls;
mod content;
mod generated;
mod journal;
mod macros;
mod requirements;
mod retries;
mod rig;
mod toolbox;
mod ui;
