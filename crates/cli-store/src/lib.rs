//! The commands for what a store has: threads, runs, instances, approvals and artifacts, the store
//! itself, and `weft conformance`.
#![expect(missing_docs, reason = "comments of arguments are the help of commands")]

mod approvals;
mod args;
mod artifacts;
mod conformance;
mod instances;
mod runs;
mod store;
mod threads;
mod usage;

pub use approvals::approvals;
pub use args::{Approvals, Artifacts, Conformance, Instances, Runs, Store, Threads, Usage};
pub use artifacts::artifacts;
pub use conformance::conformance;
pub use instances::instances;
pub use runs::runs;
pub use store::store;
pub use threads::journal::journal_lines;
pub use threads::threads;
pub use usage::usage;
