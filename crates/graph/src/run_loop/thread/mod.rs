//! Threads without a run: their state, their history, their calls, and changes from outside.

mod calls;
mod history;
mod inspect;
mod update;
mod within;

pub use history::*;
pub use inspect::*;
pub use update::*;
