//! The runtime: admission of runs, their queue, their execution, recovery and shutdown.

mod activities;
mod admission;
mod bill;
mod builder;
mod cancel;
mod core;
mod ended;
mod execution;
mod executor;
mod executor_wrapper;
mod mailboxes;
mod output;
mod queue;
mod recovery;
mod refusals;
mod remote_deletions;
mod remote_servers;
mod retention;
mod shutdown;
mod slots;
mod spent;
mod started;
mod streams;
mod wakes;

pub(crate) use admission::Admit;
pub use admission::check_key;
pub use builder::{Recovery, RuntimeBuilder};
pub use core::{Runtime, WeakRuntime};
pub use ended::EndedRun;
pub use output::{Output, OutputStream};
pub use remote_servers::{RemoteDeletions, delete_remote_threads};
pub use slots::Load;
pub use started::StartedRun;
pub use streams::FollowTarget;
