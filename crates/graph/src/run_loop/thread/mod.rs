//! Threads without a run: their state, their history, their calls, and changes from outside.

mod calls;
mod history;
mod inspect;
mod update;

pub use history::*;
pub use inspect::*;
pub use update::*;
