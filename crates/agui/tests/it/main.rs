//! Tests of AG-UI through the router of a server.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]

mod attacks;
mod bad_input;
mod interrupts;
mod kills;
mod organizations;
mod page;
mod rules;
mod runs;
mod world;
