//! Tables, one per file: the implementation of the store traits.

mod calls;
mod checkpoint_write;
mod checkpoints;
mod commit;
mod events;
mod interrupts;
mod items;
mod pieces;
mod requeue;
mod retention;
mod runs;
mod threads;
mod transfer;
mod usage;
mod workers;
