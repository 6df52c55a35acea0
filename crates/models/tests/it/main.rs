//! Models against real connections, and the call seam against everything that can go wrong.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod call;
mod desk;
mod openai;
mod server;
mod wire;
