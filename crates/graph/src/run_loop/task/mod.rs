//! Tasks: their identity, their state in the open superstep, and their attempts.

mod attempt;
mod end;
mod key;
mod log;
mod slot;
mod thread;

pub(crate) use attempt::*;
pub(crate) use end::record_task_end;
pub(crate) use key::*;
pub use log::tasks_due;
pub(crate) use log::{call_ended, trigger_names};
pub(crate) use slot::*;
pub(crate) use thread::on_thread;
