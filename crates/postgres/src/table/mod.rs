//! Tables, one per file: the implementation of the store traits.

mod back;
mod calls;
mod checkpoints;
mod commit;
mod effects;
mod events;
mod interrupts;
mod items;
mod keep;
mod pieces;
mod retention;
mod runs;
mod search;
mod threads;
mod usage;
mod whole;
mod workers;
