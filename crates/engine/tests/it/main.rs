//! The engine from outside.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod drawn;
mod fuzz;
mod laws;
mod rows;
mod supersteps;
