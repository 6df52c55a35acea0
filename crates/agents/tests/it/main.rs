//! The ReAct agent on scripted answers.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod desk;
mod modes;
mod react;
