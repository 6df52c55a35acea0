//! Tests of `weftwork-server` from outside.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod answers;
mod attacks;
mod browse;
mod canary;
mod chat;
mod client;
mod embedded;
mod errors;
mod executor;
mod first_run;
mod front_ends;
mod graphs;
mod habits;
mod hosted_prompts;
mod ids;
mod instances;
mod keys;
mod limits;
mod members;
mod protocol;
mod recorded;
mod reference;
mod replaced;
mod resources;
mod rights;
mod routes;
mod runs;
mod traces;
#[cfg(feature = "ui")]
mod ui;
mod unreadable;
mod usage;
