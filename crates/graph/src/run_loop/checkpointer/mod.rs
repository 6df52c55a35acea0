//! The port for checkpoints, and its implementation in memory.

mod memory;
mod port;
mod record;

pub use memory::*;
pub use port::*;
pub use record::*;
