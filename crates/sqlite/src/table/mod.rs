//! One file per table. Each has the trait of the store, and the work that goes on inside a
//! transaction.

pub(crate) mod back;
pub(crate) mod block;
pub(crate) mod calls;
pub(crate) mod checkpoints;
pub(crate) mod commit;
pub(crate) mod events;
pub(crate) mod held;
pub(crate) mod interrupts;
pub(crate) mod items;
pub(crate) mod keep;
pub(crate) mod log;
pub(crate) mod pieces;
mod retention;
pub(crate) mod runs;
mod short;
pub(crate) mod threads;
pub(crate) mod usage;
mod whole;
pub(crate) mod workers;
