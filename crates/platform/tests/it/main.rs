//! Definitions as others write them.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod folders;
mod sound;
mod wrong;
