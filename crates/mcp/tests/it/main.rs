//! Tests with servers that are real processes, and agents that call their tools.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod asking;
mod hostile;
mod pool;
#[cfg(feature = "test-servers")]
mod published;
mod rig;
mod server;
