//! The engine from outside.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod fuzz;
mod laws;
