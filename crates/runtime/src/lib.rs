//! Durable runs of graphs: threads and runs over a store.
//!
//! A [`Runtime`] hosts compiled graphs and is the one `GraphExecutor` of a process. It accepts runs,
//! claims them as a worker of its store, takes them to their ends, and continues what dead workers
//! left behind. The run loop itself is that of `weftwork-graph`; this crate provides its
//! environment: commits under a claim, the journal of calls, the log of events.

mod follow;
mod hosted;
mod hub;
mod inspect;
mod journal;
mod runtime;
mod stored;
mod thread;
mod view;
mod worker;

pub use inspect::thread_state;
pub use runtime::{JournalMode, Orphans, Runtime, RuntimeBuilder};
pub use stored::{CheckedRows, StoreSaver, check_names, check_rows};
pub use thread::{RunEnd, Thread, ThreadRun, ThreadStream};
pub use view::ThreadView;
pub use worker::Pace;
