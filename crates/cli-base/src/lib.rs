//! Shared parts of the commands of `weft`: output, errors and exit statuses, signals, the
//! configured agents and stores, runs as they are shown, and questions to people.
//!
//! A part of the binary `weft`, in a crate of its own so that a change in a command does not compile
//! it again.
#![expect(missing_docs, reason = "comments of arguments are the help of commands")]
#![expect(missing_debug_implementations, reason = "nothing prints a command")]

pub mod args;
pub mod browser;
pub mod context;
pub mod editor;
pub mod error;
pub mod exit;
pub mod follow;
pub mod frames;
pub mod input;
pub mod position;
pub mod question;
pub mod run;
pub mod shell;
pub mod signals;
pub mod snapshot;
pub mod spent;
pub mod states;
pub mod terminal;

pub use error::CliError;
