//! Tests with servers that are real processes, and agents that call their tools.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod asking;
mod hostile;
mod http;
mod oauth;
mod oauth_answers;
mod oauth_scene;
mod oauth_server;
mod pool;
mod progress;
mod published;
mod rig;
mod server;
