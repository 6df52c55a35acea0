//! Tables, one per file: the implementation of the store trait, and the functions that run inside a
//! transaction.

pub(crate) mod accept;
pub(crate) mod bill;
pub(crate) mod block;
pub(crate) mod calls;
pub(crate) mod checkpoint_write;
pub(crate) mod checkpoints;
pub(crate) mod claim_cache;
pub(crate) mod commit;
mod compact;
pub(crate) mod events;
pub(crate) mod interrupts;
pub(crate) mod items;
mod limit;
pub(crate) mod log;
pub(crate) mod mailbox;
pub(crate) mod pieces;
pub(crate) mod requeue;
mod retention;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod sequences;
pub(crate) mod threads;
mod transfer;
pub(crate) mod usage;
pub(crate) mod workers;
