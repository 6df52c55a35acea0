//! Tests of OpenAI's API through the router of a server.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]

mod bad_input;
mod chat;
mod formats;
mod kills;
mod organizations;
mod reports;
mod responses;
mod world;
