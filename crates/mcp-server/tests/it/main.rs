//! Tests of MCP through the router of a server.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod attacks;
mod bad_input;
mod calls;
mod kills;
mod lines;
mod organizations;
mod questions;
mod reports;
mod tasks;
mod tools;
mod world;
