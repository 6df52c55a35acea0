//! Runs in this process: no store, no worker, or checkpoints in a [`Saver`].
//!
//! [`CompiledGraph::invoke`](crate::CompiledGraph::invoke) and
//! [`CompiledGraph::run`](crate::CompiledGraph::run) take a graph from its input to its end within
//! the caller's own task. One loop does it all: starting, going on, replaying, streaming, graphs
//! within graphs.
//!
//! Source: `pregel/_loop.py`, `_algo.py`, `_runner.py` and `main.py` of LangGraph 1.2.22 for the
//! semantics.

mod api;
mod begin;
mod behind;
mod call;
pub(crate) mod caught;
mod check;
mod cycle;
mod environment;
mod event;
mod host;
mod in_process;
mod job;
mod keep;
mod kept;
mod known;
mod look;
mod memory;
mod messages;
mod node_cache;
mod questions;
mod run;
mod saver;
mod schema;
pub(crate) mod scope;
mod settle;
mod slot;
mod start;
mod tell;
mod tick;
mod update;
mod wait;

pub use crate::journal::{CallBook, Origin, TaskJournal};
pub(crate) use api::Drain;
pub use api::{
    Answers, Continued, Durability, Keep, Limits, Outcome, Resuming, Semantics, Start,
    StartCommand, Stops, Unanswered,
};
pub use caught::{millis, out_of_node};
pub use environment::{Attempt, RunEnvironment, Speaker};
pub use event::{
    Config, MessagePart, Metadata, Modes, Snapshot, Source, StreamEvent, StreamItem, SubState,
    TaskEnded, TaskResult, TaskSnapshot, TaskStarted, Written,
};
pub use host::Host;
pub use kept::{CallList, Calls};
pub use look::{At, HistoryFilter, last_writes};
pub use memory::MemorySaver;
pub use node_cache::CACHED_MAX;
pub use questions::answers_by_id;
pub use run::{Finished, Run, RunStream};
pub use saver::{
    Checkpoint, Kept, Memo, Outside, Place, Put, Puts, Records, Rest, Saved, Saver, SaverError,
    TaskKey, TaskRecord,
};
pub use schema::Checker;
pub(crate) use scope::Earlier;
pub use scope::TaskAt;
pub(crate) use tell::read_json;
pub use update::{AsNode, StateUpdate};
pub use weftwork_engine::Plan;
pub use weftwork_engine::pregel::Path;
