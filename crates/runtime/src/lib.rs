//! Durable runs of graphs: threads and runs over a store.
//!
//! A [`Runtime`] hosts compiled graphs and is the one `GraphExecutor` of a process. It accepts runs,
//! claims them as a worker of its store, executes them until they end, and continues the runs of
//! dead workers. The run loop itself is that of `weftwork-graph`; this crate provides its
//! environment: commits under a claim, the journal of calls, the log of events.

mod context;
pub mod deleted_runs;
mod dependencies;
mod event_bus;
mod follow;
mod fork;
mod graph_source;
mod hosted;
mod inspect;
mod ledger;
pub mod limits;
mod live_runs;
mod modes;
mod origin;
mod patience;
mod program_version;
mod run_kind;
mod runtime;
mod shutdown;
mod stored;
mod thread;
mod thread_snapshot;
mod threads;
mod timers;
mod usage;
pub mod usage_report;
mod view;
mod worker;

pub use dependencies::DependencyError;
pub use follow::FollowFrom;
pub use fork::{FORKED_FROM, ForkSource, copy_thread, fork_thread};
pub use graph_source::{GraphSource, ListedGraph, SourcedGraph, unversioned};
pub use inspect::{thread_history, thread_state};
pub use modes::{Events, Frame, FrameContent, RunOutput, Selection, Subgraphs, Texts, Until};
pub use runtime::{
    EndedRun, FollowTarget, Load, Output, OutputStream, Recovery, RemoteDeletions, Runtime,
    RuntimeBuilder, StartedRun, WeakRuntime, check_key, delete_remote_threads,
};
pub use stored::{CheckedRows, StoreCheckpointer, check_names, check_rows};
pub use thread::{RolledBack, Thread, ThreadRun};
pub use threads::Threads;
pub use view::ThreadView;
pub use worker::LeaseConfig;
