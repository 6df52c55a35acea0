//! The embedded model, seen from outside.
//!
//! Most tests run on a model of a few kilobytes with random weights that they write themselves:
//! it talks nonsense, but loads, reads, remembers and obeys grammars like a real one. The tests in
//! `real` need the published weights and say so when they are not there.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod chat;
mod engine;
mod grammar;
mod import;
mod loading;
mod pull;
mod real;
mod snapshot;
mod tiny;
