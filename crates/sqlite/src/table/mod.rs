//! Tables, one per file: the implementation of the store trait, and the functions that run inside a
//! transaction.

pub(crate) mod back;
pub(crate) mod block;
pub(crate) mod calls;
pub(crate) mod checkpoints;
pub(crate) mod commit;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod held;
pub(crate) mod interrupts;
pub(crate) mod items;
pub(crate) mod keep;
pub(crate) mod log;
pub(crate) mod pieces;
mod retention;
pub(crate) mod runs;
pub(crate) mod search;
mod short;
pub(crate) mod threads;
pub(crate) mod usage;
mod whole;
pub(crate) mod workers;
