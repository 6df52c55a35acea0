//! The run loop: it takes a graph from its input to its end, superstep by superstep.
//!
//! [`CompiledGraph::invoke`](crate::CompiledGraph::invoke) and
//! [`CompiledGraph::run`](crate::CompiledGraph::run) execute a graph within the task of the caller.
//! One loop starts, resumes, replays and streams runs, and runs subgraphs. Its checkpoints go to a
//! [`Checkpointer`], its calls and events to a [`RunEnvironment`].
//!
//! Source: `pregel/_loop.py`, `_algo.py`, `_runner.py` and `main.py` of LangGraph 1.2.22 for the
//! semantics.

pub(crate) mod call_book;
mod call_context;
mod calls;
mod checkpoint_writer;
mod checkpointer;
pub(crate) mod context;
mod event;
mod local;
mod namespace;
mod nested;
mod node_cache;
mod options;
mod panics;
mod projection;
mod questions;
mod recorder;
mod run;
pub(crate) mod schema;
mod shown;
mod sink;
mod spans;
mod stream;
mod supersteps;
pub(crate) mod sync;
mod task;
mod thread;
pub(crate) mod values;

pub use crate::semantics::{Limits, Resuming, Semantics, SubgraphState, Unanswered};
pub use call_book::{
    AskedInput, CallBook, CallHistory, MadeElsewhere, Origin, RecordedCalls, ReuseOrigins,
};
pub use calls::{CallList, Calls};
pub use checkpointer::{
    Checkpoint, CheckpointAddress, CheckpointWrite, CheckpointWrites, Checkpointer,
    CheckpointerError, ExternalInput, InMemoryCheckpointer, StoredCheckpoint, TaskAnswers,
    TaskDetails, TaskFailure, TaskKey, TaskPause, TaskRecord, TaskRecords, TaskWrites, WriteHint,
    WriteResult,
};
pub use context::{EventSource, Given, Host, RunAccount, RunEnvironment, TaskContext, TaskReports};
pub use event::{
    CheckpointRef, MessagePart, Metadata, Modes, Snapshot, SnapshotRun, Source, StreamEvent,
    StreamItem, SubState, TaskEnded, TaskResult, TaskSnapshot, TaskStarted, Written,
};
pub use node_cache::CACHED_MAX;
pub use options::{Continued, Start, StartCommand};
pub use panics::out_of_node;
pub use projection::{LoopBounds, StepOrigin, StoredStep};
pub use questions::{answers_by_id, check_answer, check_open};
pub use run::{Finished, Run, RunStream};
pub use task::tasks_due;
pub use thread::{AsNode, HistoryFilter, StateQuery, StateUpdate};
pub use values::last_writes;
pub use weftwork_engine::Plan;
pub use weftwork_engine::channel::MessageWrite;
pub use weftwork_engine::pregel::Path;
pub use weftwork_types::run::{Answers, Durability, RunOutcome, Stops};
pub use weftwork_types::shown::StateForm;
