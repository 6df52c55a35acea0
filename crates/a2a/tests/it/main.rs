//! Tests of A2A through the router of a server.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod attacks;
mod bad_input;
mod cards;
mod kills;
mod organizations;
mod pushes;
mod reports;
mod tasks;
mod world;
