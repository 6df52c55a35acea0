//! Data that the parts of a run share: of the program, of the run, of each loop and of each task;
//! and the port to the environment of the run.

mod environment;
mod host;
mod loop_context;
mod own_calls;
mod progress;
mod recorder;
mod run;
mod task;

pub use environment::*;
pub use host::*;
pub(crate) use loop_context::*;
pub(crate) use own_calls::*;
pub(crate) use progress::*;
pub(crate) use recorder::*;
pub(crate) use run::*;
pub use task::*;
