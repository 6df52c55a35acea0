//! Command line arguments.

mod approvals;
mod artifacts;
mod conformance;
mod instances;
mod runs;
mod store;
mod threads;
mod usage;

pub(crate) use approvals::ApprovalList;
pub use approvals::Approvals;
pub use artifacts::Artifacts;
pub use conformance::Conformance;
pub(crate) use conformance::{ModeName, ProfileName, RunsName};
pub use instances::Instances;
pub(crate) use instances::{
    Begin, CreateInstance, ResendActivity, SendActivity, TerminateInstance,
};
pub use runs::Runs;
pub(crate) use runs::{After, RunList, Watch};
pub use store::Store;
pub use threads::Threads;
pub(crate) use threads::{Delete, History, List, Prune, Resume, State, Update};
pub use usage::Usage;
