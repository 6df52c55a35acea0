//! The command `weft` as a process, from outside.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]

mod bad_input;
mod commands;
mod database;
mod documents;
mod home;
mod left_behind;
mod prune;
mod runs;
mod stores;
mod trial;
mod weights;
