//! Tests of error messages, and of names, filters and terms of items.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod errors;
mod items;
mod rows;
