//! Tests of models against real connections, and of the caller against failures.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod attacks;
mod call;
mod desk;
mod encoded;
mod live;
mod openai;
mod options;
mod paused;
mod protocols;
mod refusals;
mod server;
mod settings;
mod wire;
