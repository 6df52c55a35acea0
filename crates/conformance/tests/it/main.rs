//! The kit against the engine, written as specs and as typed graphs, and the decoder of specs
//! under fuzz.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it relies on")]

mod crash;
mod decoder;
mod dose;
mod kit;
mod modes;
mod odd_checkpointer;
mod reports;
mod serve;
mod stores;
mod typed;
mod weft;
