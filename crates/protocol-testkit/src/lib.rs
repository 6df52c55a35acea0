//! Support for tests of the protocols by which agents are reached: a [`Desk`] with agents, a model that
//! tests script, and clients of two organisations, and what tests send and read.
//!
//! Everything here panics where a test is to fail.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::panic,
    reason = "tests fail by panics, and use what they ask for"
)]

mod desk;
mod http;

pub use desk::{
    ADA, Agent, BOB, Blind, Desk, DeskParts, EVE, Model, NoNetwork, READER, RUNNER, last_text,
    malformed, written,
};
pub use http::{Answer, Events, open, request_of, send};
