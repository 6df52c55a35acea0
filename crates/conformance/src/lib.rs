//! Conformance: graphs and scripts as JSON, played through the public builder, and their traces
//! compared with recorded ones.
//!
//! A spec is a graph and what is done with it. Playing it gives a trace: every event of every run,
//! the state after each, and at the end the thread's history. Two engines that give the same
//! traces behave the same where users can see it. The format is described in `kit/README.md`,
//! beside the specs that were recorded with the reference.
//!
//! ```
//! use weftwork_conformance::{Profile, answer};
//!
//! let spec = r#"{"state": {"log": "append"}, "nodes": {"a": {"do": [["set", "log", ["hi"]]]}},
//!     "edges": [["START", "a"]], "checkpointer": false, "script": [{"input": {}}]}"#;
//! let trace = answer(spec, Profile::LangGraph);
//! let updates = &trace["trace"][0]["events"][1];
//! assert_eq!(updates.to_string(), r#"[[],"updates",{"a":{"log":["hi"]}}]"#);
//! ```

mod build;
mod class;
pub mod compare;
mod crash;
mod error;
mod expr;
mod front;
mod input;
pub mod kit;
mod message;
mod node;
mod play;
mod python;
mod reducer;
mod serve;
mod setting;
mod spec;
mod tally;
mod trace;

pub use error::SpecError;
pub use node::Counts;
pub use play::{Profile, play, play_on};
pub use serve::{GUARD, answer, batch};
pub use setting::{Mode, Opener, Setting, Stores};
pub use spec::Spec;
pub use tally::Tally;
