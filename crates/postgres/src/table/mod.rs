//! Tables, one per file: the implementation of the store traits.

mod accept;
mod bill;
mod calls;
mod checkpoint_write;
mod checkpoints;
mod claim;
mod commit;
mod events;
mod interrupts;
mod items;
mod limit;
mod mailbox;
mod pieces;
mod requeue;
mod retention;
mod runs;
mod search;
mod sequences;
mod threads;
mod transfer;
mod usage;
mod workers;
